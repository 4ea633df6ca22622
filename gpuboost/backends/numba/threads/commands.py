"""Commands to the threads of a pool, which wait for the next one in compiled code.

Waking a sleeping thread takes 50 to 150 us, as long as a pass over 10,000 rows. So after a command
a thread checks for the next one for a few milliseconds, and yields its core to others meanwhile.
Then it *parks*: it returns to Python and sleeps until `pool.ThreadPool` sends it back.

A command is to run a compiled function of (record, barrier). Among the words of a pool's barrier
are, 64 bytes apart:

    COMMAND   number of the command * MAX_THREADS + number of threads that carry it out
    FUNCTION  address of the function, and then of the record
    N_DONE    number of threads, without the calling one, that have carried it out
    LEAVE     whether threads park at once
    thread t  after `barrier.N_TAKEN`: the last COMMAND that it has seen, and whether it waits in
              compiled code
"""

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
from gpuboost.backends.numba.threads.barrier import MAX_SPINS, N_TAKEN, OF_COMMANDS, Barrier

COMMAND, FUNCTION, N_DONE, LEAVE = range(OF_COMMANDS, N_TAKEN, 8)
SEEN, STAYS = N_TAKEN + 1, N_TAKEN + 2  # of thread 0; those of thread t are 8 t words after them
MAX_THREADS = 1 << 16
MAX_YIELDS = 1 << 12  # times that a thread yields its core before it parks: 2 to 4 ms if it is idle
WORDS = types.Array(types.int64, 1, "C")
BARRIER = types.NamedTuple((WORDS, types.int64, types.int64), Barrier)


class SharedFunction:
    """A compiled function of (record, barrier) that the threads of a pool run together."""

    def __init__(self, function: Any) -> None:
        self._plugin = Plugin(function, types.none)
        self._last: tuple[ReferenceType | None, int] = None, 0

    def address(self, record: Reference) -> int:
        """The address of the function for records of this type; compiled if needed."""
        kind, address = self._last
        if kind is not record.kind:
            address = self._plugin.address(record.kind, BARRIER)
            self._last = record.kind, address
        return address


@instruction
def _call(typing_context, function, record, barrier):
    """Call a compiled function, given its address and that of its record."""

    def generate(context, builder, signature, arguments):
        pointer = ir.IntType(64).as_pointer()
        takes = [pointer, context.get_value_type(BARRIER)]
        kind = ir.FunctionType(context.get_value_type(types.none), takes)
        target = builder.inttoptr(arguments[0], kind.as_pointer())
        builder.call(target, [builder.inttoptr(arguments[1], pointer), *arguments[2:]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, BARRIER), generate


@inlined
def _carry_out(words, thread, n_threads):
    """Run the function of the current command."""
    _call(words[FUNCTION], words[FUNCTION + 1], Barrier(words, thread, n_threads))


def next_number(words: np.ndarray, n_threads: int) -> int:
    """The next command, for so many threads."""
    return (int(words[COMMAND]) // MAX_THREADS + 1) * MAX_THREADS + n_threads


@entry
def post(words, command):
    """Begin a command; return whether any of its threads is parked.

    ``words[FUNCTION]`` and the word after it must be set, and the barrier be ready.
    """
    exchange(words, COMMAND, command)
    some_are_parked = False
    for thread in range(1, command % MAX_THREADS):
        some_are_parked |= load_acquire(words, STAYS + 8 * thread) == 0
    return some_are_parked


@entry
def lead(words, n_others):
    """Carry out the current command in the calling thread, and wait for the others."""
    _carry_out(words, np.int64(0), np.int64(n_others + 1))
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

    Its words are ``own`` after those of thread 0. Either the calling thread sees that this thread
    is parked, or this thread sees the command: both write before they read what the other writes.
    """
    spins = 0
    exchange(words, STAYS + own, 1)
    while True:
        command = load_acquire(words, COMMAND)
        if command != words[SEEN + own]:
            return command
        spins += 1
        if spins > MAX_SPINS:
            let_others_run()
        if spins > MAX_SPINS + MAX_YIELDS or load_acquire(words, LEAVE) != 0:
            exchange(words, STAYS + own, 0)
            if load_acquire(words, COMMAND) == words[SEEN + own]:
                return np.int64(0)
            exchange(words, STAYS + own, 1)


@entry
def follow(words, thread):
    """Carry out commands until the thread parks."""
    own = 8 * thread
    while True:
        command = _next_command(words, own)
        if command == 0:
            return
        words[SEEN + own] = command
        if thread < command % MAX_THREADS:
            _carry_out(words, np.int64(thread), np.int64(command % MAX_THREADS))
            raise_by_one(words, N_DONE)
