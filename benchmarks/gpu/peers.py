"""Who is measured on a GPU: this library, XGBoost and cuML, all fed with arrays on the device."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from benchmarks.gpu.cases import CUML, XGBOOST
from benchmarks.gpu.device import Device, Served, on_host
from benchmarks.peers import BOOTSTRAP_SHARE, EXTRA_TREES, OURS, TREE, GpuBoost, Resources, Setting
from benchmarks.tables import CLASSIFICATION

N_BINS = 255
DEEPEST = 64  # levels of a forest "to purity", for a peer that has no word for it


@dataclass(frozen=True)
class DeviceTable:
    """Training data where a peer wants them.

    Attributes
    ----------
    X : array on the device of float32 of shape (n, F)
    y : array on the device, float32
    X_host, y_host : ndarray
    task : str
    """

    X: Any
    y: Any
    X_host: np.ndarray
    y_host: np.ndarray
    task: str


class GpuPeer(Protocol):
    """A library that trains tree ensembles on a GPU."""

    @property
    def name(self) -> str:
        """Name in results."""

    def refuses(self, setting: Setting) -> str | None:
        """Why the peer cannot train this, None if it can."""

    def fit(self, data: DeviceTable, setting: Setting, seed: int) -> Any:
        """A model."""

    def predict(self, model: Any, X: Any) -> Any:
        """Probabilities of classes (n, 2) or of the second class (n,), or values."""

    def remark(self, setting: Setting) -> str | None:
        """How the peer's setting differs from scikit-learn's, None if it does not."""


@dataclass(frozen=True)
class Ours:
    """This library, on the device that is measured."""

    device: Device
    name: str = OURS

    def refuses(self, setting: Setting) -> str | None:
        return None

    def fit(self, data: DeviceTable, setting: Setting, seed: int) -> Any:
        rows, features = data.X_host.shape
        resources = Resources(seed=seed, n_features=features, n_rows=rows)
        model = GpuBoost("cuda").make(setting, resources)
        with Served(self.device):
            return model.fit(data.X, data.y_host)

    def predict(self, model: Any, X: Any) -> Any:
        with Served(self.device):
            return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)

    def remark(self, setting: Setting) -> str | None:
        return None


@dataclass(frozen=True)
class XGBoostOnGpu:
    """XGBoost's random forest: one round of many parallel trees, predicted in place."""

    name: str = XGBOOST

    def refuses(self, setting: Setting) -> str | None:
        if setting.family == EXTRA_TREES:
            return "has no random thresholds"
        return _missing("xgboost", self.name)

    def fit(self, data: DeviceTable, setting: Setting, seed: int) -> Any:
        xgboost = importlib.import_module("xgboost")
        words = self._words(setting, data.X_host.shape[1], seed)
        matrix = xgboost.QuantileDMatrix(data.X, data.y, max_bin=N_BINS)
        return xgboost.train(words, matrix, num_boost_round=1)

    def _words(self, setting: Setting, n_features: int, seed: int) -> dict[str, Any]:
        classes, single = setting.task == CLASSIFICATION, setting.family == TREE
        return {
            "device": "cuda",
            "tree_method": "hist",
            "objective": "binary:logistic" if classes else "reg:squarederror",
            "base_score": 0.5 if classes else 0.0,
            "num_parallel_tree": 1 if single else setting.n_estimators,
            "max_depth": 0 if setting.max_depth is None else setting.max_depth,
            "subsample": 1.0 if single else BOOTSTRAP_SHARE,
            "colsample_bynode": setting.share_of_features(n_features),
            "max_bin": N_BINS,
            "min_child_weight": 0,
            "reg_lambda": 0,
            "learning_rate": 1.0,
            "seed": seed,
        }

    def predict(self, model: Any, X: Any) -> Any:
        return model.inplace_predict(X)

    def remark(self, setting: Setting) -> str | None:
        rows = "" if setting.family == TREE else f"{BOOTSTRAP_SHARE:.1%} of rows, none twice; "
        return f"{rows}{N_BINS} bins"


@dataclass(frozen=True)
class CumlOnGpu:
    """RAPIDS' random forest."""

    name: str = CUML

    def refuses(self, setting: Setting) -> str | None:
        if setting.family == EXTRA_TREES:
            return "has no random thresholds"
        return _missing("cuml", self.name)

    def fit(self, data: DeviceTable, setting: Setting, seed: int) -> Any:
        ensemble = importlib.import_module("cuml.ensemble")
        classes, single = setting.task == CLASSIFICATION, setting.family == TREE
        kind = ensemble.RandomForestClassifier if classes else ensemble.RandomForestRegressor
        model = kind(
            n_estimators=1 if single else setting.n_estimators,
            max_depth=DEEPEST if setting.max_depth is None else setting.max_depth,
            max_features=setting.share_of_features(data.X_host.shape[1]),
            bootstrap=not single,
            n_bins=N_BINS,
            random_state=seed,
        )
        return model.fit(data.X, data.y.astype(np.int32) if classes else data.y)

    def predict(self, model: Any, X: Any) -> Any:
        return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)

    def remark(self, setting: Setting) -> str | None:
        deepest = f"; depth at most {DEEPEST}" if setting.max_depth is None else ""
        return f"{N_BINS} bins{deepest}"


def _missing(module: str, name: str) -> str | None:
    return f"{name} is not installed" if importlib.util.find_spec(module) is None else None


def choose_peers(names: Iterable[str], device: Device) -> list[GpuPeer]:
    """This library and the peers of these names."""
    others: dict[str, GpuPeer] = {XGBOOST: XGBoostOnGpu(), CUML: CumlOnGpu()}
    return [Ours(device), *(others[name] for name in names)]


def as_two_columns(outcome: Any, task: str) -> np.ndarray:
    """What a peer predicted, on the host: probabilities (n, 2) or values (n,)."""
    host = on_host(outcome)
    if task == CLASSIFICATION and host.ndim == 1:
        return np.column_stack([1.0 - host, host])
    return host
