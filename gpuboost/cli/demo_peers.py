"""The other libraries of ``gpuboost demo``, with the settings of gpuboost's estimators."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from gpuboost.cli.demo_table import LIGHTGBM, SCIKIT_LEARN, XGBOOST, Job

DEFAULT_TREES = 100
BOOSTING_DEPTH, LEARNING_RATE = 3, 0.1  # defaults of GradientBoosting*
BOOTSTRAP_SHARE = 0.632  # fraction of distinct rows in a bootstrap, as XGBoost only subsamples
LIGHTGBM_LEAVES = 2**17  # of LightGBM
# With fewer rows, one thread is faster in XGBoost and LightGBM, by far where cores are shared.
THREADED_ROWS = 5_000
_MODULES = {XGBOOST: "xgboost", LIGHTGBM: "lightgbm"}
_BOTH = ("GradientBoosting", "RandomForest")


def installed_peers() -> tuple[str, ...]:
    """scikit-learn, and those of XGBoost and LightGBM that are installed."""
    found = [name for name, module in _MODULES.items() if importlib.util.find_spec(module)]
    return (SCIKIT_LEARN, *found)


def make_peer(peer: str, job: Job, seed: int) -> Any:
    """The estimator of another library for a job, or None; small tables take one core."""
    words = {"random_state": seed, **job.parameters}
    if peer == SCIKIT_LEARN:
        module = importlib.import_module("sklearn.ensemble" if job.is_ensemble else "sklearn.tree")
        model = getattr(module, job.estimator)(**words)
        return model.set_params(n_jobs=-1) if hasattr(model, "n_jobs") else model
    if not job.estimator.startswith(_BOTH):
        return None
    n_jobs = -1 if len(job.table.X_train) >= THREADED_ROWS else 1
    words = {"n_estimators": DEFAULT_TREES, "n_jobs": n_jobs, "reg_lambda": 0.0, **words}
    make = _xgboost if peer == XGBOOST else _lightgbm
    return make(job, {**words, "max_bin": 255})


def _features_per_node(job: Job) -> float:
    """Fraction of the features at each node of a random forest: a root for classes, else all."""
    return job.table.X_train.shape[1] ** -0.5 if job.table.is_classification else 1.0


def _xgboost(job: Job, words: dict[str, Any]) -> Any:
    xgboost, kind = importlib.import_module("xgboost"), job.table.kind
    words = {"tree_method": "hist", "min_child_weight": 0.0, **words}
    if job.estimator.startswith("GradientBoosting"):
        words |= {"max_depth": BOOSTING_DEPTH, "learning_rate": LEARNING_RATE}
        return getattr(xgboost, f"XGB{kind}")(**words)
    words |= {"max_depth": 0, "subsample": BOOTSTRAP_SHARE}
    return getattr(xgboost, f"XGBRF{kind}")(colsample_bynode=_features_per_node(job), **words)


def _lightgbm(job: Job, words: dict[str, Any]) -> Any:
    # Its min_child_weight stays 0.001: with 0, forests on small tables fail an internal check.
    lightgbm = importlib.import_module("lightgbm")
    words = {"min_child_samples": 1, "verbose": -1, **words}
    if job.estimator.startswith("GradientBoosting"):
        leaves = 2**BOOSTING_DEPTH
        words |= {"max_depth": BOOSTING_DEPTH, "num_leaves": leaves, "learning_rate": LEARNING_RATE}
    else:
        words |= {"boosting_type": "rf", "subsample": BOOTSTRAP_SHARE, "subsample_freq": 1}
        words["num_leaves"] = max(2, min(len(job.table.X_train), LIGHTGBM_LEAVES))
        words["feature_fraction_bynode"] = _features_per_node(job)
    return getattr(lightgbm, f"LGBM{job.table.kind}")(**words)
