"""How tests use a real device: one that broke it ends the run, and tools see every array."""

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
    """Where compiled kernels are kept from run to run, None for nowhere."""
    chosen = os.environ.get(CACHE)
    return Path(chosen).resolve() if chosen else None


def is_required() -> bool:
    """Whether a test of a GPU fails, and is not skipped, where there is no device to use."""
    return os.environ.get(REQUIRED) == "1"


def rows_are_capped() -> bool:
    """Whether the environment caps the rows of tables, as it does on the stand-in for CuPy."""
    return MAX_ROWS in os.environ


def rows(wanted: int) -> int:
    """Rows of a table: as many as are wanted, or fewer where they are capped."""
    return min(wanted, int(os.environ.get(MAX_ROWS, wanted)))


def trees(wanted: int) -> int:
    """Trees, or rounds, of a large fit: as many as are wanted, two where rows are capped."""
    return min(wanted, 2) if rows_are_capped() else wanted


def give_back(cupy: Any, test: str) -> None:
    """Wait for what a test launched, and give its memory back; end the run if that cannot be."""
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
    """Whether every array has memory of its own, for tools that check accesses to memory."""
    return os.environ.get(SANITIZER) == "1"


class SeparateArrays:
    """An array module whose arrays are never cut from one piece of memory."""

    separate = True

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def show_every_array(cupy: Any, patch: pytest.MonkeyPatch) -> None:
    """No pool, no pieces that arrays are cut from, and no batches that lie in one arena."""
    from gpuboost.backends.cuda.growth.grower import TreeGrower
    from gpuboost.backends.cuda.runtime.cupy import CupyRuntime

    cupy.cuda.set_allocator(None)
    patch.setattr(CupyRuntime, "xp", SeparateArrays(cupy))
    patch.setattr(TreeGrower, "_record", lambda self, host: None)
