"""Gradient boosting of hessboost and bonsai-gbt, and LightGBM with quantised gradients."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from benchmarks.peers import boosting_peers
from benchmarks.peers.boosting_peers import BoostingPeer
from benchmarks.suite.settings import (
    ABSOLUTE_ERROR,
    N_BINS,
    POISSON,
    QUANTILE,
    SQUARED_ERROR,
    Resources,
    Setting,
)

HESSBOOST, BONSAI, QUANTISED = "hessboost", "bonsai-gbt", "LightGBM quantised"
_BONSAI_OBJECTIVES = {
    SQUARED_ERROR: "mse",
    ABSOLUTE_ERROR: "mae",
    QUANTILE: "quantile",
    POISSON: "poisson",
}


@dataclass(frozen=True)
class Hessboost(BoostingPeer):
    """hessboost, whose parameters have the names of XGBoost's."""

    name: str = HESSBOOST
    module: str = "hessboost"
    package: str = "hessboost"

    def make(self, setting: Setting, resources: Resources) -> Any:
        module = importlib.import_module("hessboost.sklearn")
        classes = setting.is_classification
        kind = module.HessboostClassifier if classes else module.HessboostRegressor
        words = boosting_peers.xgboost_words(setting)
        level = words.pop("quantile_alpha", None)
        words |= {"n_jobs": resources.n_jobs, "random_state": resources.seed}
        if level is not None:
            words["params"] = {"quantile_alpha": level}
        return kind(n_estimators=setting.n_estimators, **words)

    def remark(self, setting: Setting) -> str | None:
        return boosting_peers.REMARKS["XGBoost"]


@dataclass(frozen=True)
class Bonsai(BoostingPeer):
    """bonsai-gbt; trees grow depth-wise, or best first if the setting limits their leaves."""

    name: str = BONSAI
    module: str = "bonsai"
    package: str = "bonsai-gbt"

    def make(self, setting: Setting, resources: Resources) -> Any:
        module, options = importlib.import_module("bonsai"), setting.boosting
        by_leaves = options.max_leaves is not None
        words: dict[str, Any] = {
            "n_iters": setting.n_estimators,
            "learning_rate": options.learning_rate,
            "grower": "leafwise" if by_leaves else "depthwise",
            "max_leaves": options.max_leaves if by_leaves else 2 ** (setting.max_depth or 16),
            "max_depth": setting.max_depth or 64,
            "n_threads": resources.n_jobs,
            "random_seed": resources.seed,
            "max_bin": N_BINS,
            "params": {
                "tree.lambda_l2": options.l2,
                "tree.min_data_in_leaf": options.min_samples_leaf,
                "tree.min_child_hess": options.min_hessian,
            },
        }
        if setting.is_classification:
            return module.BonsaiClassifier(**words)
        words["objective"] = _BONSAI_OBJECTIVES[setting.loss]
        if setting.loss == QUANTILE:
            words["quantile_alpha"] = options.quantile
        return boosting_peers.of_each_output(module.BonsaiRegressor(**words), setting)

    def remark(self, setting: Setting) -> str | None:
        return f"edges from 200,000 rows{boosting_peers.remark_on_outputs(setting)}"


@dataclass(frozen=True)
class QuantisedLightGBM(BoostingPeer):
    """LightGBM with ``use_quantized_grad``, its fastest way to boost on a CPU."""

    name: str = QUANTISED
    module: str = "lightgbm"
    package: str = "lightgbm"

    def make(self, setting: Setting, resources: Resources) -> Any:
        return boosting_peers.lightgbm(setting, resources, use_quantized_grad=True)

    def remark(self, setting: Setting) -> str | None:
        own = boosting_peers.remark_on_outputs(setting)
        return f"{boosting_peers.REMARKS['LightGBM']}; gradients of 2 bits{own}"
