"""Which runs of the tests are spread over processes."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import joblib
import pytest

MAX_WORKERS = 4  # more only compile the same code once more
SPREAD = ("not slow and not gpu", "slow")
# Options that ask for less than that, or for a debugger.
NARROW = ("keyword", "lf", "failedfirst", "stepwise", "collectonly", "usepdb", "trace")


def spread_over_cores(config: pytest.Config) -> None:
    """Run the whole suite, or all of its slow tests, in a process per core.

    What is asked for by name, looked at with a debugger or read as it comes stays in one process,
    and who says ``-n`` gets that many.
    """
    if hasattr(config, "workerinput") or not config.pluginmanager.hasplugin("xdist"):
        return
    asked = config.option
    if asked.numprocesses is None and asked.dist == "no" and _is_whole(config):
        asked.numprocesses = _workers()
        asked.dist = "worksteal"
        asked.benchmark_disable = True  # pytest-benchmark would warn that it does so


def _is_whole(config: pytest.Config) -> bool:
    """Whether nothing but kinds of tests is asked for."""
    kinds = config.option.markexpr
    if config.args_source is pytest.Config.ArgsSource.ARGS or kinds not in SPREAD:
        return False
    if kinds == "slow" and find_spec("cupy"):  # tests of a GPU are among them, and it is but one
        return False
    read_as_it_comes = config.getoption("capture") == "no"
    return not (read_as_it_comes or any(config.getoption(name, None) for name in NARROW))


def put_in_order(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have a worker of two meet all that Numba compiles, so that it is not compiled twice at once.

    Each begins with as many tests as the others, one after the other as they are listed.
    """
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not _is_about_numba(item.path))


@cache
def _is_about_numba(path: Path) -> bool:
    return "numba" in path.read_text(encoding="utf-8")


def _workers() -> int:
    """One for each core there is for this process; 0 stands for no workers at all."""
    cores = min(MAX_WORKERS, joblib.cpu_count())
    return cores if cores > 1 else 0
