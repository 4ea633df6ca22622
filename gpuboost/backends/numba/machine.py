"""Two machine instructions that Python has no word for: memory fetched ahead, a shared counter."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_instruction: Any = intrinsic  # its type hides that Python never calls what it makes
_FOR_READING, _KEEP, _DATA = 0, 3, 1


@_instruction
def prefetch(typing_context, array, row, column):
    """Ask for the cache line of ``array[row, column]``; nobody waits for it."""

    def generate(context, builder, signature, arguments):
        kind = signature.args[0]
        view = context.make_array(kind)(context, builder, arguments[0])
        at = cgutils.get_item_pointer(
            context, builder, kind, view, list(arguments[1:]), wraparound=False
        )
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        takes = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        fetch = cgutils.get_or_insert_function(builder.module, takes, "llvm.prefetch.p0")
        hints = [number(hint) for hint in (_FOR_READING, _KEEP, _DATA)]
        builder.call(fetch, [builder.bitcast(at, byte), *hints])
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


@_instruction
def claim(typing_context, counter):
    """The number in ``counter``, int64 (1,), raised by one: no two threads get the same."""

    def generate(context, builder, signature, arguments):
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("add", view.data, ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(counter), generate
