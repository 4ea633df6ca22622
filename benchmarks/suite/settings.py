"""The settings that all peers train with, in scikit-learn's names, and the resources of a run."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from typing import Any

from benchmarks.suite.tables import CLASSIFICATION

FOREST, EXTRA_TREES, TREE = "forest", "extra-trees", "tree"
BOOSTING, ADABOOST = "boosting", "AdaBoost"
LOG_LOSS, SQUARED_ERROR, ABSOLUTE_ERROR = "log_loss", "squared_error", "absolute_error"
QUANTILE, POISSON = "quantile", "poisson"
N_BINS = 255  # of every peer's boosting

_CLASS_NAMES = {
    FOREST: "RandomForest",
    EXTRA_TREES: "ExtraTrees",
    TREE: "DecisionTree",
    BOOSTING: "GradientBoosting",
    ADABOOST: "AdaBoost",
}


@dataclass(frozen=True)
class BoostingOptions:
    """Options of gradient boosting other than rounds and depth; no peer stops early.

    Attributes
    ----------
    loss : {"log_loss", "squared_error", "absolute_error", "quantile", "poisson"} or None
        None means log loss in a classification and squared error in a regression.
    quantile : float
        Level of the quantile loss.
    learning_rate, l2 : float
    min_samples_leaf : int
    min_hessian : float
        Minimal sum of hessians in a leaf. The default is LightGBM's, and the fixed value of
        HistGradientBoosting.
    max_leaves : int or None
        Maximal number of leaves of a tree, which then grows best first.
    n_outputs : int
        Number of targets of a regression.
    """

    loss: str | None = None
    quantile: float = 0.5
    learning_rate: float = 0.1
    l2: float = 1.0
    min_samples_leaf: int = 1
    min_hessian: float = 1e-3
    max_leaves: int | None = None
    n_outputs: int = 1


@dataclass(frozen=True)
class Setting:
    """A setting that all peers train with.

    Attributes
    ----------
    family : {"forest", "extra-trees", "tree", "boosting", "AdaBoost"}
    task : {"classification", "regression"}
    n_estimators : int
        Number of trees or rounds.
    max_depth : int or None
        If None, trees grow to purity.
    max_features : str, float or None
        As in scikit-learn; "default" is the default of scikit-learn's estimator.
    boosting : BoostingOptions
        Only used by the family "boosting".
    """

    family: str
    task: str
    n_estimators: int = 100
    max_depth: int | None = None
    max_features: str | float | None = "default"
    boosting: BoostingOptions = field(default_factory=BoostingOptions)

    @property
    def estimator(self) -> str:
        """Name of scikit-learn's class."""
        kind = "Classifier" if self.is_classification else "Regressor"
        return _CLASS_NAMES[self.family] + kind

    @property
    def is_classification(self) -> bool:
        """Whether the task is a classification."""
        return self.task == CLASSIFICATION

    @property
    def loss(self) -> str:
        """The loss that boosting minimises."""
        of_task = LOG_LOSS if self.is_classification else SQUARED_ERROR
        return self.boosting.loss or of_task

    def share_of_features(self, n_features: int) -> float:
        """``max_features`` as a fraction of the features, for peers that expect a fraction."""
        wanted = self.max_features
        if wanted == "default":
            forest = self.family in (FOREST, EXTRA_TREES) and self.is_classification
            wanted = "sqrt" if forest else 1.0
        if wanted == "sqrt":
            return max(1, int(n_features**0.5)) / n_features
        return 1.0 if wanted is None else float(wanted)

    def keywords(self, n_jobs: int, seed: int) -> dict[str, Any]:
        """Keyword arguments of scikit-learn's trees and forests."""
        words: dict[str, Any] = {"max_depth": self.max_depth, "random_state": seed}
        if self.family != TREE:
            words |= {"n_estimators": self.n_estimators, "n_jobs": n_jobs}
        if self.max_features != "default":
            words["max_features"] = self.max_features
        return words


@dataclass(frozen=True)
class Resources:
    """The threads and seed of a run, and the size of its data; the same for every peer."""

    n_jobs: int = 2
    seed: int = 0
    n_features: int = 0
    n_rows: int = 0


def missing_package(module: str, package: str) -> str | None:
    """Why a peer cannot be measured, or None if its module is installed."""
    if importlib.util.find_spec(module) is None:
        return f"{package} is not installed"
    return None
