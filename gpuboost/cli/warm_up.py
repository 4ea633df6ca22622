"""``gpuboost warmup``: compiles all programs of the Numba backend, in several processes."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

from gpuboost.backends.cache import compiled_programs, mark_compiled
from gpuboost.backends.compiling import omit_notice
from gpuboost.cli.programs import WARM_UP_PROGRAMS, Program
from gpuboost.data.parameters import thread_count

_BY_NAME = {program.name: program for program in WARM_UP_PROGRAMS}
_REPORT_ROW = "{:<28} {:>9} {:>13} {:>13}"
Functions = dict[str, float]  # CPU seconds to compile each function, 0 if it was read from disk


def run(n_processes: int | None = None) -> int:
    """Compile all programs, show progress and print the CPU seconds of each; return 0.

    If all programs are marked as compiled by an earlier run, nothing is done.

    Each program runs in its own process, ``n_processes`` of them at a time (default: one per core).
    A function that two processes need at the same time is compiled twice.
    """
    names = [program.name for program in WARM_UP_PROGRAMS]
    if len(compiled_programs(names)) == len(names):
        print("All programs are compiled already; `gpuboost info` lists them.")
        return 0
    n_processes = min(n_processes or thread_count(None), len(WARM_UP_PROGRAMS))
    began, found = time.perf_counter(), dict[str, Functions]()
    with _processes(n_processes) as pool, tqdm(total=len(WARM_UP_PROGRAMS), unit="program") as bar:
        bar.set_description("compiling")
        for name, functions in pool.imap_unordered(compile_program, names):
            found[name] = functions
            bar.update()
    print(report(found, time.perf_counter() - began, n_processes))
    return 0


def compile_program(name: str) -> tuple[str, Functions]:
    """Run the fits of a program and mark it; return its name and functions."""
    from gpuboost.backends.numba.background import used_functions

    omit_notice()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about models of few trees
        for fit in _BY_NAME[name].fits:
            fit.run()
    folders = {each.folder for each in used_functions if each.folder is not None}
    if folders:
        mark_compiled(min(folders), name)
    return name, {each.name: each.seconds for each in used_functions}


def report(found: dict[str, Functions], seconds: float, n_processes: int) -> str:
    """A table of the programs, and of all of them together.

    A program's seconds are those of all its functions, even if another program compiled them.
    """
    slowest: Functions = {}
    for functions in found.values():
        for function, own in functions.items():
            slowest[function] = max(own, slowest.get(function, 0.0))
    titles = ("program", "functions", "compiled now", "CPU seconds")
    lines = [_REPORT_ROW.format(*titles), "-" * len(_REPORT_ROW.format(*titles))]
    rows: list[tuple[Program | None, Functions]] = [
        (each, found[each.name]) for each in WARM_UP_PROGRAMS
    ]
    for program, functions in (*rows, (None, slowest)):
        new = [slowest[function] for function in functions if slowest[function]]
        text = program.text if program else "all programs together"
        lines.append(_REPORT_ROW.format(text, len(functions), len(new), f"{sum(new):.1f}"))
    lines.append(f"All programs are compiled: {seconds:.1f} s in {n_processes} processes.")
    return "\n".join(lines)


@contextmanager
def _processes(n: int) -> Iterator[Any]:
    """A pool of processes that is terminated at the end; each runs one program, then is replaced.

    They ignore Ctrl-C, which this process handles.
    """
    context = multiprocessing.get_context("spawn")
    with _ctrl_c_ignored():
        pool = context.Pool(n, initializer=_ignore_ctrl_c, maxtasksperchild=1)
    try:
        yield pool
    finally:
        pool.terminate()
        pool.join()


def _ignore_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    """Ignore Ctrl-C, so that processes that start now do so too."""
    if threading.current_thread() is not threading.main_thread() or sys.platform == "win32":
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
