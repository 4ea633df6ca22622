"""Commands to the threads of a pool, which wait for the next one in compiled code.

Waking a sleeping thread takes 50 to 150 us, as long as a pass over 10,000 rows. So after a command
a thread checks for the next one for a few milliseconds, and yields its core to others meanwhile.
Then it *parks*: it returns to Python and sleeps until `pool.ThreadPool` sends it back.

A command is to run a compiled function of (record, thread, barrier). The words of a pool begin with
those of its barrier; then follow, on separate cache lines:

    COMMAND   number of the command * MAX_THREADS + number of threads that carry it out
    FUNCTION  address of the function, and then of the record
    N_DONE    number of threads, without the calling one, that have carried it out
    LEAVE     whether threads park at once
    thread t  the last COMMAND that it has seen, and whether it waits in compiled code
"""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from gpuboost.backends.numba.compiler import Plugin, entry, inlined
from gpuboost.backends.numba.intrinsics import (
    exchange,
    instruction,
    let_others_run,
    load_acquire,
    raise_by_one,
)
from gpuboost.backends.numba.references import Reference, ReferenceType
from gpuboost.backends.numba.threads.barrier import MAX_SPINS, N_WORDS

COMMAND, FUNCTION, N_DONE, LEAVE, FIRST_THREAD = range(N_WORDS, N_WORDS + 40, 8)
SEEN, STAYS = 0, 1  # of each thread, whose words are at FIRST_THREAD + 8 t
MAX_THREADS = 1 << 16
MAX_YIELDS = 1 << 12  # times that a thread yields its core before it parks: 2 to 4 ms if it is idle
WORDS = types.Array(types.int64, 1, "C")


class SharedFunction:
    """A compiled function of (record, thread, barrier) that the threads of a pool run together."""

    def __init__(self, function: Any) -> None:
        self._plugin = Plugin(function, types.none)
        self._last: tuple[ReferenceType | None, int] = None, 0

    def address(self, record: Reference) -> int:
        """The address of the function for records of this type; compiled if needed."""
        kind, address = self._last
        if kind is not record.kind:
            address = self._plugin.address(record.kind, types.int64, WORDS)
            self._last = record.kind, address
        return address


@instruction
def _call(typing_context, function, record, thread, words):
    """Call a compiled function, given its address and that of its record."""

    def generate(context, builder, signature, arguments):
        pointer, number = ir.IntType(64).as_pointer(), ir.IntType(64)
        takes = [pointer, number, context.get_value_type(WORDS)]
        kind = ir.FunctionType(context.get_value_type(types.none), takes)
        target = builder.inttoptr(arguments[0], kind.as_pointer())
        builder.call(target, [builder.inttoptr(arguments[1], pointer), *arguments[2:]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, WORDS), generate


@inlined
def _carry_out(words, thread):
    """Run the function of the current command."""
    _call(words[FUNCTION], words[FUNCTION + 1], np.int64(thread), words)


@entry
def post(words, command):
    """Begin a command; return whether any of its threads is parked.

    ``words[FUNCTION]`` and the word after it must be set, and the barrier be ready.
    """
    exchange(words, COMMAND, command)
    some_are_parked = False
    for thread in range(1, command % MAX_THREADS):
        some_are_parked |= load_acquire(words, FIRST_THREAD + 8 * thread + STAYS) == 0
    return some_are_parked


@entry
def lead(words, n_others):
    """Carry out the current command in the calling thread, and wait for the others."""
    _carry_out(words, 0)
    wait_for_others(words, n_others)


@inlined
def wait_for_others(words, n_others):
    """Wait until ``n_others`` threads have carried out the command."""
    spins = 0
    while load_acquire(words, N_DONE) < n_others:
        spins += 1
        if spins > MAX_SPINS:
            let_others_run()


@entry
def wait_until_done(words, n_others):
    """`wait_for_others`, for calls from Python."""
    wait_for_others(words, n_others)


@inlined
def _next_command(words, own):
    """Wait for a command that the thread has not seen; return it, or 0 if the thread parks.

    Its words begin at ``own``. Either the calling thread sees that this thread is parked, or this
    thread sees the command: both write before they read what the other writes.
    """
    spins = 0
    exchange(words, own + STAYS, 1)
    while True:
        command = load_acquire(words, COMMAND)
        if command != words[own + SEEN]:
            return command
        spins += 1
        if spins > MAX_SPINS:
            let_others_run()
        if spins > MAX_SPINS + MAX_YIELDS or load_acquire(words, LEAVE) != 0:
            exchange(words, own + STAYS, 0)
            if load_acquire(words, COMMAND) == words[own + SEEN]:
                return np.int64(0)
            exchange(words, own + STAYS, 1)


@entry
def follow(words, thread):
    """Carry out commands until the thread parks."""
    own = FIRST_THREAD + 8 * thread
    while True:
        command = _next_command(words, own)
        if command == 0:
            return
        words[own + SEEN] = command
        if thread < command % MAX_THREADS:
            _carry_out(words, thread)
            raise_by_one(words, N_DONE)
