"""Prefetches, atomic operations on int64 words, and the call that yields the processor.

Everything that a thread wrote before `store_release` is visible to threads that load the stored
value with `load_acquire`.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

instruction: Any = intrinsic  # typed Any: only compiled code calls the result
COUNTED = 16  # elements that `count_up_to` compares together
_FOR_READING, _KEEP, _DATA = 0, 3, 1


def _element(context, builder, kind, array, *indices):
    """Pointer to an element of an array, without a bounds check."""
    view = context.make_array(kind)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, kind, view, indices, wraparound=False)


@instruction
def prefetch(typing_context, array, row, column):
    """Prefetch the cache line of ``array[row, column]`` without waiting for it."""

    def generate(context, builder, signature, arguments):
        at = _element(context, builder, signature.args[0], *arguments)
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        takes = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        fetch = cgutils.get_or_insert_function(builder.module, takes, "llvm.prefetch.p0")
        hints = [number(hint) for hint in (_FOR_READING, _KEEP, _DATA)]
        builder.call(fetch, [builder.bitcast(at, byte), *hints])
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


@instruction
def reference_at(typing_context, addresses, i, like):
    """The `references.Reference` at address ``addresses[i]``, int64, with the type of ``like``."""

    def generate(context, builder, signature, arguments):
        at = _element(context, builder, signature.args[0], *arguments[:2])
        return builder.inttoptr(builder.load(at), ir.IntType(64).as_pointer())

    return like(addresses, types.int64, like), generate


def _own_symbol(name: str) -> str:
    """Register, as ``name``, the system's function that yields the processor; return the name."""
    system = ctypes.CDLL("kernel32" if sys.platform == "win32" else None)
    call = system.SwitchToThread if sys.platform == "win32" else system.sched_yield
    llvm.add_symbol(name, ctypes.cast(call, ctypes.c_void_p).value)
    return name


let_others_run = types.ExternalFunction(_own_symbol("gpuboost_yield"), types.int32())


@instruction
def raise_by_one(typing_context, words, i):
    """Atomically add 1 to ``words[i]``, int64, and return its previous value."""

    def generate(context, builder, signature, arguments):
        at = _element(context, builder, signature.args[0], *arguments[:2])
        return builder.atomic_rmw("add", at, ir.Constant(ir.IntType(64), 1), "acq_rel")

    return types.int64(words, types.int64), generate


@instruction
def add_to(typing_context, array, i, j, k, number):
    """Atomically add a number to ``array[i, j, k]``, int64."""

    def generate(context, builder, signature, arguments):
        at = _element(context, builder, signature.args[0], *arguments[:4])
        builder.atomic_rmw("add", at, arguments[4], "monotonic")
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64, types.int64, types.int64), generate


@instruction
def exchange(typing_context, words, i, number):
    """Store a number in ``words[i]``, int64, and return the old one, before any `load_acquire`."""

    def generate(context, builder, signature, arguments):
        at = _element(context, builder, signature.args[0], *arguments[:2])
        return builder.atomic_rmw("xchg", at, arguments[2], "seq_cst")

    return types.int64(words, types.int64, types.int64), generate


@instruction
def load_acquire(typing_context, words, i):
    """The current value of ``words[i]``, int64, not read before an earlier `exchange`."""

    def generate(context, builder, signature, arguments):
        at = _element(context, builder, signature.args[0], *arguments[:2])
        return builder.load_atomic(at, "seq_cst", align=8)

    return types.int64(words, types.int64), generate


@instruction
def store_release(typing_context, words, i, number):
    """Store a number in ``words[i]``, int64, with release order."""

    def generate(context, builder, signature, arguments):
        at = _element(context, builder, signature.args[0], *arguments[:2])
        builder.store_atomic(arguments[2], at, "release", align=8)
        return context.get_dummy_value()

    return types.void(words, types.int64, types.int64), generate


@instruction
def add_four(typing_context, to, at, summands, row, first):
    """Add ``summands[row, first:first + 4]``, integers, to ``to[at:at + 4]``, int64."""

    def generate(context, builder, signature, arguments):
        kinds = signature.args
        four = ir.VectorType(ir.IntType(kinds[2].dtype.bitwidth), 4)
        sums = ir.VectorType(ir.IntType(64), 4)
        target = _element(context, builder, kinds[0], *arguments[:2])
        source = _element(context, builder, kinds[2], *arguments[2:])
        target = builder.bitcast(target, sums.as_pointer())
        added = builder.load(builder.bitcast(source, four.as_pointer()), align=4)
        added = added if four == sums else builder.sext(added, sums)
        total = builder.add(builder.load(target, align=8), added)
        builder.store(total, target, align=8)
        return context.get_dummy_value()

    integer = types.int64
    return types.void(to, integer, summands, integer, integer), generate


@instruction
def count_up_to(typing_context, table, row, limit):
    """Number of elements of a row of ``table``, float64 (rows, `COUNTED`), that are up to a limit.

    With comparisons one by one, extra-trees of 100k x 28 take 1 to 4% longer (2026-11).
    """

    def generate(context, builder, signature, arguments):
        lanes = ir.VectorType(ir.DoubleType(), COUNTED)
        zero = ir.Constant(ir.IntType(64), 0)
        at = _element(context, builder, signature.args[0], *arguments[:2], zero)
        own = builder.load(builder.bitcast(at, lanes.as_pointer()), align=8)
        integer, none = ir.IntType(32), ir.Constant(lanes, ir.Undefined)
        one = builder.insert_element(none, arguments[2], integer(0))
        to_all = ir.Constant(ir.VectorType(integer, COUNTED), [0] * COUNTED)
        limits = builder.shuffle_vector(one, none, to_all)
        bits = builder.bitcast(builder.fcmp_ordered("<=", own, limits), ir.IntType(COUNTED))
        return builder.zext(builder.ctpop(bits), ir.IntType(64))

    return types.int64(table, types.int64, types.float64), generate
