"""The libraries that are compared, behind one interface and with equal settings.

A `Setting` uses scikit-learn's names. Every peer translates it as closely as its own parameters
allow, or says why it cannot. If the translation is not exact, the peer's `remark` in the result
says how it differs. `boosting_peers` translates the settings of boosting.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.peers import boosting_peers
from benchmarks.peers.boosting_peers import HIST, REMARKS, CatBoost, HistGradientBoosting
from benchmarks.peers.recent_boosting import (
    BONSAI,
    HESSBOOST,
    QUANTISED,
    Bonsai,
    Hessboost,
    QuantisedLightGBM,
)
from benchmarks.suite.settings import (
    ADABOOST,
    BOOSTING,
    EXTRA_TREES,
    POISSON,
    TREE,
    Resources,
    Setting,
    missing_package,
)

BOOTSTRAP_SHARE = 0.632  # fraction of distinct rows in a bootstrap, for peers that only subsample
NO_ADABOOST = "has no AdaBoost"


class Peer(Protocol):
    """A library that trains tree ensembles."""

    @property
    def name(self) -> str:
        """Name in results."""

    @property
    def warms_up_whole(self) -> bool:
        """Whether the warm-up must run the whole case, because the peer compiles code for it."""

    def refuses(self, setting: Setting) -> str | None:
        """Why the peer cannot train with this setting, or None if it can."""

    def make(self, setting: Setting, resources: Resources) -> Any:
        """Make an estimator with ``fit``, ``predict`` and, for classifiers, ``predict_proba``."""

    def remark(self, setting: Setting) -> str | None:
        """How the peer's setting differs from scikit-learn's, or None if it does not."""


@dataclass(frozen=True)
class GpuBoost:
    """gpuboost itself."""

    device: str = "auto"
    name: str = "gpuboost"
    warms_up_whole: bool = True

    def refuses(self, setting: Setting) -> str | None:
        return None

    def make(self, setting: Setting, resources: Resources) -> Any:
        if setting.family == BOOSTING:
            return boosting_peers.gpuboost(setting, resources, self.device)
        if setting.family == ADABOOST:
            return boosting_peers.adaboost(setting, resources, OURS, self.device)
        words = setting.keywords(resources.n_jobs, resources.seed)
        if setting.family == TREE:
            words["n_jobs"] = resources.n_jobs
        gpuboost = importlib.import_module("gpuboost")
        return getattr(gpuboost, setting.estimator)(device=self.device, **words)

    def remark(self, setting: Setting) -> str | None:
        return None


@dataclass(frozen=True)
class ScikitLearn:
    """scikit-learn, the reference for settings, defaults and quality."""

    name: str = "scikit-learn"
    warms_up_whole: bool = False

    def refuses(self, setting: Setting) -> str | None:
        if setting.family == BOOSTING and setting.loss == POISSON:
            return "has a Poisson loss only in HistGradientBoosting"
        return None

    def make(self, setting: Setting, resources: Resources) -> Any:
        from sklearn import ensemble, tree

        if setting.family == BOOSTING:
            return boosting_peers.scikit_learn(setting, resources)
        if setting.family == ADABOOST:
            return boosting_peers.adaboost(setting, resources, REFERENCE)

        module = tree if setting.family == TREE else ensemble
        words = setting.keywords(resources.n_jobs, resources.seed)
        return getattr(module, setting.estimator)(**words)

    def remark(self, setting: Setting) -> str | None:
        if setting.family == BOOSTING:
            return f"{REMARKS[self.name]}{boosting_peers.remark_on_outputs(setting)}"
        return "one thread (no n_jobs)" if setting.family in (TREE, ADABOOST) else None


@dataclass(frozen=True)
class ScikitLearnIntelex:
    """Intel's forests, imported from their own module, so that scikit-learn is not patched."""

    name: str = "scikit-learn-intelex"
    warms_up_whole: bool = False

    def refuses(self, setting: Setting) -> str | None:
        if setting.family == TREE:
            return "has no single trees of its own"
        if setting.family in (BOOSTING, ADABOOST):
            return "has no boosting of its own"
        return missing_package("sklearnex", self.name)

    def make(self, setting: Setting, resources: Resources) -> Any:
        module = importlib.import_module("sklearnex.ensemble")
        words = setting.keywords(resources.n_jobs, resources.seed)
        return getattr(module, setting.estimator)(**words)

    def remark(self, setting: Setting) -> str | None:
        return None


