"""Small estimators and tables for the tests that cover all estimators."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris

import gpuboost
from gpuboost.estimators import HOMES

ONE_OUTPUT = {"AdaBoostRegressor"}
NAMES = sorted(HOMES)
# Estimators that show their trees; as in scikit-learn, HistGradientBoosting* do not.
WITH_TREES = [name for name in NAMES if not name.startswith("Hist")]


def make(name: str, **params):
    """An estimator that is fast to fit."""
    estimator = getattr(gpuboost, name)(device="numpy", n_jobs=1, random_state=0)
    if hasattr(estimator, "n_estimators"):
        estimator.set_params(n_estimators=5)
    if hasattr(estimator, "max_iter"):
        estimator.set_params(max_iter=5)
    if "GradientBoosting" in name:
        estimator.set_params(learning_rate=0.5)
    return estimator.set_params(**params)


def data_for(name: str):
    """A small data set for the estimator's task."""
    load = load_iris if name.endswith("Classifier") else load_diabetes
    return load(return_X_y=True)


def frame_of(kind: str):
    """A data frame with a categorical column and missing values, and a target.

    Skips the test if the library of the frame is not installed.
    """
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    color = rng.choice(["red", "green", "blue", "grey"], size=300)
    size = rng.normal(size=300).round(2)
    y = (color == "red") * 2.0 + (color == "blue") + (size > 0.5)
    frame = pd.DataFrame({"color": pd.Categorical(color), "size": size})
    frame.loc[::9, "size"] = np.nan
    if kind == "pandas":
        return frame, y
    pytest.importorskip("pyarrow")  # polars converts pandas frames with it
    return pytest.importorskip("polars").from_pandas(frame), y


def fitted_facts(model) -> list[str]:
    """Names of the attributes that ``fit`` has set."""
    return [name for name in vars(model) if name.endswith("_") or name == "_model"]
