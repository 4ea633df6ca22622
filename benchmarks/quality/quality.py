"""``python -m benchmarks quality``: test scores beside scikit-learn's, on many tables."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from joblib import parallel_config

from benchmarks.peers.boosting_peers import adaboost
from benchmarks.report.results import Results, result_path
from benchmarks.suite.settings import ADABOOST, Resources, Setting
from benchmarks.suite.tables import (
    BUNDLED,
    CLASSIFICATION,
    MAKERS,
    REGRESSION,
    SOURCES,
    Source,
    Table,
    available_sources,
    bundled,
    load,
    source,
    split,
)

ENSEMBLES = ("Bagging", "RandomForest", "ExtraTrees", ADABOOST)
SINGLE = ("DecisionTree", "ExtraTree")
BOUNDS = {"AUC": 0.005, "accuracy": 0.005, "R2": 0.008}  # how far below an ensemble may score
SYNTHETIC_FEATURES = 20
ADABOOST_DEPTH = {CLASSIFICATION: 1, REGRESSION: 3}  # the defaults of both libraries


@dataclass(frozen=True)
class Comparison:
    """A comparison of one estimator on one table.

    Attributes
    ----------
    estimator : str
        Name of the class without "Classifier" or "Regressor".
    table : str
    seeds : int
        Number of random splits; small tables get a multiple of it.
    n_jobs : int
    trees : int
        Number of trees of random forests, extra-trees and AdaBoost; bagging has ten, its default.
    max_train : int
        Largest number of training rows.
    device : str
        Device of gpuboost.
    """

    estimator: str
    table: str
    seeds: int
    n_jobs: int
    trees: int
    max_train: int
    device: str

    @property
    def key(self) -> str:
        """Key of the comparison's record."""
        return (
            f"{self.table} | {self.estimator} | {self.seeds} seeds, {self.trees} trees, "
            f"{self.max_train} rows | {self.device}"
        )

    def keywords(self, seed: int) -> dict[str, Any]:
        """Parameters that both libraries get."""
        words: dict[str, Any] = {"random_state": seed}
        if self.estimator in ENSEMBLES:
            words["n_jobs"] = self.n_jobs
        if self.estimator in ("RandomForest", "ExtraTrees", ADABOOST):
            words["n_estimators"] = self.trees
        return words


@dataclass
class Scores:
    """Scores of gpuboost, of gpuboost with native categories, and of scikit-learn.

    Each is a dict by metric, with one score per seed.
    """

    ours: dict[str, list[float]] = field(default_factory=dict)
    native: dict[str, list[float]] = field(default_factory=dict)
    theirs: dict[str, list[float]] = field(default_factory=dict)

    def summary(self, metric: str) -> dict[str, float]:
        """Mean scores, and the mean paired difference with its standard error."""
        ours, theirs = np.array(self.ours[metric]), np.array(self.theirs[metric])
        difference = ours - theirs
        spread = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else 0.0
        found = {
            "ours": float(ours.mean()),
            "scikit-learn": float(theirs.mean()),
            "difference": float(difference.mean()),
            "standard_error": float(spread),
        }
        if metric in self.native:
            found["native_categories"] = float(np.mean(self.native[metric]))
        return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--only", metavar="TEXT", help="tables whose name contains this")
    parser.add_argument(
        "--seeds",
        type=int,
        default=5,
        help="number of random splits; small tables get 3 or 6 times as many "
        "(default: %(default)s)",
    )
    parser.add_argument("--trees", type=int, default=100, help="default: %(default)s")
    parser.add_argument(
        "--max-rows", type=int, default=10_000, help="training rows (default: %(default)s)"
    )
    parser.add_argument(
        "--estimators",
        default=",".join((*ENSEMBLES, *SINGLE)),
        help="families of estimators (default: %(default)s)",
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=float("inf"),
        metavar="SECONDS",
        help="start no further comparison after this time; run again to continue",
    )


def run(args: argparse.Namespace) -> int:
    """Compare on every table; return 1 if an ensemble scores too far below scikit-learn's."""
    results = Results("quality", result_path(args.name or "quality"), again=args.again)
    folder = Path(args.data) if args.data else None
    started, missed = time.monotonic(), 0
    for name in table_names(folder, args.only):
        table = None
        for family in args.estimators.split(","):
            comparison = Comparison(
                family, name, args.seeds, args.n_jobs, args.trees, args.max_rows, args.device
            )
            record = results.find(comparison.key)
            if record is None and time.monotonic() - started > args.budget:
                print("budget spent; run again to go on")
                return 1 if missed else 0
            if record is None:
                table = table or read_table(name, folder, args.max_rows)
                record = compare(comparison, table, args.seed)
                results.add(comparison.key, record)
            missed += _report(record)
    return 1 if missed else 0


