"""Decides which test runs use several processes."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import joblib
import pytest

MAX_WORKERS = 4  # more workers would compile the same code again
BLAS_THREADS = "OPENBLAS_NUM_THREADS"
SPREAD = ("not slow and not gpu", "slow")
# Options that select some of the tests, or start a debugger.
NARROW = ("keyword", "lf", "failedfirst", "stepwise", "collectonly", "usepdb", "trace")


def spread_over_cores(config: pytest.Config) -> None:
    """Run the whole suite, or all of its slow tests, with one process per core.

    Runs of selected tests, with a debugger or with ``-s`` stay in one process, and ``-n`` takes
    precedence.
    """
    if hasattr(config, "workerinput") or not config.pluginmanager.hasplugin("xdist"):
        return
    asked = config.option
    if asked.numprocesses is None and asked.dist == "no" and is_whole(config):
        asked.numprocesses = _workers()
        asked.dist = "worksteal"
        asked.benchmark_disable = True  # pytest-benchmark would do so with a warning
    if asked.numprocesses:  # OpenBLAS's threads wait in loops, on the cores of other workers
        os.environ.setdefault(BLAS_THREADS, "1")


def is_whole(config: pytest.Config) -> bool:
    """Whether the run has all tests, or all slow ones."""
    kinds = config.option.markexpr
    if config.args_source is pytest.Config.ArgsSource.ARGS or kinds not in SPREAD:
        return False
    if kinds == "slow" and find_spec("cupy"):  # includes tests of the one GPU
        return False
    read_as_it_comes = config.getoption("capture") == "no"
    return not (read_as_it_comes or any(config.getoption(name, None) for name in NARROW))


def put_in_order(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort tests of Numba first, so that with two workers only one of them compiles Numba's code.

    xdist gives each worker an equal share of consecutive tests at first.
    """
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not _is_about_numba(item.path))


@cache
def _is_about_numba(path: Path) -> bool:
    return "numba" in path.read_text(encoding="utf-8")


def _workers() -> int:
    """One worker per core that this process may use; 0 means no workers."""
    cores = min(MAX_WORKERS, joblib.cpu_count())
    return cores if cores > 1 else 0
