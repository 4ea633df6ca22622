"""The process that fits the cells of a library; it is ended if a fit takes too long."""

from __future__ import annotations

import os
import sys
import time
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from gpuboost.cli.bench.cells import GPUBOOST, N_TREES, BenchCell, CellOutcome, make_cell_model
from gpuboost.cli.bench.rows import read_rows

WARM_UP_ROWS = 1000  # of other libraries; gpuboost compiles for the size of the table
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def serve(connection: Connection, folder: str, is_classification: bool, seed: int) -> None:
    """Fit the cells that arrive and send their outcomes, until None arrives."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # where libraries print
    warnings.simplefilter("ignore")
    size, rows = -1, ()
    while (cell := connection.recv()) is not None:
        try:
            if cell.rows != size:
                rows, size = read_rows(cell.rows, Path(folder)), cell.rows
            connection.send(measured_cell(cell, rows, is_classification, seed))
        except Exception as error:  # any of a library: it becomes the outcome of the cell
            text = " ".join(str(error).split())[:120]
            sent = CellOutcome(reason=f"{type(error).__name__}: {text}", is_error=True), 0.0
            connection.send(sent)


def measured_cell(
    cell: BenchCell, rows: Any, is_classification: bool, seed: int
) -> tuple[CellOutcome, float]:
    """The outcome of a cell, and the seconds that it took after warming up."""
    X, y, X_test, y_test = rows
    n_trees = N_TREES[cell.model]
    warm = X if cell.library == GPUBOOST else X[:WARM_UP_ROWS]
    make_cell_model(cell, is_classification, min(2, n_trees), seed).fit(warm, y[: len(warm)])
    model = make_cell_model(cell, is_classification, n_trees, seed)
    is_counted = reset_peak()
    began = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - began
    peak = peak_bytes() if is_counted else None
    score = float(model.score(X_test, y_test))
    return CellOutcome(seconds, score, peak), time.perf_counter() - began


def reset_peak() -> bool:
    """Set the peak memory of this process to its memory now; return whether that is possible.

    Only Linux can do this.
    """
    try:
        _RESET.write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def peak_bytes() -> int:
    """Peak memory of this process since `reset_peak`, in bytes."""
    for line in _STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"no VmHWM in {_STATUS}")
