"""Compiled inverse links, equal to `engine.losses.links` bit for bit."""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gpuboost.backends.numba.compiler import entry, formulas, numerics
from gpuboost.backends.numba.threads.map import contiguous
from gpuboost.engine.losses.links import HALF_LOGIT, LOG, LOGIT, SOFTMAX, Link

_exp, _inside = numerics.exp, formulas.inside
_sigmoid, _softmax_weight = formulas.sigmoid, formulas.softmax_weight


def inverse(link: Link, raw: np.ndarray) -> np.ndarray:
    """Compute ``link.inverse(raw)`` of float64 (n, columns)."""
    compiled = _COMPILED.get(link.inverse)
    return link.inverse(raw) if compiled is None else compiled(contiguous(raw, np.float64))


def _of_odds(factor: float, raw: np.ndarray) -> np.ndarray:
    p = np.empty((len(raw), 2))
    probabilities_of_odds(raw, factor, p)
    return p


def _softmax(raw: np.ndarray) -> np.ndarray:
    p = np.empty(raw.shape)
    probabilities_of_logs(raw, p)
    return p


def _means(raw: np.ndarray) -> np.ndarray:
    mean = np.empty(raw.shape)
    means_of_logs(raw, mean)
    return mean


_COMPILED: dict[Any, Callable[[np.ndarray], np.ndarray]] = {
    LOGIT.inverse: partial(_of_odds, 1.0),
    HALF_LOGIT.inverse: partial(_of_odds, 2.0),
    SOFTMAX.inverse: _softmax,
    LOG.inverse: _means,
}


@entry
def probabilities_of_odds(raw, factor, p):
    """Fill ``p`` (n, 2) with the probabilities of two classes, from ``factor * raw`` (n, 1)."""
    for i in range(raw.shape[0]):
        second = _sigmoid(factor * raw[i, 0])
        p[i, 0], p[i, 1] = 1.0 - second, second


@entry
def probabilities_of_logs(raw, p):
    """Fill ``p`` (n, n_classes) with the softmax of each row of ``raw``."""
    for i in range(raw.shape[0]):
        largest = raw[i, 0]
        for k in range(1, raw.shape[1]):
            if raw[i, k] > largest or raw[i, k] != raw[i, k]:
                largest = raw[i, k]
        total = 0.0
        for k in range(raw.shape[1]):
            p[i, k] = _softmax_weight(raw[i, k], largest)
            total += p[i, k]
        for k in range(raw.shape[1]):
            p[i, k] /= total


@entry
def means_of_logs(raw, mean):
    """Fill ``mean`` with the exponential of each element of ``raw``."""
    for i in range(raw.shape[0]):
        for k in range(raw.shape[1]):
            mean[i, k] = _exp(_inside(raw[i, k]))
