"""Tests on a real device: ending a run after a broken device, and runs under a sanitizer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

SANITIZER = "GPUBOOST_TEST_SANITIZER"
CACHE = "GPUBOOST_TEST_CACHE_DIR"
REQUIRED = "GPUBOOST_REQUIRE_GPU"
MAX_ROWS = "GPUBOOST_TEST_ROWS"


def kernel_folder() -> Path | None:
    """The folder that keeps compiled kernels between runs, or None."""
    chosen = os.environ.get(CACHE)
    return Path(chosen).resolve() if chosen else None


def is_required() -> bool:
    """Whether tests of a GPU fail, rather than being skipped, if there is no usable device."""
    return os.environ.get(REQUIRED) == "1"


def rows_are_capped() -> bool:
    """Whether the environment limits the rows of tables, as on the stand-in for CuPy."""
    return MAX_ROWS in os.environ


def rows(wanted: int) -> int:
    """Number of rows of a table: ``wanted``, or the limit in the environment."""
    return min(wanted, int(os.environ.get(MAX_ROWS, wanted)))


def trees(wanted: int) -> int:
    """Number of trees or rounds of a large fit: ``wanted``, or two if rows are limited."""
    return min(wanted, 2) if rows_are_capped() else wanted


def give_back(cupy: Any, test: str) -> None:
    """Wait for the launches of a test and free its memory; end the run if this fails."""
    try:
        cupy.cuda.runtime.deviceSynchronize()
        cupy.get_default_memory_pool().free_all_blocks()
    except Exception as error:
        pytest.exit(
            f"{test} broke the device for this process ({type(error).__name__}: {error}): "
            "every test after it would fail. Go on without it by --finished"
        )


# ---- compute-sanitizer -----------------------------------------------------------------------


def for_sanitizer() -> bool:
    """Whether every array has separate memory, for tools that check accesses to memory."""
    return os.environ.get(SANITIZER) == "1"


class SeparateArrays:
    """An array module whose arrays never share one block of memory."""

    separate = True

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def show_every_array(cupy: Any, patch: pytest.MonkeyPatch) -> None:
    """Use no memory pool, no arrays that share memory, and no recorded batches in an arena."""
    from gpuboost.backends.cuda.growth.grower import TreeGrower
    from gpuboost.backends.cuda.runtime.cupy import CupyRuntime

    cupy.cuda.set_allocator(None)
    patch.setattr(CupyRuntime, "xp", SeparateArrays(cupy))
    patch.setattr(TreeGrower, "_record", lambda self, host: None)
