"""Selections between the results of two children, for a block of rows at once.

The vectors have one element per row and are as long as the block: LLVM splits them for the machine.
(Numba also vectorises loops over a block, but with checks at run time that no arrays overlap, which
take longer than such a short loop.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from gpuboost.backends.numba.intrinsics import instruction

_CODE, _NUMBER = ir.IntType(8), ir.IntType(32)
_NODES, _CODES, _RESULTS = range(3)


def selection(n_rows: int, n_levels: int, is_bottom: bool) -> Any:
    """Return the compiled function that selects through ``n_levels`` levels of a perfect tree.

    It takes ``nodes``, records (2**depth,) of uint8 ``threshold`` and uint32 ``column``; ``codes``,
    uint8, where each column has ``n_rows`` elements; ``results``, uint8 (2**depth, ``n_rows``); and
    ``k``, the position of a node. It sets ``results[k]`` to the results of the nodes that the rows
    reach ``n_levels`` below ``k``. If ``is_bottom``, these are leaves, whose result is their
    position less 2**depth; otherwise, it is their row of ``results``.
    """

    @instruction
    def select(typing_context, nodes, codes, results, k):
        def generate(context, builder, signature, arguments):
            *arrays, k = arguments
            selected = _Selection(n_rows, is_bottom, context, builder, signature.args, arrays)
            selected.store(k, selected.result(k, n_levels))
            return context.get_dummy_value()

        return types.void(nodes, codes, results, types.int64), generate

    return select


@dataclass(frozen=True)
class _Selection:
    """Emits the instructions of a selection."""

    n_rows: int
    is_bottom: bool
    context: Any
    builder: Any
    kinds: Any
    arrays: list[Any]

    def result(self, k, n_levels):
        """Results of the nodes that the rows reach ``n_levels`` below node ``k``."""
        builder = self.builder
        if n_levels == 0:
            if self.is_bottom:
                n_leaves = builder.extract_value(self._view(_NODES).shape, 0)
                return self._repeated(builder.trunc(builder.sub(k, n_leaves), _CODE))
            return builder.load(self._row_at(_RESULTS, k, k.type(0)), align=1)
        column = builder.zext(self._field(k, "column", _NUMBER), k.type)
        codes = builder.load(self._row_at(_CODES, column), align=1)
        threshold = self._repeated(self._field(k, "threshold", _CODE))
        left = builder.shl(k, k.type(1))
        children = [self.result(builder.add(left, k.type(i)), n_levels - 1) for i in (0, 1)]
        return builder.select(builder.icmp_unsigned(">", codes, threshold), *reversed(children))

    def store(self, k, result):
        """Set ``results[k]``."""
        self.builder.store(result, self._row_at(_RESULTS, k, k.type(0)), align=1)

    def _view(self, which):
        kind, array = self.kinds[which], self.arrays[which]
        return self.context.make_array(kind)(self.context, self.builder, array)

    def _address(self, which, *indices):
        """Address of an element, without a bounds check."""
        given = self.context, self.builder, self.kinds[which], self._view(which)
        return cgutils.get_item_pointer(*given, indices, wraparound=False)

    def _row_at(self, which, *indices):
        """Address of the vector that begins with an element."""
        vector = ir.VectorType(_CODE, self.n_rows)
        return self.builder.bitcast(self._address(which, *indices), vector.as_pointer())

    def _field(self, k, name, kind):
        offset = self.kinds[_NODES].dtype.offset(name)
        at = cgutils.pointer_add(self.builder, self._address(_NODES, k), offset)
        return self.builder.load(self.builder.bitcast(at, kind.as_pointer()))

    def _repeated(self, byte):
        """The vector of equal bytes."""
        undefined = ir.Constant(ir.VectorType(_CODE, self.n_rows), ir.Undefined)
        first = self.builder.insert_element(undefined, byte, _NUMBER(0))
        lanes = ir.Constant(ir.VectorType(_NUMBER, self.n_rows), [0] * self.n_rows)
        return self.builder.shuffle_vector(first, undefined, lanes)
