"""``python -m benchmarks explain``: SHAP values of the same trees by each library."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import gpuboost
from benchmarks.peers.peers import LIGHTGBM, OURS, XGBOOST
from benchmarks.report.markdown import Content, markdown, threads_of
from benchmarks.report.results import Results, result_path
from benchmarks.suite.cases import Bound
from benchmarks.suite.tables import binary

TRAINING_ROWS, FEATURES, TREES, DEPTH = 50_000, 28, 200, 8
SHAP = "shap"
LONGEST = 100.0  # seconds of the peer's runs of one case; it runs at least once

Call = Callable[[np.ndarray], Any]


@dataclass(frozen=True)
class Explained:
    """Values of a number of rows.

    Attributes
    ----------
    peer : str
        The library that gpuboost is compared with; XGBoost and LightGBM also grow the trees.
    kind : {"values", "interactions", "background"}
        Path-dependent values, interaction values, or values against `BACKGROUND` rows.
    rows : int
    bound : Bound or None
    tolerance : float or None
        Largest allowed difference between the values of the two libraries, relative to the largest
        value; None if the other library is not exact.
    """

    peer: str
    kind: str
    rows: int
    bound: Bound | None = None
    tolerance: float | None = None

    @property
    def name(self) -> str:
        """Name of the case."""
        what = {
            "values": "SHAP values",
            "interactions": "interactions",
            "background": f"values against {BACKGROUND} rows",
        }
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        return f"{what[self.kind]}, {rows}, {TREES} trees of depth {DEPTH} of {self.peer}"


BACKGROUND = 20
GRID = (
    Explained(XGBOOST, "values", 5000, Bound(0.2, (XGBOOST,)), 1e-5),
    Explained(LIGHTGBM, "values", 5000, Bound(0.1, (LIGHTGBM,)), 1e-9),
    Explained(XGBOOST, "interactions", 100, tolerance=1e-5),
    Explained(SHAP, "values", 1, tolerance=1e-9),
    Explained(SHAP, "background", 100),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--only", metavar="TEXT", help="cases whose name contains this")
    parser.add_argument("--repeat", type=int, default=5, help="default: %(default)s")


def run(args: argparse.Namespace) -> int:
    """Measure each case; return 1 if a bound is missed."""
    results = Results("explain", result_path(args.name or "explain"), again=args.again)
    n_missed = 0
    for case in GRID:
        if args.only and args.only.lower() not in case.name.lower():
            continue
        record = results.find(case.name)
        if record is None:
            record = measure(case, args.n_jobs, args.repeat, args.seed)
            results.add(case.name, record)
        print(f"{record['ratio']:.4f} of {case.peer}'s time: {case.name}", flush=True)
        for sentence in record["missed"]:
            print(f"  MISSED: {sentence}")
        n_missed += len(record["missed"])
    return 1 if n_missed else 0


def measure(case: Explained, n_jobs: int, repeat: int, seed: int) -> dict[str, Any]:
    """Time both libraries alternately on the same trees and rows.

    Returns
    -------
    dict
        Median seconds of each, gpuboost's ratio, and the largest difference between their values,
        relative to the largest value.
    """
    table = binary(TRAINING_ROWS, FEATURES, seed)
    rows = binary(case.rows, FEATURES, seed + 1).X
    background = table.X[:BACKGROUND].astype(np.float64)
    ours, theirs = _sides(case, table, n_jobs, background)
    seconds: dict[str, list[float]] = {OURS: [], case.peer: []}
    found = {}
    for name, call in ((OURS, ours), (case.peer, theirs)):
        found[name] = np.asarray(call(rows[: min(50, case.rows)]))
    difference = np.abs(found[OURS] - found[case.peer]).max() / np.abs(found[case.peer]).max()
    for _ in range(repeat):
        for name, call in ((OURS, ours), (case.peer, theirs)):
            if sum(seconds[name]) < LONGEST:
                seconds[name].append(_seconds(call, rows))
    medians = {name: statistics.median(runs) for name, runs in seconds.items()}
    ratio = medians[OURS] / medians[case.peer]
    verdict = {} if case.bound is None else case.bound.verdict({case.peer: ratio})
    missed = [verdict["missed"]] if "missed" in verdict else []
    if case.tolerance is not None and difference > case.tolerance:
        missed.append(f"values differ by {difference:.1e}, {case.tolerance:g} allowed")
    return {
        "case": case.name,
        "n_jobs": n_jobs,
        "rows": case.rows,
        "peer": case.peer,
        "seconds": medians,
        "runs": seconds,
        "ratio": ratio,
        "difference": float(difference),
        "bounds": [verdict] if verdict else [],
        "missed": missed,
    }


def _seconds(call: Call, rows: np.ndarray) -> float:
    started = time.perf_counter()
    call(rows)
    return time.perf_counter() - started


def _sides(case: Explained, table: Any, n_jobs: int, background: np.ndarray) -> tuple[Call, Call]:
    """The calls of gpuboost and of the peer, with values of equal shapes."""
    if case.peer == XGBOOST:
        return _of_xgboost(case, table, n_jobs)
    if case.peer == LIGHTGBM:
        import lightgbm

        leaves = {"num_leaves": 2**DEPTH, "max_depth": DEPTH, "n_estimators": TREES}
        model = lightgbm.LGBMClassifier(**leaves, n_jobs=n_jobs, verbose=-1)
        model.fit(table.X, table.y)
        own = gpuboost.from_lightgbm(model).set_params(n_jobs=n_jobs)
        return own.shap_values, lambda X: model.predict(X, pred_contrib=True)[:, :-1]
    import shap

    boosted = gpuboost.GradientBoostingClassifier(
        n_estimators=TREES, max_depth=DEPTH, n_jobs=n_jobs
    )
    boosted.fit(table.X, table.y)
    other = background if case.kind == "background" else None
    explainer = shap.TreeExplainer(boosted.to_sklearn(), other)
    return (
        lambda X: boosted.shap_values(X, background=other),
        lambda X: explainer.shap_values(X, check_additivity=False),
    )


def _of_xgboost(case: Explained, table: Any, n_jobs: int) -> tuple[Call, Call]:
    import xgboost

    model = xgboost.XGBClassifier(n_estimators=TREES, max_depth=DEPTH, n_jobs=n_jobs)
    model.fit(table.X, table.y)
    own = gpuboost.from_xgboost(model).set_params(n_jobs=n_jobs)
    booster = model.get_booster()
    if case.kind == "values":
        return own.shap_values, lambda X: booster.predict(
            xgboost.DMatrix(X, nthread=n_jobs), pred_contribs=True
        )[:, :-1]
    return own.shap_interaction_values, lambda X: booster.predict(
        xgboost.DMatrix(X, nthread=n_jobs), pred_interactions=True
    )[:, :-1, :-1]


def explain_table(content: Content) -> str:
    """The table of docs/benchmarks.md."""
    rows = []
    for record in content["records"]:
        seconds, bounds = record["seconds"], record["bounds"]
        allowed = f" ({bounds[0]['allowed']:g})" if bounds else ""
        times = [f"{seconds[name]:.3f}" for name in (OURS, record["peer"])]
        ratio = f"{record['ratio']:.4f}{allowed}"
        rows.append([record["case"], *times, ratio, f"{record['difference']:.1e}"])
    header = ["case", OURS, "other library", "ratio (allowed)", "largest difference"]
    note = (
        f"Seconds with {threads_of(content['records'])}, medians of alternating runs. Both "
        "libraries explain the same trees; the difference is relative to the largest value "
        "(XGBoost adds up its values in float32)."
    )
    return f"{markdown(header, rows)}\n\n{note}"
