"""Fits that are stopped and resumed."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import gpuboost
from gpuboost.callbacks import Checkpoint

KINDS = (
    *("RandomForestRegressor", "ExtraTreesClassifier", "BaggingClassifier", "AdaBoostClassifier"),
    *("AdaBoostRegressor", "GradientBoostingClassifier", "GradientBoostingRegressor"),
)
_PARAMETERS: dict[str, dict[str, Any]] = {
    "RandomForestRegressor": {"oob_score": True},
    "ExtraTreesClassifier": {"max_depth": 6},
    "BaggingClassifier": {"max_features": 0.6, "oob_score": True},
    "AdaBoostClassifier": {"max_depth": 2},
    "AdaBoostRegressor": {"max_depth": 3, "boosting": "resampling"},
    "GradientBoostingClassifier": {"subsample": 0.7, "n_iter_no_change": 10, "tol": 1e-6},
    "GradientBoostingRegressor": {"loss": "huber", "max_features": 0.5},
}


def data(n_rows: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, values and classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 5)).astype(np.float32)
    y = X[:, 0] * X[:, 1] + rng.normal(size=n_rows) * 0.5
    return X, y, (y > 0).astype(int) + (X[:, 2] > 1.0)


def make(name: str, n_estimators: int, device: str = "numpy", **more: Any) -> Any:
    """An estimator to be stopped."""
    own = {"n_estimators": n_estimators, "random_state": 3, "device": device, "n_jobs": 1}
    return getattr(gpuboost, name)(**own, **_PARAMETERS[name], **more)


def fit(model: Any, n_rows: int = 400) -> Any:
    """Fit on the values or classes; boosting gets an evaluation set, too."""
    X, y, classes = data(n_rows)
    target = classes if type(model).__name__.endswith("Classifier") else y
    more = {}
    if type(model).__name__ == "GradientBoostingRegressor":
        more["eval_set"] = [(X[:50], y[:50])]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Some inputs do not have OOB scores")
        return model.fit(X, target, **more)


def main() -> None:
    """Fit with a checkpoint, until the process is killed: ``name n_estimators path device``."""
    name, n_estimators, path, device = sys.argv[1:]
    checkpoint = Checkpoint(Path(path), every_trees=3)
    print("starts", flush=True)
    fit(make(name, int(n_estimators), device, callbacks=[checkpoint]), 2000)
    print("ends", flush=True)


if __name__ == "__main__":
    main()
