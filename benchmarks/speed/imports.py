"""``python -m benchmarks import``: times of an import, and of the first fit in a fresh process."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.report.results import Results, result_path

ALLOWED_RATIO = 1.3  # of `import gpuboost` to `import sklearn.ensemble`
ALLOWED_FIRST_FIT = 3.0  # seconds; compiling would take tens of seconds
_CHECKOUT = Path(__file__).parents[2]

_TIME_IMPORT = """
import time
started = time.perf_counter()
{statement}
print(time.perf_counter() - started)
"""
_STATEMENTS = (
    "import gpuboost",
    "from gpuboost import RandomForestClassifier",
    "import sklearn.ensemble",
)

_LOADED = """
import sys
import gpuboost
heavy = ("numba", "cupy", "pandas", "polars", "tqdm", "matplotlib")
print(" ".join(name for name in heavy if name in sys.modules))
"""

_FIRST_FIT = """
import time
from benchmarks.suite.tables import binary
from gpuboost import RandomForestClassifier
table = binary({rows}, 20)
started = time.perf_counter()
model = RandomForestClassifier(random_state=0).fit(table.X, table.y)
print(time.perf_counter() - started, model.device_)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--repeat", type=int, default=9, help="default: %(default)s")
    parser.add_argument("--rows", type=int, default=3000, help="rows of the first fit")


def run(args: argparse.Namespace) -> int:
    """Measure; return 1 if the import is too slow or loads too much, or the first fit is slow."""
    results = Results("import", result_path(args.name or "import"), again=True)
    ours, estimator, theirs = (statistics.median(times) for times in _import_times(args.repeat))
    loaded = optional_modules_loaded()
    with tempfile.TemporaryDirectory() as empty:
        seconds, device = _python(_FIRST_FIT.format(rows=args.rows), NUMBA_CACHE_DIR=empty).split()
    record = {
        "import_seconds": ours,
        "estimator_seconds": estimator,
        "sklearn_ensemble_seconds": theirs,
        "ratio": max(ours, estimator) / theirs,
        "loaded_optional": loaded,
        "first_fit_rows": args.rows,
        "first_fit_seconds": float(seconds),
        "first_fit_device": device,
    }
    missed = missed_bounds(record)
    results.add("import", {**record, "missed": missed})
    print(
        f"import gpuboost {ours:.3f} s, with an estimator {estimator:.3f} s, sklearn.ensemble "
        f"{theirs:.3f} s, ratio {record['ratio']:.2f}\n"
        f"first fit of {args.rows} rows in a fresh process with an empty compile cache: "
        f"{record['first_fit_seconds']:.2f} s on {device}"
    )
    for sentence in missed:
        print(f"MISSED: {sentence}")
    return 1 if missed else 0


def missed_bounds(record: dict[str, Any]) -> list[str]:
    """Describe each missed bound of time, and the optional libraries that were loaded."""
    sentences = []
    if record["ratio"] > ALLOWED_RATIO:
        sentences.append(f"{record['ratio']:.2f} of scikit-learn's import, {ALLOWED_RATIO} allowed")
    if record["loaded_optional"]:
        sentences.append(f"import loads {', '.join(record['loaded_optional'])}")
    if record["first_fit_seconds"] > ALLOWED_FIRST_FIT:
        sentences.append(f"the first fit takes more than {ALLOWED_FIRST_FIT} s")
    return sentences


def optional_modules_loaded() -> list[str]:
    """Optional libraries that ``import gpuboost`` loads in a fresh process."""
    return _python(_LOADED).split()


def _import_times(repeat: int) -> list[list[float]]:
    """Seconds of each statement in alternating, fresh processes; the first warm up the disk."""
    turns = [
        [float(_python(_TIME_IMPORT.format(statement=s))) for s in _STATEMENTS]
        for _ in range(repeat + 1)
    ]
    return [list(times) for times in zip(*turns[1:], strict=True)]


def _python(script: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=_CHECKOUT,
        env={**os.environ, **environment},
    )
    return done.stdout
