"""Addresses of elements, and views, of arrays in LLVM code; see `lowering`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir as llvm
from numba import types
from numba.core import cgutils

# Numba's record of an array. The first two say who owns the memory, which nobody needs to know.
_FIELDS = ("meminfo", "parent", "nitems", "itemsize", "data", "shape", "strides")
_NUMBER_OF = {name: number for number, name in enumerate(_FIELDS)}
_ELEMENTS = types.Number, types.Boolean, types.Record


def array_field(builder, value, name):
    """Return a field of the record of an array."""
    return builder.extract_value(value, _NUMBER_OF[name])


def is_plain_access(array, index_types):
    """Whether an index of these types is one of an `IndexedArray`."""
    if not isinstance(array, types.Array) or not array.aligned:
        return False
    if not isinstance(array.dtype, _ELEMENTS):
        return False
    plain = [isinstance(kind, types.Integer) or kind == types.slice2_type for kind in index_types]
    return all(plain) and len(index_types) <= array.ndim


@dataclass(frozen=True)
class IndexedArray:
    """An array and the numbers or slices that index its first dimensions.

    Attributes
    ----------
    context, builder
        Numba's target and llvmlite's builder, which appends instructions.
    array, value
        Type and value of the array.
    index_types, indices : sequence
        Types and values of the indices. A negative number counts from the end, as in NumPy.
    """

    context: Any
    builder: Any
    array: Any
    value: Any
    index_types: Any
    indices: Any

    @property
    def is_element(self):
        """Whether the indices are numbers, one for each dimension."""
        is_number = [isinstance(kind, types.Integer) for kind in self.index_types]
        return all(is_number) and len(is_number) == self.array.ndim

    def element_pointer(self):
        """Return the address of an element."""
        builder, data, layout = self.builder, self._field("data"), self.array.layout
        if self.array.ndim == 1 and layout == "C" and not self.index_types[0].signed:
            return builder.gep(data, [self._position(0, None)])
        shape = self._unpacked("shape")
        positions = [self._position(axis, length) for axis, length in enumerate(shape)]
        if layout != "C":
            return self._moved(positions, self._unpacked("strides"))
        index = positions[0]
        for position, length in zip(positions[1:], shape[1:], strict=True):
            index = builder.add(builder.mul(index, length), position)
        return builder.gep(data, [index])

    def view(self, result):
        """Return a view of type ``result``: numbers remove dimensions, slices shorten them."""
        builder, shape, strides = self.builder, self._unpacked("shape"), self._unpacked("strides")
        n_given = len(self.index_types)
        positions, lengths, steps = [], [], []
        for axis, kind in enumerate(self.index_types):
            if isinstance(kind, types.Integer):
                positions.append(self._position(axis, shape[axis]))
                continue
            bounds = (builder.extract_value(self.indices[axis], i) for i in range(2))
            start, stop = (self._clipped(bound, shape[axis]) for bound in bounds)
            positions.append(start)
            lengths.append(self._larger(builder.sub(stop, start), start.type(0)))
            steps.append(strides[axis])
        lengths, steps = lengths + shape[n_given:], steps + strides[n_given:]
        n_items = lengths[0]
        for length in lengths[1:]:
            n_items = builder.mul(n_items, length)
        fields = {
            "nitems": n_items,
            "itemsize": self._field("itemsize"),
            "data": self._moved(positions, strides),
            "shape": cgutils.pack_array(builder, lengths),
            "strides": cgutils.pack_array(builder, steps),
        }
        view = llvm.Constant(self.context.get_value_type(result), None)
        for name, value in fields.items():
            view = builder.insert_value(view, value, _NUMBER_OF[name])
        return view

    def _field(self, name):
        return array_field(self.builder, self.value, name)

    def _unpacked(self, name):
        """Return the lengths or the strides of all dimensions."""
        return cgutils.unpack_tuple(self.builder, self._field(name), self.array.ndim)

    def _moved(self, positions, strides):
        """Return the address of the data, moved by so many strides, which are in bytes."""
        builder = self.builder
        n_bytes = builder.mul(positions[0], strides[0])
        for position, stride in zip(positions[1:], strides[1:], strict=False):
            n_bytes = builder.add(n_bytes, builder.mul(position, stride))
        return cgutils.pointer_add(builder, self._field("data"), n_bytes)

    def _position(self, axis, length):
        """Return the index of a dimension of some length as a machine word."""
        builder, index_type = self.builder, self.index_types[axis]
        word = types.intp if index_type.signed else types.uintp
        position = self.context.cast(builder, self.indices[axis], index_type, word)
        is_constant = isinstance(position, llvm.Constant)
        if not index_type.signed or (is_constant and position.constant >= 0):
            return position
        is_negative = builder.icmp_signed("<", position, position.type(0))
        return builder.select(is_negative, builder.add(position, length), position)

    def _clipped(self, bound, length):
        """Return a bound of a slice within 0 and ``length``."""
        builder, zero = self.builder, length.type(0)
        is_negative = builder.icmp_signed("<", bound, zero)
        from_end = self._larger(builder.add(bound, length), zero)
        is_beyond = builder.icmp_signed(">", bound, length)
        return builder.select(is_negative, from_end, builder.select(is_beyond, length, bound))

    def _larger(self, a, b):
        """Return the larger of two signed integers."""
        return self.builder.select(self.builder.icmp_signed(">", a, b), a, b)
