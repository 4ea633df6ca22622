"""Peak memory of a fit on a device, compared with its estimate."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np

import gpuboost
from benchmarks.gpu.device.peak import WITHIN, is_estimated, peak_memory
from tests.estimators.device_cases import table
from tests.estimators.estimator_cases import make
from tests.runs.gpu_runs import rows

ESTIMATED = {
    "forest of depth 8": ("RandomForestClassifier", {"max_depth": 8}),
    "forest of depth 16": ("RandomForestRegressor", {"max_depth": 16}),
    "boosting": ("GradientBoostingRegressor", {"max_depth": 6}),
    "stumps": ("AdaBoostClassifier", {}),
}


def full_table(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A table that gives full trees, which the estimate assumes for bounded depth."""
    X = np.random.default_rng(0).random((rows(n_rows), 6))
    return X, X.sum(axis=1)  # the middle of a node is its best split


def assert_estimated(what: str, n_rows: int) -> None:
    """Assert that a fit's peak is within 15 percent of `gpuboost.estimate_memory`."""
    cupy: Any = sys.modules["cupy"]
    name, words = ESTIMATED[what]
    X, y = full_table(n_rows) if words.get("max_depth") == 16 else table(name, n_rows)
    X = X.astype(np.float32)
    model = make(name, device="cuda", **words)
    model.fit(X[:1000], y[:1000])  # loads kernels
    gc.collect()
    cupy.get_default_memory_pool().free_all_blocks()
    n_classes = len(np.unique(y)) if name.endswith("Classifier") else 1
    estimate = gpuboost.estimate_memory(model, *X.shape, n_classes=n_classes)
    with peak_memory(cupy) as peak:
        model.fit(X, y)
    share = peak[0] / estimate
    told = f"{what}: {peak[0]:,} bytes are {share:.3f} of what was foretold, 1 ± {WITHIN} allowed"
    assert is_estimated(peak[0], estimate), told
