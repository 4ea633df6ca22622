"""Launches of kernels whose blocks take tiles of a matrix (``tile.cuh``)."""

from __future__ import annotations

from typing import Any

from gpuboost.backends.cuda.data.features import DeviceFeatures
from gpuboost.backends.cuda.runtime.launch import launch
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant


def launch_on_tiles(
    runtime: Runtime, name: str, X: DeviceFeatures, max_rows: int, **given: Any
) -> None:
    """Launch a kernel over all rows and features of a matrix.

    Parameters
    ----------
    runtime : Runtime
    name : str
        Name of the kernel.
    X : DeviceFeatures
    max_rows : int
        Largest number of rows of a block.
    **given
        The kernel's other arguments.
    """
    threads = constant("data/tile.cuh", "BIN_THREADS")
    grid_y = -(-X.n_features * X.itemsize // constant("data/tile.cuh", "BIN_BYTES"))
    share = -(-max(1, X.n) * grid_y // (4 * runtime.n_multiprocessors))  # few rows: more blocks
    rows = min(max_rows, -(-share // threads) * threads)
    given |= {"X": X.values, "rows_per_block": rows, "constants": constants_of(X)}
    launch(runtime, name, (-(-X.n // rows), grid_y), X, **given)


def constants_of(X: DeviceFeatures) -> dict[str, int]:
    """Compile-time constants of value.cuh for the type of the values in ``X``."""
    return {"DOUBLE": int(X.itemsize == 8)}
