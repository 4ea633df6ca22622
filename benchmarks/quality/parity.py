"""``python -m benchmarks parity``: check that models are equal on NumPy and Numba, bit for bit."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.quality.quality import ENSEMBLES, SINGLE
from benchmarks.report.results import Results, result_path
from benchmarks.suite.tables import (
    BUNDLED,
    CLASSIFICATION,
    MAKERS,
    Table,
    available_sources,
    bundled,
    load,
    source,
)

FAMILIES = (*ENSEMBLES, "GradientBoosting", *SINGLE)
RUNS = (("numpy", 1), ("numpy", 2), ("numba", 1), ("numba", 2))  # device, threads
SYNTHETIC_ROWS, SYNTHETIC_FEATURES = 20_000, 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--only", metavar="TEXT", help="tables whose name contains this")
    parser.add_argument("--trees", type=int, default=4, help="default: %(default)s")
    parser.add_argument(
        "--estimators",
        default=",".join(FAMILIES),
        help="families of estimators (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Fit every estimator in all `RUNS`; return 1 if any two models differ."""
    results = Results("parity", result_path(args.name or "parity"), again=args.again)
    folder = Path(args.data) if args.data else None
    names = [*BUNDLED, *MAKERS, *(s.name for s in available_sources(folder))]
    different = 0
    for name in names:
        if args.only and args.only.lower() not in name.lower():
            continue
        table = whole_table(name, folder)
        for family in args.estimators.split(","):
            key = f"{name} | {family} | {args.trees} trees"
            record = results.find(key)
            if record is None:
                record = compare(table, family, args.trees, args.seed)
                results.add(key, record)
            different += not record["equal"]
            verdict = "equal" if record["equal"] else f"DIFFERENT: {record['fingerprints']}"
            print(f"{name:28} {family:14} {record['rows']:>9} rows  {verdict}", flush=True)
    return 1 if different else 0


def whole_table(name: str, folder: Path | None) -> Table:
    """Load all rows of a table."""
    if name in BUNDLED:
        return bundled(name)
    if name in MAKERS:
        return MAKERS[name](SYNTHETIC_ROWS, SYNTHETIC_FEATURES, 0)
    if folder is None:
        raise LookupError(f"{name} needs --data, a folder of Parquet tables")
    return load(source(name), folder)


def compare(table: Table, family: str, trees: int, seed: int) -> dict[str, Any]:
    """Fit one estimator in all `RUNS` and compare the fingerprints and the predictions."""
    X = table.X if table.frame is None else table.frame
    found, seconds = {}, {}
    predictions = []
    for device, threads in RUNS:
        started = time.perf_counter()
        model = make(table, family, trees, seed, device, threads).fit(X, table.y)
        seconds[f"{device}, {threads} threads"] = time.perf_counter() - started
        found[f"{device}, {threads} threads"] = model.fingerprint()
        rows = X[:20_000]
        classify = table.task == CLASSIFICATION
        predictions.append(model.predict_proba(rows) if classify else model.predict(rows))
    same_prediction = all(np.array_equal(predictions[0], p) for p in predictions)
    return {
        "table": table.name,
        "estimator": family,
        "rows": len(table.y),
        "features": int(X.shape[1]),
        "fingerprints": found,
        "seconds": seconds,
        "equal": len(set(found.values())) == 1 and same_prediction,
    }


def make(table: Table, family: str, trees: int, seed: int, device: str, threads: int) -> Any:
    """Make an unfitted estimator."""
    import gpuboost

    kind = "Classifier" if table.task == CLASSIFICATION else "Regressor"
    words: dict[str, Any] = {"random_state": seed, "device": device, "n_jobs": threads}
    if family not in SINGLE:
        words["n_estimators"] = trees
    return getattr(gpuboost, family + kind)(**words)
