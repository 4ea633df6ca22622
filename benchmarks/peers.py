"""The libraries that are compared, behind one interface and with equal settings.

A `Setting` says what is asked for in scikit-learn's words. Every peer translates it as closely as
its own parameters allow, or says why it cannot; where the translation is not exact, its `remark`
says so in the result.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.tables import CLASSIFICATION

FOREST, EXTRA_TREES, TREE = "forest", "extra-trees", "tree"
BOOTSTRAP_SHARE = 0.632  # distinct rows of a bootstrap sample, for peers that only subsample

_CLASS_NAMES = {FOREST: "RandomForest", EXTRA_TREES: "ExtraTrees", TREE: "DecisionTree"}


@dataclass(frozen=True)
class Setting:
    """What every peer is asked to train.

    Attributes
    ----------
    family : {"forest", "extra-trees", "tree"}
    task : {"classification", "regression"}
    n_estimators : int
    max_depth : int or None
        None grows to purity.
    max_features : str, float or None
        As in scikit-learn; "default" is that of scikit-learn's estimator.
    """

    family: str
    task: str
    n_estimators: int = 100
    max_depth: int | None = None
    max_features: str | float | None = "default"

    @property
    def estimator(self) -> str:
        """Name of scikit-learn's class."""
        kind = "Classifier" if self.task == CLASSIFICATION else "Regressor"
        return _CLASS_NAMES[self.family] + kind

    def share_of_features(self, n_features: int) -> float:
        """``max_features`` as a share of the features, for peers that want one."""
        wanted = self.max_features
        if wanted == "default":
            forest = self.family != TREE and self.task == CLASSIFICATION
            wanted = "sqrt" if forest else 1.0
        if wanted == "sqrt":
            return max(1, int(n_features**0.5)) / n_features
        return 1.0 if wanted is None else float(wanted)

    def keywords(self, n_jobs: int, seed: int) -> dict[str, Any]:
        """Keywords of scikit-learn's class."""
        words: dict[str, Any] = {"max_depth": self.max_depth, "random_state": seed}
        if self.family != TREE:
            words |= {"n_estimators": self.n_estimators, "n_jobs": n_jobs}
        if self.max_features != "default":
            words["max_features"] = self.max_features
        return words


@dataclass(frozen=True)
class Resources:
    """What a run may use, the same for every peer."""

    n_jobs: int = 2
    seed: int = 0
    n_features: int = 0
    n_rows: int = 0


class Peer(Protocol):
    """A library that trains tree ensembles."""

    @property
    def name(self) -> str:
        """Name in results."""

    @property
    def warms_up_whole(self) -> bool:
        """Whether the warm-up has to run the very case, because it compiles."""

    def refuses(self, setting: Setting) -> str | None:
        """Why the peer cannot train this, None if it can."""

    def make(self, setting: Setting, resources: Resources) -> Any:
        """An estimator with ``fit``, ``predict`` and, for classes, ``predict_proba``."""

    def remark(self, setting: Setting) -> str | None:
        """How the peer's setting differs from scikit-learn's, None if it does not."""


def _missing(module: str, package: str) -> str | None:
    if importlib.util.find_spec(module) is None:
        return f"{package} is not installed"
    return None


@dataclass(frozen=True)
class GpuBoost:
    """This library."""

    device: str = "auto"
    name: str = "gpuboost"
    warms_up_whole: bool = True

    def refuses(self, setting: Setting) -> str | None:
        return None

    def make(self, setting: Setting, resources: Resources) -> Any:
        import gpuboost

        words = setting.keywords(resources.n_jobs, resources.seed)
        if setting.family == TREE:
            words["n_jobs"] = resources.n_jobs
        return getattr(gpuboost, setting.estimator)(device=self.device, **words)

    def remark(self, setting: Setting) -> str | None:
        return None


@dataclass(frozen=True)
class ScikitLearn:
    """The reference for settings, defaults and quality."""

    name: str = "scikit-learn"
    warms_up_whole: bool = False

    def refuses(self, setting: Setting) -> str | None:
        return None

    def make(self, setting: Setting, resources: Resources) -> Any:
        from sklearn import ensemble, tree

        module = tree if setting.family == TREE else ensemble
        words = setting.keywords(resources.n_jobs, resources.seed)
        return getattr(module, setting.estimator)(**words)

    def remark(self, setting: Setting) -> str | None:
        return "one thread: it has no n_jobs" if setting.family == TREE else None


@dataclass(frozen=True)
class ScikitLearnIntelex:
    """Intel's forests, from its own module: scikit-learn's classes are not patched."""

    name: str = "scikit-learn-intelex"
    warms_up_whole: bool = False

    def refuses(self, setting: Setting) -> str | None:
        if setting.family == TREE:
            return "has no single trees of its own"
        return _missing("sklearnex", self.name)

    def make(self, setting: Setting, resources: Resources) -> Any:
        module = importlib.import_module("sklearnex.ensemble")
        words = setting.keywords(resources.n_jobs, resources.seed)
        return getattr(module, setting.estimator)(**words)

    def remark(self, setting: Setting) -> str | None:
        return None


@dataclass(frozen=True)
class XGBoost:
    """XGBoost's random forests: one boosting round of many parallel trees, on histograms."""

    name: str = "XGBoost"
    warms_up_whole: bool = False

    def refuses(self, setting: Setting) -> str | None:
        if setting.family == EXTRA_TREES:
            return "has no random thresholds"
        return _missing("xgboost", "xgboost")

    def make(self, setting: Setting, resources: Resources) -> Any:
        xgboost = importlib.import_module("xgboost")
        classes = setting.task == CLASSIFICATION
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
        if setting.family == TREE:
            return "255 bins"
        return f"255 bins; {BOOTSTRAP_SHARE:.1%} of rows without replacement; a tree for each class"


@dataclass(frozen=True)
class LightGBM:
    """LightGBM's random forests (``boosting="rf"``), and single trees as one round of boosting."""

    name: str = "LightGBM"
    warms_up_whole: bool = False

    def refuses(self, setting: Setting) -> str | None:
        return _missing("lightgbm", "lightgbm")

    def make(self, setting: Setting, resources: Resources) -> Any:
        lightgbm = importlib.import_module("lightgbm")
        classes = setting.task == CLASSIFICATION
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
        if setting.family == TREE:
            return "255 bins"
        share = "99.9%" if setting.family == EXTRA_TREES else f"{BOOTSTRAP_SHARE:.1%}"
        drawn = f"{setting.family} on {share} of rows without replacement"
        return f"255 bins; {drawn}; a tree for each class"


OURS, REFERENCE = GpuBoost.name, ScikitLearn.name
OTHERS: tuple[Peer, ...] = (ScikitLearn(), ScikitLearnIntelex(), XGBoost(), LightGBM())
PEER_NAMES = (OURS, *(peer.name for peer in OTHERS))


def choose_peers(names: Iterable[str], device: str) -> list[Peer]:
    """The peers of these names, gpuboost on ``device``."""
    names = tuple(names)
    unknown = [name for name in names if name not in PEER_NAMES]
    if unknown:
        raise ValueError(f"no peer is called {unknown[0]!r}; there are {', '.join(PEER_NAMES)}.")
    everyone: list[Peer] = [GpuBoost(device), *OTHERS]
    return [peer for peer in everyone if peer.name in names]
