"""``gpuboost warmup``: compiles all programs of the Numba backend, in several processes."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager, nullcontext

from gpuboost.backends.cache import compiled_programs, mark_compiled
from gpuboost.backends.compiling import omit_notice
from gpuboost.cli.models.interruption import ctrl_c_handled
from gpuboost.cli.output import print_table, progress, say
from gpuboost.cli.programs import WARM_UP_PROGRAMS
from gpuboost.data.parameters import thread_count

_BY_NAME = {program.name: program for program in WARM_UP_PROGRAMS}
Functions = dict[str, float]  # CPU seconds that it took to compile each function


def run(n_processes: int | None = None) -> int:
    """Compile all programs, show progress and print the CPU seconds of each; return 0.

    If all programs are marked as compiled by an earlier run, nothing is done.

    ``n_processes`` processes (default: one per core) take the programs in turn. What a process has
    compiled serves its later programs, too; a function that two processes need at the same time is
    compiled twice.
    """
    names = [program.name for program in WARM_UP_PROGRAMS]
    if len(compiled_programs(names)) == len(names):
        print("All programs are compiled already; `gpuboost info` lists them.")
        return 0
    n_processes = min(n_processes or thread_count(None), len(WARM_UP_PROGRAMS))
    began, found = time.perf_counter(), dict[str, Functions]()
    say(f"compiling {len(names)} programs in {n_processes} processes ...")
    with _processes(n_processes) as pool, progress("compiling", len(names), "programs") as bar:
        with _ctrl_c_ignored():
            waiting = [pool.submit(compile_program, name) for name in names]
        for done in as_completed(waiting):
            name, functions = done.result()
            found[name] = functions
            bar.advance()
    print_table("", ("program", "functions compiled", "CPU seconds"), report(found))
    seconds = time.perf_counter() - began
    print(f"All programs are compiled: {seconds:.1f} s in {n_processes} processes.")
    return 0


def compile_program(name: str) -> tuple[str, Functions]:
    """Run the fits of a program and mark it; return its name and the functions compiled for it."""
    from gpuboost.backends.numba.background import used_functions

    omit_notice()
    n_before = len(used_functions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about models of few trees
        for fit in _BY_NAME[name].fits:
            fit.run()
    folders = {each.folder for each in used_functions if each.folder is not None}
    if folders:
        mark_compiled(min(folders), name)
    return name, {each.name: each.seconds for each in used_functions[n_before:] if each.is_new}


def report(found: dict[str, Functions]) -> list[tuple[str, int, str]]:
    """What each program added to those compiled before it, and all together, by row."""
    rows = []
    for program in WARM_UP_PROGRAMS:
        added = found[program.name]
        rows.append((program.text, len(added), f"{sum(added.values()):.1f}"))
    n_functions = len(set[str]().union(*found.values()))
    total = sum(sum(added.values()) for added in found.values())
    return [*rows, ("all programs together", n_functions, f"{total:.1f}")]


@contextmanager
def _processes(n: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes, which are ended if the block is left by an exception.

    They ignore Ctrl-C, which this process handles. If one is killed, BrokenProcessPool is raised.
    """
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(n, context, signal.signal, (signal.SIGINT, signal.SIG_IGN))
    try:
        yield pool
    except BaseException:
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _ctrl_c_ignored() -> AbstractContextManager[None]:
    """Ignore Ctrl-C, so that processes that start now do so too."""
    return nullcontext() if sys.platform == "win32" else ctrl_c_handled(signal.SIG_IGN)
