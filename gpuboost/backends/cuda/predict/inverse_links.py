"""Inverse links on the device: the launches of links.cu."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuboost.backends.cuda.runtime.launch import launch
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.losses.links import HALF_LOGIT, IDENTITY, LOG, LOGIT, SOFTMAX, Link

_FACTORS = {LOGIT: 1.0, HALF_LOGIT: 2.0}


def inverse(runtime: Runtime, link: Link, raw: Array) -> Array:
    """Compute ``link.inverse(raw)`` of float64 (n, columns) on the device: float64 (n, values).

    For the identity, the result is ``raw`` itself.
    """
    xp, (n, n_columns) = runtime.xp, raw.shape
    if link == IDENTITY:
        return raw
    raw = xp.ascontiguousarray(raw)
    if link == LOG:
        mean = xp.empty(raw.shape, dtype=np.float64)
        _launch(runtime, "means_of_logs", raw.size, raw=raw, mean=mean)
        return mean
    if link == SOFTMAX:
        p = xp.empty(raw.shape, dtype=np.float64)
        _launch(runtime, "probabilities_of_logs", n, raw=raw, n_columns=n_columns, p=p)
        return p
    p = xp.empty((n, 2), dtype=np.float64)
    _launch(runtime, "probabilities_of_odds", n, raw=raw, factor=_FACTORS[link], p=p)
    return p


def log_probabilities(runtime: Runtime, p: Array) -> Array:
    """Compute `engine.losses.links.log_probabilities` on the device: float64 of the same shape."""
    p = runtime.xp.ascontiguousarray(p)
    logs = runtime.xp.empty(p.shape, dtype=np.float64)
    _launch(runtime, "logs_of_probabilities", p.size, p=p, logs=logs)
    return logs


def _launch(runtime: Runtime, name: str, n: int, **values: Any) -> None:
    threads = constant("predict/links.cu", "LINK_THREADS")
    launch(runtime, name, -(-n // threads), n=n, **values)
