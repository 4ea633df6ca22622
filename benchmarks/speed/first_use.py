"""``python -m benchmarks first-use``: times of first fits, which compile, and of warm fits."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.report.results import Results, result_path

ALLOWED_COMPILING = 8.0  # CPU seconds in a first fit
_CHECKOUT = Path(__file__).parents[2]

_FITS = """
import sys, time
import gpuboost
from benchmarks.suite.tables import binary
table = binary({case.rows}, 28)
for _ in range({fits}):
    model = gpuboost.{case.estimator}(
        n_estimators=100, random_state=0, n_jobs={n_jobs}, device={device!r}
    )
    started = time.perf_counter()
    model.fit(table.X, table.y)
    print(time.perf_counter() - started, model.device_)
background = sys.modules.get("gpuboost.backends.numba.background")
print(sum(each.seconds for each in background.used_functions) if background else 0.0)
"""


@dataclass(frozen=True)
class FirstUse:
    """A first fit of 100 trees, and how long it may take.

    Attributes
    ----------
    estimator : str
    rows : int
        Rows of a binary table of 28 features.
    allowed : float
        Seconds that it may take, or take longer than a warm fit if `is_extra`.
    is_extra : bool
    """

    estimator: str
    rows: int
    allowed: float
    is_extra: bool

    @property
    def name(self) -> str:
        return f"{self.estimator} {self.rows // 1000}k x 28, 100 trees"


FIRST_USES = (
    FirstUse("GradientBoostingClassifier", 100_000, 4.0, False),
    FirstUse("RandomForestClassifier", 100_000, 10.0, True),
    FirstUse("GradientBoostingClassifier", 900_000, 10.0, True),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--only", metavar="TEXT", help="cases whose name contains this")


def run(args: argparse.Namespace) -> int:
    """Measure each case from an empty cache; return 1 if a bound is missed."""
    results = Results("first_use", result_path(args.name or "first_use"), again=args.again)
    n_missed = 0
    for case in FIRST_USES:
        if args.only and args.only not in case.name:
            continue
        record = results.find(case.name) or measure(case, args.device, args.n_jobs)
        record["missed"] = missed_bounds(case, record)
        results.add(case.name, record)
        print(
            f"{case.name}: first {record['first_seconds']:.2f} s ({record['first_device']}; "
            f"{record['compile_cpu_seconds']:.1f} CPU s of compiling), "
            f"warm {record['warm_seconds']:.2f} s ({record['warm_device']})"
        )
        for sentence in record["missed"]:
            print(f"  MISSED: {sentence}")
        n_missed += len(record["missed"])
    return 1 if n_missed else 0


def measure(case: FirstUse, device: str, n_jobs: int) -> dict[str, Any]:
    """Time a first fit without compiled code, then the second fit of a process that has it all.

    That process compiles, if needed, in its first fit: for device="auto", a first fit on NumPy
    leaves nothing compiled.
    """
    with tempfile.TemporaryDirectory() as empty:
        first, compiling = _fits(case, device, n_jobs, empty, 1)
        warm, _ = _fits(case, "numba" if device == "auto" else device, n_jobs, empty, 2)
    return {
        "first_seconds": first[0],
        "first_device": first[1],
        "compile_cpu_seconds": compiling,
        "warm_seconds": warm[0],
        "warm_device": warm[1],
        "n_jobs": n_jobs,
        "asked_device": device,
    }


def missed_bounds(case: FirstUse, record: dict[str, Any]) -> list[str]:
    """Describe the bounds of a case that are missed."""
    missed, compiling = [], record["compile_cpu_seconds"]
    taken = record["first_seconds"] - (record["warm_seconds"] if case.is_extra else 0.0)
    if taken > case.allowed:
        more = " more than a warm fit" if case.is_extra else ""
        missed.append(f"{taken:.1f} s{more}, {case.allowed:g} allowed")
    if compiling > ALLOWED_COMPILING:
        missed.append(f"{compiling:.1f} CPU s of compiling, {ALLOWED_COMPILING:g} allowed")
    return missed


def _fits(
    case: FirstUse, device: str, n_jobs: int, cache: str, fits: int
) -> tuple[tuple[float, str], float]:
    """Fit in a fresh process; return seconds and device of the last fit, CPU s of compiling."""
    done = subprocess.run(
        [sys.executable, "-c", _FITS.format(case=case, device=device, n_jobs=n_jobs, fits=fits)],
        capture_output=True,
        text=True,
        check=True,
        cwd=_CHECKOUT,
        env={**os.environ, "NUMBA_CACHE_DIR": cache, "GPUBOOST_CACHE_DIR": cache},
    )
    *_, last, compiling = done.stdout.splitlines()
    seconds, used = last.split()
    return (float(seconds), used), float(compiling)
