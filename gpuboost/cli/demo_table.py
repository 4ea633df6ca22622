"""The jobs of ``gpuboost demo``, their outcomes and the table that shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

SYNTHETIC = "synthetic"

# Time that scikit-learn takes for one tree of each ensemble, relative to a single tree on all rows
# (measured on 200,000 rows x 16 features with default parameters).
TREE_COST = {
    "BaggingClassifier": 0.8,
    "BaggingRegressor": 0.8,
    "RandomForestClassifier": 0.35,
    "RandomForestRegressor": 0.9,
    "ExtraTreesClassifier": 0.1,
    "ExtraTreesRegressor": 0.35,
    "AdaBoostClassifier": 0.15,  # this and the following ensembles use one thread
    "AdaBoostRegressor": 0.35,
    "GradientBoostingClassifier": 0.35,
    "GradientBoostingRegressor": 0.35,
}


@dataclass(frozen=True)
class DemoTable:
    """The training and test rows of one table."""

    name: str
    X_train: np.ndarray
    X_test: np.ndarray
    y_train: np.ndarray
    y_test: np.ndarray
    is_classification: bool


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

    ``device`` is empty for scikit-learn.
    """

    seconds: float
    score: float
    device: str = ""


@dataclass(frozen=True)
class Line:
    """One line of the final table: a job with the outcomes of gpuboost and of scikit-learn."""

    job: Job
    ours: FitOutcome
    theirs: FitOutcome


_ROW = "{:<36} {:>16}  {:<7} {:>8} {:>8} {:>10} {:>8} {:>6}"
_TITLES = "estimator,rows x features,device,seconds,score,sklearn s,score,ratio"


def table_text(lines: list[Line]) -> str:
    """The outcomes as plain text, with a block for each name of a table."""
    header = _ROW.format(*_TITLES.split(","))
    rule = "-" * len(header)
    text = [header, rule]
    for name, block in groupby(lines, lambda line: line.job.table.name):
        text += [name, *map(_row, block), ""]
    return "\n".join([*text[:-1], rule])


def _row(line: Line) -> str:
    job, ours, theirs = line.job, line.ours, line.theirs
    n_train, n_features = job.table.X_train.shape
    trees = f" ({job.parameters['n_estimators']})" if job.parameters else ""
    return _ROW.format(
        f"  {job.estimator}{trees}",
        f"{n_train:,} x {n_features}",
        ours.device,
        *(f"{ours.seconds:.3f}", f"{ours.score:.4f}"),
        *(f"{theirs.seconds:.3f}", f"{theirs.score:.4f}"),
        f"{ours.seconds / theirs.seconds:.2f}",
    )


def footer(lines: list[Line], seconds: float) -> str:
    """An explanation of the columns, the times on the synthetic tables and the time of the demo."""
    big = [line for line in lines if line.job.table.name == SYNTHETIC]
    ours = sum(line.ours.seconds for line in big)
    theirs = sum(line.theirs.seconds for line in big)
    return (
        "score: accuracy or R2 on the held-out quarter of the rows; (n): number of trees, if not "
        "the default; ratio: seconds / scikit-learn's.\n"
        f"On the synthetic table: {ours:.1f} s against scikit-learn's {theirs:.1f} s, "
        f"{theirs / ours:.1f} times as fast. The demo took {seconds:.0f} s."
    )