@dataclass(frozen=True)
class XGBoost:
    """XGBoost with histograms; a forest is one boosting round of many parallel trees."""

    name: str = "XGBoost"
    warms_up_whole: bool = False

    def refuses(self, setting: Setting) -> str | None:
        if setting.family == EXTRA_TREES:
            return "has no random thresholds"
        if setting.family == ADABOOST:
            return NO_ADABOOST
        return missing_package("xgboost", "xgboost")

    def make(self, setting: Setting, resources: Resources) -> Any:
        if setting.family == BOOSTING:
            return boosting_peers.xgboost(setting, resources)
        xgboost = importlib.import_module("xgboost")
        classes = setting.is_classification
        estimator = xgboost.XGBRFClassifier if classes else xgboost.XGBRFRegressor
        return estimator(
            n_estimators=1 if setting.family == TREE else setting.n_estimators,
            max_depth=0 if setting.max_depth is None else setting.max_depth,
            subsample=1.0 if setting.family == TREE else BOOTSTRAP_SHARE,
            colsample_bynode=setting.share_of_features(resources.n_features),
            tree_method="hist",
            max_bin=255,
            min_child_weight=0,
            reg_lambda=0,
            learning_rate=1.0,
            n_jobs=resources.n_jobs,
            random_state=resources.seed,
        )

    def remark(self, setting: Setting) -> str | None:
        if setting.family == BOOSTING:
            return REMARKS[self.name]
        if setting.family == TREE:
            return "255 bins"
        return f"255 bins; {BOOTSTRAP_SHARE:.1%} of rows without replacement; a tree for each class"


@dataclass(frozen=True)
class LightGBM:
    """LightGBM; forests use ``boosting_type="rf"``, single trees are one round of boosting."""

    name: str = "LightGBM"
    warms_up_whole: bool = False

    def refuses(self, setting: Setting) -> str | None:
        if setting.family == ADABOOST:
            return NO_ADABOOST
        return missing_package("lightgbm", "lightgbm")

    def make(self, setting: Setting, resources: Resources) -> Any:
        if setting.family == BOOSTING:
            return boosting_peers.lightgbm(setting, resources)
        lightgbm = importlib.import_module("lightgbm")
        classes = setting.is_classification
        depth = setting.max_depth
        leaves = min(resources.n_rows, 2**17) if depth is None else 2**depth
        words: dict[str, Any] = {
            "n_estimators": 1 if setting.family == TREE else setting.n_estimators,
            "max_depth": -1 if depth is None else depth,
            "num_leaves": max(2, min(leaves, 2**17)),
            "feature_fraction_bynode": setting.share_of_features(resources.n_features),
            "min_child_samples": 1,
            "min_child_weight": 0.0,
            "reg_lambda": 0.0,
            "max_bin": 255,
            "histogram_pool_size": 1024,
            "n_jobs": resources.n_jobs,
            "random_state": resources.seed,
            "verbose": -1,
        }
        if setting.family == TREE:
            words |= {"learning_rate": 1.0}
        else:
            share = 0.999 if setting.family == EXTRA_TREES else BOOTSTRAP_SHARE
            words |= {"boosting_type": "rf", "subsample": share, "subsample_freq": 1}
            words |= {"extra_trees": setting.family == EXTRA_TREES}
        return (lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor)(**words)

    def remark(self, setting: Setting) -> str | None:
        if setting.family == BOOSTING:
            return f"{REMARKS[self.name]}{boosting_peers.remark_on_outputs(setting)}"
        if setting.family == TREE:
            return "255 bins"
        share = "99.9%" if setting.family == EXTRA_TREES else f"{BOOTSTRAP_SHARE:.1%}"
        drawn = f"{setting.family} on {share} of rows without replacement"
        return f"255 bins; {drawn}; a tree for each class"


OURS, REFERENCE, INTELEX = GpuBoost.name, ScikitLearn.name, ScikitLearnIntelex.name
XGBOOST, LIGHTGBM = XGBoost.name, LightGBM.name
OTHERS: tuple[Peer, ...] = (
    *(ScikitLearn(), ScikitLearnIntelex(), HistGradientBoosting()),
    *(XGBoost(), LightGBM(), CatBoost(), Hessboost(), Bonsai(), QuantisedLightGBM()),
)
PEER_NAMES = (OURS, *(peer.name for peer in OTHERS))
FAST_BOOSTING = (XGBOOST, LIGHTGBM, HIST)  # peers with the same losses and scores
FASTEST_BOOSTING = (*FAST_BOOSTING, HESSBOOST, BONSAI, QUANTISED)


def choose_peers(names: Iterable[str], device: str) -> list[Peer]:
    """The peers with these names; gpuboost runs on ``device``."""
    names = tuple(names)
    unknown = [name for name in names if name not in PEER_NAMES]
    if unknown:
        raise ValueError(f"no peer is called {unknown[0]!r}; there are {', '.join(PEER_NAMES)}.")
    everyone: list[Peer] = [GpuBoost(device), *OTHERS]
    return [peer for peer in everyone if peer.name in names]
