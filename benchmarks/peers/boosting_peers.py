"""Gradient boosting and AdaBoost of each library, with equal settings.

All libraries get the same number of rounds, depth and number of leaves, learning rate, number of
bins, l2, minimum rows and hessian in a leaf, loss, and number of threads; none stops early.
Functions named after a library return its estimator. `REMARKS` lists the settings for which a
library has no parameter.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from benchmarks.suite.settings import (
    ABSOLUTE_ERROR,
    ADABOOST,
    BOOSTING,
    LOG_LOSS,
    N_BINS,
    POISSON,
    QUANTILE,
    SQUARED_ERROR,
    BoostingOptions,
    Resources,
    Setting,
    missing_package,
)

HIST = "HistGradientBoosting"
CATBOOST = "CatBoost"
REMARKS = {
    "scikit-learn": "exact splits; no l2; one thread (no n_jobs)",
    "XGBoost": "no minimum number of rows in a leaf",
    "LightGBM": "best-first (leaf-wise) growth with at most 2^depth leaves",
    HIST: "edges from 200,000 rows",
    CATBOOST: "symmetric trees, no minimum hessian in a leaf",
}
SMALLEST_POISSON_STEP = 1e-10  # LightGBM multiplies hessians by its exponential and refuses 0

_XGBOOST_OBJECTIVES = {
    SQUARED_ERROR: "reg:squarederror",
    ABSOLUTE_ERROR: "reg:absoluteerror",
    QUANTILE: "reg:quantileerror",
    POISSON: "count:poisson",
}
_LIGHTGBM_OBJECTIVES = {
    SQUARED_ERROR: "regression",
    ABSOLUTE_ERROR: "regression_l1",
    QUANTILE: "quantile",
    POISSON: "poisson",
}
_CATBOOST_LOSSES = {
    SQUARED_ERROR: "RMSE",
    ABSOLUTE_ERROR: "MAE",
    QUANTILE: "Quantile:alpha={}",
    POISSON: "Poisson",
}


# ---- gradient boosting -------------------------------------------------------------------------


def gpuboost(setting: Setting, resources: Resources, device: str) -> Any:
    """gpuboost's gradient boosting."""
    module, options = importlib.import_module("gpuboost"), setting.boosting
    words = _of_scikit_learn(setting, resources)
    words |= {"n_jobs": resources.n_jobs, "device": device, "max_bins": N_BINS}
    words |= {"l2_regularization": options.l2, "min_hessian_leaf": options.min_hessian}
    return getattr(module, setting.estimator)(**words)


def scikit_learn(setting: Setting, resources: Resources) -> Any:
    """scikit-learn's GradientBoosting, which splits at values instead of bins."""
    ensemble = importlib.import_module("sklearn.ensemble")
    model = getattr(ensemble, setting.estimator)(**_of_scikit_learn(setting, resources))
    return of_each_output(model, setting)


def of_each_output(model: Any, setting: Setting) -> Any:
    """The model of a library with one output, or copies of it for several outputs."""
    if setting.boosting.n_outputs == 1:
        return model
    return importlib.import_module("sklearn.multioutput").MultiOutputRegressor(model)


def remark_on_outputs(setting: Setting) -> str:
    """What to add to the remark on a library with one output."""
    return "" if setting.boosting.n_outputs == 1 else "; a model for each output"


def _of_scikit_learn(setting: Setting, resources: Resources) -> dict[str, Any]:
    """Keywords of scikit-learn's GradientBoosting."""
    options = setting.boosting
    words: dict[str, Any] = {
        "loss": setting.loss,
        "n_estimators": setting.n_estimators,
        "learning_rate": options.learning_rate,
        "max_depth": setting.max_depth,
        "max_leaf_nodes": options.max_leaves,
        "min_samples_leaf": options.min_samples_leaf,
        "random_state": resources.seed,
    }
    return words | ({"alpha": options.quantile} if setting.loss == QUANTILE else {})


