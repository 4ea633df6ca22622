"""Records of arrays and numbers that compiled functions take by reference.

A named tuple of arrays passed by value is hundreds of machine words: each call copies them, and
every function that takes them is compiled with as many arguments. `by_reference` writes the fields
to memory once, and compiled code gets the address:

    array       no owner (2 words), size, item size, address, shape, strides (in bytes)
    number      1 word; a bool is 0 or 1, a float its bits
    None        1 word, never read
    reference   1 word, the address of the inner record

Compiled code reads fields as attributes (``problem.matrix.codes``). The record never changes, so
the compiler may read a field once and keep it; the elements of its arrays may change.
"""

from __future__ import annotations

import ctypes
import hashlib
import struct
from array import array
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core import cgutils
from numba.core.datamodel.models import PrimitiveModel
from numba.core.datamodel.registry import register_default
from numba.core.imputils import impl_ret_borrowed, lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, unbox

_MACHINE_WORD = ir.IntType(64)
_BYTE: Any = ctypes.c_char
_NUMBERS: dict[Any, types.Type] = {
    bool: types.boolean,
    int: types.int64,
    float: types.float64,
    np.int32: types.int32,
    np.int64: types.int64,
}


class ReferenceType(types.Type):
    """The Numba type of a `Reference`: the named tuple's class, and the types of its fields."""

    def __init__(self, record: type, fields: tuple[tuple[str, types.Type], ...]) -> None:
        self.record, self.fields = record, dict(fields)
        self.places, n_words = {}, 0
        for name, kind in fields:
            self.places[name] = n_words
            n_words += 5 + 2 * kind.ndim if isinstance(kind, types.Array) else 1
        digest = hashlib.sha256(str(fields).encode()).hexdigest()[:16]
        super().__init__(name=f"{record.__name__}_{digest}")


@dataclass(slots=True)
class Reference:
    """A record in memory, made by `by_reference`.

    Attributes
    ----------
    kind : ReferenceType
        Its Numba type.
    address : int
        Address of its first word.
    kept : tuple
        The words and the fields, which live as long as the reference.
    """

    kind: ReferenceType
    address: int
    kept: tuple[Any, ...]

    @property
    def _numba_type_(self) -> ReferenceType:
        return self.kind


def by_reference(record: Any) -> Reference:
    """Write the fields of a named tuple to memory, for compiled functions.

    Named tuples in it are written, too; other fields are references, C-contiguous arrays, numbers
    or None. None itself is returned unchanged.
    """
    keys: list[Any] = []
    words: list[int] = []
    kept: list[Any] = []
    for value in record:
        key: Any = type(value)
        if key is np.ndarray:
            assert value.flags.c_contiguous  # compiled code ignores the strides
            key = value.dtype, value.ndim
            address = _first_byte(value)
            words += (0, 0, value.size, value.itemsize, address, *value.shape, *value.strides)
        elif value is None:
            words.append(0)
        elif key is float:
            words.append(struct.unpack("q", struct.pack("d", value))[0])
        elif key in _NUMBERS:
            words.append(int(value))
        else:
            value = value if key is Reference else by_reference(value)
            key = value.kind
            words.append(value.address)
        keys.append(key)
        kept.append(value)
    own: Any = type(record)
    memory = array("q", words)
    return Reference(_kind_of(own, tuple(keys)), memory.buffer_info()[0], (memory, kept))


def _first_byte(values: np.ndarray) -> int:
    """Address of the first element; ``values.ctypes.data`` takes twice as long."""
    if values.size and values.flags.writeable:
        return ctypes.addressof(_BYTE.from_buffer(values))
    return int(values.ctypes.data)


class KeptReference:
    """Makes references to records one after another, a new one only if a field has changed."""

    def __init__(self) -> None:
        self._record: Any = ()
        self._reference: Any = None

    def to(self, record: Any) -> Reference:
        """`by_reference`, which is called only if a field differs from that of the last record."""
        if len(self._record) != len(record) or any(map(_differ, self._record, record)):
            self._record, self._reference = record, by_reference(record)
        return self._reference


def _differ(one: Any, other: Any) -> bool:
    """Whether two fields are not the same object, nor equal numbers."""
    return one is not other and (
        type(one) is not type(other) or type(one) not in _NUMBERS or one != other
    )


@cache
def _kind_of(record: Any, keys: tuple[Any, ...]) -> ReferenceType:
    """The type of a record whose fields have the given types (dtype and dimensions of arrays)."""
    kinds: list[types.Type] = []
    for key in keys:
        if isinstance(key, tuple):
            kinds.append(types.Array(from_dtype(key[0]), key[1], "C"))
        elif isinstance(key, ReferenceType):
            kinds.append(key)
        else:
            kinds.append(types.none if key is type(None) else _NUMBERS[key])
    return ReferenceType(record, tuple(zip(record._fields, kinds, strict=True)))


@register_default(ReferenceType)
class _ReferenceModel(PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, _MACHINE_WORD.as_pointer())


@unbox(ReferenceType)
def _address_of(kind, obj, c):
    address = c.pyapi.object_getattr_string(obj, "address")
    pointer = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    return NativeValue(c.builder.bitcast(pointer, _MACHINE_WORD.as_pointer()))


@infer_getattr
class _Fields(AttributeTemplate):
    key = ReferenceType

    def generic_resolve(self, kind, name):  # type: ignore[override]
        return kind.fields.get(name)


@lower_getattr_generic(ReferenceType)
def _read_field(context, builder, kind, pointer, name):
    field = kind.fields[name]
    if isinstance(field, types.NoneType):
        return context.get_dummy_value()
    place = cgutils.gep(builder, pointer, kind.places[name])
    own = context.get_value_type(field)
    is_narrow = isinstance(own, ir.IntType) and own.width < _MACHINE_WORD.width
    target = _MACHINE_WORD if is_narrow else own
    value = builder.load(builder.bitcast(place, target.as_pointer()))
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    if is_narrow:
        value = builder.trunc(value, own)
    return impl_ret_borrowed(context, builder, field, value)
