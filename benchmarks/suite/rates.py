"""Poisson regression of counts with an exposure, for each library.

The logarithm of the exposure is gpuboost's ``offset``, XGBoost's ``base_margin`` and LightGBM's
``init_score``. HistGradientBoosting has no offset; it gets the rates as targets and the exposures
as weights, which gives the same gradients and hessians. XGBoost and LightGBM fit no baseline if
there is an offset, so the logarithm of the mean rate is added to the offset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers.boosting_peers import HIST
from benchmarks.peers.peers import LIGHTGBM, OURS, XGBOOST
from benchmarks.suite.tables import Table


def predicted_rates(name: str, model: Any, train: Table, test: Table) -> np.ndarray:
    """Fit a peer's model and predict the counts per unit of exposure for the test rows."""
    return _WAYS[name](model, train, test)


def explained_deviance(test: Table, rates: np.ndarray) -> float:
    """Fraction of the rates' Poisson deviance that is explained, weighted by exposure."""
    from sklearn.metrics import d2_tweedie_score

    weights = _exposure(test)
    return float(d2_tweedie_score(test.y / weights, rates, sample_weight=weights, power=1))


def _exposure(table: Table) -> np.ndarray:
    if table.exposure is None:
        raise ValueError(f"table {table.name} has no exposure; use its task's own scores")
    return table.exposure


def _log_mean_rate(table: Table) -> float:
    return float(np.log(table.y.sum() / _exposure(table).sum()))


def _ours(model: Any, train: Table, test: Table) -> np.ndarray:
    model.fit(train.features, train.y, offset=np.log(_exposure(train)))
    return model.predict(test.features, offset=np.zeros(len(test.y)))  # the exposure is 1


def _xgboost(model: Any, train: Table, test: Table) -> np.ndarray:
    mean = _log_mean_rate(train)
    model.fit(train.features, train.y, base_margin=np.log(_exposure(train)) + mean)
    return model.predict(test.features, base_margin=np.full(len(test.y), mean))


def _lightgbm(model: Any, train: Table, test: Table) -> np.ndarray:
    mean = _log_mean_rate(train)
    model.fit(train.features, train.y, init_score=np.log(_exposure(train)) + mean)
    return model.predict(test.features) * np.exp(mean)  # LightGBM predicts without init_score


def _hist(model: Any, train: Table, test: Table) -> np.ndarray:
    exposure = _exposure(train)
    model.fit(train.features, train.y / exposure, sample_weight=exposure)
    return model.predict(test.features)


_WAYS: dict[str, Callable[[Any, Table, Table], np.ndarray]] = {
    OURS: _ours,
    XGBOOST: _xgboost,
    LIGHTGBM: _lightgbm,
    HIST: _hist,
}