def xgboost(setting: Setting, resources: Resources) -> Any:
    """XGBoost's gradient boosting with ``tree_method="hist"``."""
    module = importlib.import_module("xgboost")
    kind = module.XGBClassifier if setting.is_classification else module.XGBRegressor
    words = xgboost_words(setting) | {"enable_categorical": True}
    words |= {"n_jobs": resources.n_jobs, "random_state": resources.seed}
    return kind(n_estimators=setting.n_estimators, **words)


def xgboost_words(setting: Setting) -> dict[str, Any]:
    """XGBoost's parameters for a setting, on any device."""
    options = setting.boosting
    words: dict[str, Any] = {
        "tree_method": "hist",
        "max_bin": N_BINS,
        "max_depth": 0 if setting.max_depth is None else setting.max_depth,
        "learning_rate": options.learning_rate,
        "reg_lambda": options.l2,
        "min_child_weight": options.min_hessian,
    }
    if options.max_leaves is not None:
        words |= {"max_leaves": options.max_leaves, "grow_policy": "lossguide"}
    if setting.loss != LOG_LOSS:  # for log loss, XGBoost chooses by the number of classes
        words["objective"] = _XGBOOST_OBJECTIVES[setting.loss]
    if setting.loss == QUANTILE:
        words["quantile_alpha"] = options.quantile
    if setting.loss == POISSON:
        words["max_delta_step"] = 0.0  # the default would double the hessians
    return words


def lightgbm(setting: Setting, resources: Resources, **more: Any) -> Any:
    """LightGBM's gradient boosting; ``more`` are further parameters."""
    module, options = importlib.import_module("lightgbm"), setting.boosting
    kind = module.LGBMClassifier if setting.is_classification else module.LGBMRegressor
    depth = setting.max_depth
    most = min(resources.n_rows, 2**17) if depth is None else 2**depth
    words: dict[str, Any] = {
        "n_estimators": setting.n_estimators,
        "max_depth": -1 if depth is None else depth,
        "num_leaves": options.max_leaves or most,
        "learning_rate": options.learning_rate,
        "max_bin": N_BINS,
        "min_data_in_bin": 1,
        "reg_lambda": options.l2,
        "min_child_samples": options.min_samples_leaf,
        "min_child_weight": options.min_hessian,
        "n_jobs": resources.n_jobs,
        "random_state": resources.seed,
        "verbose": -1,
    } | more
    if setting.loss != LOG_LOSS:
        words["objective"] = _LIGHTGBM_OBJECTIVES[setting.loss]
    if setting.loss == QUANTILE:
        words["alpha"] = options.quantile
    if setting.loss == POISSON:
        words["poisson_max_delta_step"] = SMALLEST_POISSON_STEP
    return of_each_output(kind(**words), setting)


# ---- AdaBoost ----------------------------------------------------------------------------------


def adaboost(setting: Setting, resources: Resources, side: str, device: str = "auto") -> Any:
    """AdaBoost of gpuboost (``side="gpuboost"``) or scikit-learn, with the same kind of trees."""
    words: dict[str, Any] = {"n_estimators": setting.n_estimators, "random_state": resources.seed}
    if side == "gpuboost":
        words |= {"max_depth": setting.max_depth, "n_jobs": resources.n_jobs, "device": device}
        words |= {"criterion": "gini"} if setting.is_classification else {}
        return getattr(importlib.import_module("gpuboost"), setting.estimator)(**words)
    kind = setting.estimator.removeprefix(ADABOOST)
    tree = getattr(importlib.import_module("sklearn.tree"), f"DecisionTree{kind}")
    ensemble = importlib.import_module("sklearn.ensemble")
    return getattr(ensemble, setting.estimator)(tree(max_depth=setting.max_depth), **words)


# ---- peers that only boost ---------------------------------------------------------------------