def compare(comparison: Comparison, table: Table, first_seed: int = 0) -> dict[str, Any]:
    """Fit both libraries on the same splits with the same parameters, and return the record."""
    scores = Scores()
    seeds = comparison.seeds * more_seeds(len(table.y))
    for seed in range(first_seed, first_seed + seeds):
        train, test = split(table, seed, comparison.max_train)
        for side, into in (("scikit-learn", scores.theirs), ("gpuboost", scores.ours)):
            model = _estimator(comparison, table.task, seed, side)
            with parallel_config("threading"):  # processes of bagging would get read-only tables
                model.fit(train.X, train.y)
            _append(into, scores_of(model, test, test.X))
        if table.frame is not None:
            model = _estimator(comparison, table.task, seed, "gpuboost")
            model.fit(train.frame, train.y)
            _append(scores.native, scores_of(model, test, test.frame))
    metrics = {metric: scores.summary(metric) for metric in scores.ours}
    return {
        "table": comparison.table,
        "estimator": comparison.estimator,
        "task": table.task,
        "seeds": seeds,
        "trees": comparison.keywords(0).get("n_estimators"),
        "train_rows": len(train.y),
        "features": table.X.shape[1],
        "metrics": metrics,
        "missed": missed_bounds(comparison.estimator, metrics),
    }


def more_seeds(rows: int) -> int:
    """Factor of the number of splits: larger for small tables, whose scores are noisy but quick."""
    return 6 if rows < 1000 else 3 if rows < 5000 else 1


def missed_bounds(estimator: str, metrics: dict[str, dict[str, float]]) -> list[str]:
    """Describe each metric in which an ensemble scores further below than its bound."""
    if estimator not in ENSEMBLES:
        return []
    sentences = []
    for metric, bound in BOUNDS.items():
        found = metrics.get(metric)
        if found is None or found["difference"] >= -bound:
            continue
        sentences.append(
            f"{metric} {-found['difference']:.4f} below (standard error "
            f"{found['standard_error']:.4f}), {bound} allowed"
        )
    return sentences


def table_names(
    folder: Path | None, only: str | None, sources: tuple[Source, ...] = SOURCES
) -> list[str]:
    """Names of the tables that contain ``only``."""
    names = [*BUNDLED, *MAKERS, *(s.name for s in available_sources(folder, sources))]
    chosen = [n for n in names if only is None or only.lower() in n.lower()]
    if not chosen:
        raise ValueError(f"no table contains {only!r}; there are: {', '.join(names)}")
    return chosen


def read_table(name: str, folder: Path | None, max_train: int, seed: int = 0) -> Table:
    """Load a table; of a large one, only as many random rows as the splits need.

    ``seed`` is the seed of synthetic tables.
    """
    if name in BUNDLED:
        return bundled(name)
    if name in MAKERS:
        return MAKERS[name](2 * max_train, SYNTHETIC_FEATURES, seed)
    if folder is None:
        raise LookupError(f"{name} needs --data, a folder of Parquet tables")
    return load(source(name), folder, max_rows=3 * max_train)


def _estimator(comparison: Comparison, task: str, seed: int, side: str) -> Any:
    if comparison.estimator == ADABOOST:  # the default criteria differ
        setting = Setting(ADABOOST, task, comparison.trees, max_depth=ADABOOST_DEPTH[task])
        resources = Resources(comparison.n_jobs, seed)
        return adaboost(setting, resources, side, comparison.device)
    name = comparison.estimator + ("Classifier" if task == CLASSIFICATION else "Regressor")
    words = comparison.keywords(seed)
    if side == "gpuboost":
        import gpuboost

        return getattr(gpuboost, name)(device=comparison.device, **words)
    from sklearn import ensemble, tree

    return getattr(ensemble if hasattr(ensemble, name) else tree, name)(**words)


def scores_of(model: Any, test: Table, X: Any) -> dict[str, float]:
    """Test scores of a fitted model by metric."""
    from sklearn.metrics import accuracy_score, r2_score, recall_score, roc_auc_score

    predicted = model.predict(X)
    if test.task == REGRESSION:
        return {"R2": float(r2_score(test.y, predicted))}
    found = {"accuracy": float(accuracy_score(test.y, predicted))}
    if test.n_classes == 2:
        found["AUC"] = float(roc_auc_score(test.y, model.predict_proba(X)[:, 1]))
    else:
        found["mean recall"] = float(
            recall_score(test.y, predicted, labels=np.unique(test.y), average="macro")
        )
    return found


def _append(into: dict[str, list[float]], found: dict[str, float]) -> None:
    for metric, value in found.items():
        into.setdefault(metric, []).append(value)


def _report(record: dict[str, Any]) -> int:
    parts = [
        f"{metric} {found['ours']:.4f} / {found['scikit-learn']:.4f} "
        f"({found['difference']:+.4f} ± {found['standard_error']:.4f})"
        + (f" native {found['native_categories']:.4f}" if "native_categories" in found else "")
        for metric, found in record["metrics"].items()
    ]
    print(f"{record['table']:14s} {record['estimator']:13s} {'; '.join(parts)}", flush=True)
    for sentence in record["missed"]:
        print(f"  MISSED: {sentence}")
    return len(record["missed"])
