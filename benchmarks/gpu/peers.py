"""The libraries measured on a GPU. Py-Boost takes host arrays, the others take device arrays."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from benchmarks.gpu.cases import CUML, PYBOOST, XGBOOST
from benchmarks.gpu.device.device import Device, Served, on_host
from benchmarks.peers.boosting_peers import xgboost_words
from benchmarks.peers.peers import BOOTSTRAP_SHARE, NO_ADABOOST, OURS, GpuBoost
from benchmarks.suite.settings import (
    ADABOOST,
    BOOSTING,
    EXTRA_TREES,
    LOG_LOSS,
    N_BINS,
    SQUARED_ERROR,
    TREE,
    Resources,
    Setting,
    missing_package,
)
from benchmarks.suite.tables import CLASSIFICATION

DEEPEST = 64  # levels of a forest "to purity", for a peer that requires a depth


@dataclass(frozen=True)
class DeviceTable:
    """Training data on the device and on the host.

    Attributes
    ----------
    X : array of float32 of shape (n_samples, n_features), on the device
    y : array of float32, on the device
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
        """Why the peer cannot train with this setting, or None if it can."""

    def fit(self, data: DeviceTable, setting: Setting, seed: int) -> Any:
        """Train a model."""

    def predict(self, model: Any, X: Any) -> Any:
        """Predict probabilities of the classes (n, 2) or of the second class (n,), or values."""

    def remark(self, setting: Setting) -> str | None:
        """How the peer's setting differs from scikit-learn's, or None if it does not."""


@dataclass(frozen=True)
class Ours:
    """gpuboost, on the device that is measured."""

    device: Any  # a Device, or None if nothing is to be trained
    name: str = OURS

    def refuses(self, setting: Setting) -> str | None:
        return None

    def fit(self, data: DeviceTable, setting: Setting, seed: int) -> Any:
        return self._fit(data.X, data.y, setting, seed)

    def fit_from_host(self, data: DeviceTable, setting: Setting, seed: int) -> Any:
        """Train a model with data from the host, as `gpuboost.estimate_memory` assumes."""
        return self._fit(data.X_host, data.y_host, setting, seed)

    def _fit(self, X: Any, y: Any, setting: Setting, seed: int) -> Any:
        rows, features = X.shape
        resources = Resources(seed=seed, n_features=features, n_rows=rows)
        model = GpuBoost("cuda").make(setting, resources)
        with self._served():
            return model.fit(X, y)

    def _served(self) -> Served:
        assert self.device is not None, "without a device a peer can be asked, but cannot run"
        return Served(self.device)

    def predict(self, model: Any, X: Any) -> Any:
        with self._served():
            return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)

    def remark(self, setting: Setting) -> str | None:
        return None


@dataclass(frozen=True)
class XGBoostOnGpu:
    """XGBoost; a forest is one round of many parallel trees. Predictions are made in place."""

    name: str = XGBOOST

    def refuses(self, setting: Setting) -> str | None:
        if setting.family == EXTRA_TREES:
            return "has no random thresholds"
        if setting.family == ADABOOST:
            return NO_ADABOOST
        missing = missing_package("xgboost", self.name)
        if missing is None and not importlib.import_module("xgboost").build_info()["USE_CUDA"]:
            return "XGBoost with CUDA is not installed: this wheel was built without it"
        return missing

    def fit(self, data: DeviceTable, setting: Setting, seed: int) -> Any:
        xgboost = importlib.import_module("xgboost")
        words = self._words(setting, data.X_host.shape[1], seed)
        matrix = xgboost.QuantileDMatrix(data.X, data.y, max_bin=N_BINS)
        rounds = setting.n_estimators if setting.family == BOOSTING else 1
        return xgboost.train(words, matrix, num_boost_round=rounds)

    def _words(self, setting: Setting, n_features: int, seed: int) -> dict[str, Any]:
        if setting.family != BOOSTING:
            return self._forest_words(setting, n_features, seed)
        words = xgboost_words(setting) | {"device": "cuda", "seed": seed}
        return words | ({"objective": "binary:logistic"} if setting.loss == LOG_LOSS else {})

    def _forest_words(self, setting: Setting, n_features: int, seed: int) -> dict[str, Any]:
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
        whole = setting.family in (TREE, BOOSTING)
        rows = "" if whole else f"{BOOTSTRAP_SHARE:.1%} of rows without replacement; "
        return f"{rows}{N_BINS} bins"


@dataclass(frozen=True)
class CumlOnGpu:
    """cuML's random forest."""

    name: str = CUML

    def refuses(self, setting: Setting) -> str | None:
        if setting.family == EXTRA_TREES:
            return "has no random thresholds"
        if setting.family in (BOOSTING, ADABOOST):
            return "has no boosting"
        return missing_package("cuml", self.name)

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


@dataclass(frozen=True)
class PyBoostOnGpu:
    """Py-Boost, which uses CuPy arrays and kernels as gpuboost does, but takes host arrays."""

    name: str = PYBOOST

    def refuses(self, setting: Setting) -> str | None:
        if setting.family != BOOSTING:
            return "has boosting alone"
        if setting.boosting.max_leaves is not None:
            return "grows by depth"
        if setting.loss not in _PYBOOST_LOSSES:
            return f"has no loss {setting.loss}"
        return missing_package("py_boost", "py-boost")

    def fit(self, data: DeviceTable, setting: Setting, seed: int) -> Any:
        module, options = importlib.import_module("py_boost"), setting.boosting
        model = module.GradientBoosting(
            _PYBOOST_LOSSES[setting.loss],
            ntrees=setting.n_estimators,
            lr=options.learning_rate,
            lambda_l2=options.l2,
            max_depth=setting.max_depth,
            min_data_in_leaf=options.min_samples_leaf,
            max_bin=N_BINS,
            es=0,
            seed=seed,
            verbose=setting.n_estimators,
        )
        model.fit(data.X_host, data.y_host)
        return model

    def predict(self, model: Any, X: Any) -> Any:
        return model.predict(on_host(X))[:, 0]

    def remark(self, setting: Setting) -> str | None:
        return f"{N_BINS} bins; no minimum hessian in a leaf; data come from the host"


_PYBOOST_LOSSES = {LOG_LOSS: "bce", SQUARED_ERROR: "mse"}


def choose_peers(names: Iterable[str], device: Device | None) -> list[GpuPeer]:
    """gpuboost and the peers with these names; without a device, they only answer `refuses`."""
    others: dict[str, GpuPeer] = {
        XGBOOST: XGBoostOnGpu(),
        CUML: CumlOnGpu(),
        PYBOOST: PyBoostOnGpu(),
    }
    return [Ours(device), *(others[name] for name in names)]


def as_two_columns(outcome: Any, task: str) -> np.ndarray:
    """Copy a prediction to the host, as probabilities of shape (n, 2) or values of shape (n,)."""
    host = on_host(outcome)
    if task == CLASSIFICATION and host.ndim == 1:
        return np.column_stack([1.0 - host, host])
    return host
