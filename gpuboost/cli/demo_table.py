"""The jobs of ``gpuboost demo``, their outcomes and the tables that show them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuboost.cli.output import print_table

SYNTHETIC = "synthetic"
SCIKIT_LEARN, XGBOOST, LIGHTGBM = "scikit-learn", "XGBoost", "LightGBM"

# Time that scikit-learn takes for one tree of each ensemble, relative to a single tree on all rows
# (measured on 200,000 rows x 16 features with default parameters).
TREE_COST = {
    "BaggingClassifier": 0.8,
    "BaggingRegressor": 0.8,
    "RandomForestClassifier": 0.35,
    "RandomForestRegressor": 0.9,
    "ExtraTreesClassifier": 0.1,
    "ExtraTreesRegressor": 0.35,
    "AdaBoostClassifier": 0.15,
    "AdaBoostRegressor": 0.35,
    "GradientBoostingClassifier": 0.35,
    "GradientBoostingRegressor": 0.35,
}
# Ensembles that scikit-learn trains on one thread.
ONE_THREAD = frozenset(name for name in TREE_COST if name.startswith(("AdaBoost", "Gradient")))


@dataclass(frozen=True)
class DemoTable:
    """The training and test rows of one table."""

    name: str
    X_train: np.ndarray
    X_test: np.ndarray
    y_train: np.ndarray
    y_test: np.ndarray
    is_classification: bool

    @property
    def kind(self) -> str:
        """Last part of the names of estimators for the table."""
        return "Classifier" if self.is_classification else "Regressor"

    @property
    def task(self) -> str:
        """The task in words."""
        return "classification" if self.is_classification else "regression"


@dataclass(frozen=True)
class Job:
    """An estimator, with its parameters, that is trained on one table."""

    estimator: str
    table: DemoTable
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def is_ensemble(self) -> bool:
        """Whether the estimator has several trees."""
        return self.estimator in TREE_COST


@dataclass(frozen=True)
class FitOutcome:
    """The seconds of a fit, the score of its model on the test rows, and gpuboost's ``device_``.

    ``device`` is empty for other libraries.
    """

    seconds: float
    score: float
    device: str = ""


@dataclass(frozen=True)
class Line:
    """One line of the final table: a job with the outcomes of gpuboost and of other libraries."""

    job: Job
    ours: FitOutcome
    others: dict[str, FitOutcome]


def print_outcomes(lines: list[Line], peers: tuple[str, ...]) -> None:
    """Print a table of outcomes, each as seconds and score, for each table of rows."""
    titles = ("estimator", "device", "gpuboost", *peers)
    blocks: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        blocks.setdefault((line.job.table.name, line.job.table.task), []).append(line)
    for own in blocks.values():
        print_table(table_title(own), titles, [row_of(line, peers) for line in own], n_text=2)


def table_title(lines: list[Line]) -> str:
    """Name, task and size of a table, and the number of trees if it is not the default."""
    table = lines[0].job.table
    n_train, n_features = table.X_train.shape
    trees = {line.job.parameters["n_estimators"] for line in lines if line.job.parameters}
    of_trees = "".join(f", ensembles of {number} trees" for number in trees)
    return f"{table.name}, {table.task}: {n_train:,} x {n_features}{of_trees}"


def row_of(line: Line, peers: tuple[str, ...]) -> list[str]:
    """The texts of a line; the title of its table says whether it is of classifiers."""
    outcomes = [line.ours, *(line.others.get(peer) for peer in peers)]
    pairs = [
        f"{short_seconds(each.seconds):>5} {each.score:6.3f}" if each else "-" for each in outcomes
    ]
    name = line.job.estimator.removesuffix("Classifier").removesuffix("Regressor")
    return [name, line.ours.device, *pairs]


def short_seconds(seconds: float) -> str:
    """A time in at most five characters, such as "3.4ms", "340ms", "1.2s" or "123s"."""
    if seconds < 0.9995:
        ms = 1000 * seconds
        return f"{ms:.1f}ms" if ms < 9.95 else f"{ms:.0f}ms"
    return f"{seconds:.1f}s" if seconds < 99.95 else f"{seconds:.0f}s"


def footer(lines: list[Line], seconds: float) -> str:
    """An explanation of the columns, the times on the synthetic tables and the time of the demo."""
    text = [
        "Seconds, and accuracy or R2 on the held-out quarter of the rows. XGBoost and\n"
        "LightGBM are shown where installed, for boosting and random forests."
    ]
    big = [line for line in lines if line.job.table.name == SYNTHETIC]
    for peer in dict.fromkeys(name for line in big for name in line.others):
        both = [
            (line.ours.seconds, line.others[peer].seconds) for line in big if peer in line.others
        ]
        ours, theirs = (sum(column) for column in zip(*both, strict=True))
        text.append(
            f"On the synthetic table: {ours:.1f} s against {peer}'s {theirs:.1f} s, "
            f"{theirs / ours:.1f} times as fast."
        )
    return "\n".join([*text, f"The demo took {seconds:.0f} s."])
