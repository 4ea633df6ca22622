"""``python -m benchmarks choice``: device="auto" beside the better of NumPy and Numba."""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.report.results import Results, result_path

ALLOWED_RATIO = 1.15
# A backend is stopped after this many times the time of the others and some seconds: it has lost.
STOPPED_FACTOR, STOPPED_SECONDS = 1.5, 5.0
MAX_RUNS = 3  # a case above the allowed ratio is measured again, since other processes can delay it
_CHECKOUT = Path(__file__).parents[2]

_FITS = """
import time, warnings
import numpy as np
import gpuboost
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=({case.rows}, {case.features}))
signal = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size={case.rows})
y = np.digitize(signal, np.quantile(signal, np.linspace(0, 1, {case.classes} + 1)[1:-1]))
started = time.perf_counter()
for seed in range({case.fits}):
    model = gpuboost.{case.estimator}(
        random_state=seed, device={device!r}, **{case.words!r}
    ).fit(X, y)
print(time.perf_counter() - started, model.device_)
"""


@dataclass(frozen=True)
class Choice:
    """Equal fits, one after the other in a fresh process.

    Attributes
    ----------
    estimator : str
    rows, features, classes : int
        Size of the table, and number of classes of equal size.
    words : dict
        Parameters of the estimator.
    fits : int
        Number of fits.
    is_compiled : bool
        Whether Numba's code is on disk.
    """

    estimator: str
    rows: int
    features: int
    classes: int = 2
    words: dict[str, Any] = field(default_factory=dict)
    fits: int = 1
    is_compiled: bool = True

    @property
    def name(self) -> str:
        words = ", ".join(f"{name}={value}" for name, value in self.words.items())
        state = "compiled" if self.is_compiled else "not compiled"
        return (
            f"{self.fits} x {self.estimator}({words}) {self.rows} x {self.features}, "
            f"{self.classes} classes, {state}"
        )


_MODELS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("DecisionTreeClassifier", {}),
    ("RandomForestClassifier", {"n_jobs": 2}),
    ("ExtraTreesClassifier", {"n_estimators": 30, "n_jobs": 2}),
    ("GradientBoostingClassifier", {"n_jobs": 2}),
    ("GradientBoostingClassifier", {"max_depth": 8, "n_estimators": 20, "n_jobs": 2}),
)
_TABLES = ((100, 5, 2, 10), (1000, 10, 2, 30), (5000, 10, 20, 1), (16_000, 100, 2, 5))
_LARGE_TABLES = ((100_000, 28, 2, 1), (1_000_000, 10, 2, 1))  # fits of few trees
GRID = (
    Choice("RandomForestClassifier", 10_000, 10, 1000, {"n_jobs": 2}),
    Choice("RandomForestClassifier", 5000, 10, 100, {"n_jobs": 2}),
    Choice("GradientBoostingClassifier", 1000, 10, fits=30),
    Choice("ExtraTreesClassifier", 1000, 10, fits=30),
    Choice("GradientBoostingClassifier", 16_000, 20, fits=40),
    *(
        Choice(estimator, rows, features, classes, words, fits, is_compiled)
        for is_compiled in (True, False)
        for estimator, words in _MODELS
        for rows, features, classes, fits in _TABLES
    ),
    *(
        Choice(estimator, rows, features, classes, {**words, **few}, fits, is_compiled)
        for is_compiled in (True, False)
        for estimator, words in _MODELS
        for few in ({} if estimator.startswith("Decision") else {"n_estimators": 10},)
        for rows, features, classes, fits in _LARGE_TABLES
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--only", metavar="TEXT", help="cases whose name contains this")


def run(args: argparse.Namespace) -> int:
    """Measure each case; return 1 if "auto" takes too long in one."""
    results = Results("choice", result_path(args.name or "choice"), again=args.again)
    n_missed = 0
    with tempfile.TemporaryDirectory() as compiled:
        for case in GRID:
            if args.only and args.only not in case.name:
                continue
            record = results.find(case.name)
            if record is None:
                record = measure(case, compiled)
                results.add(case.name, record)
            seconds = ", ".join(f"{name} {taken:.2f}" for name, taken in record["seconds"].items())
            print(
                f"{record['ratio']:5.2f}  {case.name}: {seconds} s ({record['used']})", flush=True
            )
            n_missed += record["ratio"] > ALLOWED_RATIO
    print(f"{n_missed} of {len(results.records)} above {ALLOWED_RATIO}")
    return 1 if n_missed else 0


def measure(case: Choice, compiled: str) -> dict[str, Any]:
    """Time a case with Numba, NumPy and "auto"; ``compiled`` is a folder that keeps Numba's code.

    The runs of all three alternate, up to `MAX_RUNS` times, and the shortest of each counts. A
    backend that is stopped because it is slower has no seconds.
    """
    if case.is_compiled:
        _fits(case, "numba", compiled, math.inf)
    seconds, used, ratio, n_runs = dict[str, float](), "", math.inf, 0
    devices = ["numba", "numpy", "auto"]
    while ratio > ALLOWED_RATIO and n_runs < MAX_RUNS:
        for device in tuple(devices):
            limit = STOPPED_FACTOR * min(seconds.values(), default=math.inf) + STOPPED_SECONDS
            found = _fits(case, device, compiled, math.inf if device == "auto" else limit)
            if found is None:
                devices.remove(device)
                continue
            taken, used = found
            seconds[device] = min(taken, seconds.get(device, math.inf))
        n_runs += 1
        ratio = seconds["auto"] / min(seconds[device] for device in seconds if device != "auto")
    return {"seconds": seconds, "runs": n_runs, "used": used, "ratio": ratio}


def _fits(case: Choice, device: str, compiled: str, limit: float) -> tuple[float, str] | None:
    """Seconds of a case and the device of its last fit; None if it takes longer than a limit."""
    with tempfile.TemporaryDirectory() as empty:
        folder = compiled if case.is_compiled else empty
        try:
            done = subprocess.run(
                [sys.executable, "-c", _FITS.format(case=case, device=device)],
                capture_output=True,
                text=True,
                check=True,
                cwd=_CHECKOUT,
                env={**os.environ, "NUMBA_CACHE_DIR": folder, "GPUBOOST_CACHE_DIR": folder},
                timeout=None if limit == math.inf else limit + 5,  # with the process's own start
            )
        except subprocess.TimeoutExpired:
            return None
    taken, used = done.stdout.split()
    return float(taken), used