class Threaded:
    """An estimator that has no parameter for threads, limited to a number of OpenMP threads."""

    def __init__(self, model: Any, n_threads: int) -> None:
        module = importlib.import_module("threadpoolctl")
        # Libraries are searched only once, because that takes longer than a small fit.
        self._pools = module.ThreadpoolController()
        self._model, self._n_threads = model, n_threads

    def fit(self, *data: Any, **more: Any) -> Threaded:
        """Fit the estimator."""
        with self._pools.limit(limits=self._n_threads, user_api="openmp"):
            self._model.fit(*data, **more)
        return self

    def predict(self, X: Any) -> Any:
        """Predict with the estimator."""
        with self._pools.limit(limits=self._n_threads, user_api="openmp"):
            return self._model.predict(X)

    def predict_proba(self, X: Any) -> Any:
        """Predict probabilities of classes."""
        with self._pools.limit(limits=self._n_threads, user_api="openmp"):
            return self._model.predict_proba(X)

    @property
    def classes_(self) -> Any:
        """Classes of a fitted classifier."""
        return self._model.classes_


@dataclass(frozen=True)
class BoostingPeer:
    """Base of the peers that only boost, with the module and the package that they need."""

    module: str = ""
    package: str = ""
    warms_up_whole: bool = False

    def refuses(self, setting: Setting) -> str | None:
        if setting.family != BOOSTING:
            return "has boosting alone"
        return missing_package(self.module, self.package)


@dataclass(frozen=True)
class HistGradientBoosting(BoostingPeer):
    """scikit-learn's histogram-based gradient boosting."""

    name: str = HIST
    module: str = "sklearn"
    package: str = "scikit-learn"

    def make(self, setting: Setting, resources: Resources) -> Any:
        ensemble, options = importlib.import_module("sklearn.ensemble"), setting.boosting
        words: dict[str, Any] = {
            "loss": setting.loss,
            "max_iter": setting.n_estimators,
            "learning_rate": options.learning_rate,
            "max_leaf_nodes": options.max_leaves,
            "max_depth": setting.max_depth,
            "max_bins": N_BINS,
            "l2_regularization": options.l2,
            "min_samples_leaf": options.min_samples_leaf,
            "early_stopping": False,
            "random_state": resources.seed,
        }
        words |= {"quantile": options.quantile} if setting.loss == QUANTILE else {}
        model = getattr(ensemble, f"Hist{setting.estimator}")(**words)
        return Threaded(of_each_output(model, setting), resources.n_jobs)

    def remark(self, setting: Setting) -> str | None:
        least = BoostingOptions().min_hessian
        own = "" if setting.boosting.min_hessian == least else f"; minimum hessian {least}"
        return f"{REMARKS[HIST]}{own}{remark_on_outputs(setting)}"


@dataclass(frozen=True)
class CatBoost(BoostingPeer):
    """CatBoost with symmetric trees, without ordered boosting and without randomness."""

    name: str = CATBOOST
    module: str = "catboost"
    package: str = "catboost"

    def refuses(self, setting: Setting) -> str | None:
        if setting.family == BOOSTING and setting.boosting.max_leaves is not None:
            return "grows symmetric trees"
        return super().refuses(setting)

    def make(self, setting: Setting, resources: Resources) -> Any:
        module, options = importlib.import_module("catboost"), setting.boosting
        classes = setting.is_classification
        words: dict[str, Any] = {
            "iterations": setting.n_estimators,
            "depth": setting.max_depth,
            "learning_rate": options.learning_rate,
            "l2_leaf_reg": options.l2,
            "border_count": N_BINS - 1,
            "boosting_type": "Plain",
            "bootstrap_type": "No",
            "random_strength": 0.0,
            "leaf_estimation_iterations": 1,
            "thread_count": resources.n_jobs,
            "random_seed": resources.seed,
            "verbose": False,
            "allow_writing_files": False,
        }
        if not classes:
            words["loss_function"] = _CATBOOST_LOSSES[setting.loss].format(options.quantile)
        if options.n_outputs > 1:
            words["loss_function"] = "MultiRMSE"
        return (module.CatBoostClassifier if classes else module.CatBoostRegressor)(**words)

    def remark(self, setting: Setting) -> str | None:
        return REMARKS[CATBOOST]
