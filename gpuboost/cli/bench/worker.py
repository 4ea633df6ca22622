"""The process that fits the cells of a library; it is ended if a fit takes too long."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from gpuboost.cli.bench.cells import GPUBOOST, TREES_OF, BenchCell, CellOutcome, make_cell_model
from gpuboost.cli.bench.rows import read_rows

PEER_WARM_UP_ROWS = 1000  # of other libraries; gpuboost compiles for the size of the table
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def serve(folder: str, is_classification: bool, seed: int) -> None:
    """Read cells from standard input, one per line as JSON, and write their outcomes.

    An outcome is the JSON of a list: the fields of `CellOutcome`, and the seconds of the cell after
    warming up. Nothing else reaches standard output, whatever libraries print.
    """
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the other process
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    with open(os.devnull, "w", encoding="utf-8") as nowhere, answers:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
        size, rows = -1, tuple[np.ndarray, ...]()
        for line in sys.stdin:
            cell = BenchCell(**json.loads(line))
            if cell.rows != size:
                rows, size = read_rows(cell.rows, Path(folder)), cell.rows
            outcome, seconds = answer(cell, rows, is_classification, seed)
            print(json.dumps([asdict(outcome), seconds]), file=answers, flush=True)


def answer(
    cell: BenchCell, rows: Any, is_classification: bool, seed: int
) -> tuple[CellOutcome, float]:
    """The result of `measured_cell`; an error of the library becomes the reason of the outcome."""
    try:
        return measured_cell(cell, rows, is_classification, seed)
    except Exception as error:
        text = " ".join(str(error).split())[:120]
        return CellOutcome(reason=f"{type(error).__name__}: {text}", is_error=True), 0.0


def measured_cell(
    cell: BenchCell, rows: Any, is_classification: bool, seed: int
) -> tuple[CellOutcome, float]:
    """The outcome of a cell, and the seconds that it took after warming up."""
    X, y, X_test, y_test = rows
    n_trees = TREES_OF[cell.model]
    warm = X if cell.library == GPUBOOST else X[:PEER_WARM_UP_ROWS]
    first = make_cell_model(cell, is_classification, min(2, n_trees), seed)
    first.fit(warm, y[: len(warm)]).score(X_test, y_test)  # compiles predictions, too
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


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2] == "classes", int(sys.argv[3]))
