"""Poisson regression of counts with an exposure: each library's way to give it.

An offset, the logarithm of the exposure, where there is one: this library's ``offset``, XGBoost's
``base_margin``, LightGBM's ``init_score``. HistGradientBoosting has none and gets the rates with
the exposures as weights, which has the same gradients and hessians. Who has an offset and no
constant of its own beside it starts from the logarithm of all counts over all exposure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers.boosting_peers import HIST
from benchmarks.peers.peers import LIGHTGBM, OURS, XGBOOST
from benchmarks.suite.tables import Table


def predicted_rates(name: str, model: Any, train: Table, test: Table) -> np.ndarray:
    """Fit a peer's model, and what it expects of the test rows per unit of exposure."""
    return _WAYS[name](model, train, test)


def explained_deviance(test: Table, rates: np.ndarray) -> float:
    """Share of the Poisson deviance of the rates that is explained, weighted by exposure."""
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
    return model.predict(test.features)  # no offset: an exposure of 1


def _xgboost(model: Any, train: Table, test: Table) -> np.ndarray:
    mean = _log_mean_rate(train)
    model.fit(train.features, train.y, base_margin=np.log(_exposure(train)) + mean)
    return model.predict(test.features, base_margin=np.full(len(test.y), mean))


def _lightgbm(model: Any, train: Table, test: Table) -> np.ndarray:
    mean = _log_mean_rate(train)
    model.fit(train.features, train.y, init_score=np.log(_exposure(train)) + mean)
    return model.predict(test.features) * np.exp(mean)  # its trees alone, otherwise


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
