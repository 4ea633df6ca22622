"""The speed benchmark's cases of gradient boosting and AdaBoost, and of sparse matrices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.peers.boosting_peers import CATBOOST
from benchmarks.peers.peers import FASTEST_BOOSTING, HIST, LIGHTGBM, OURS, REFERENCE, XGBOOST
from benchmarks.peers.recent_boosting import BONSAI, HESSBOOST
from benchmarks.suite.cases import Bound, Case
from benchmarks.suite.settings import (
    ABSOLUTE_ERROR,
    ADABOOST,
    BOOSTING,
    FOREST,
    QUANTILE,
    BoostingOptions,
    Setting,
)
from benchmarks.suite.tables import CLASSIFICATION, REGRESSION

DEPTH = 6
UPPER_QUANTILE = 0.9
_PEERS = (OURS, *FASTEST_BOOSTING, CATBOOST)
_AND_EXACT = (*_PEERS, REFERENCE)  # for cases in which scikit-learn's exact splits take seconds


def _rounds(task: str, n_rounds: int = 100, depth: int | None = DEPTH, **options: Any) -> Setting:
    """The setting of a case, with some `BoostingOptions`."""
    boosting = BoostingOptions(**options)
    return Setting(BOOSTING, task, n_rounds, max_depth=depth, boosting=boosting)


def _of_fastest(ratio: float) -> tuple[Bound, ...]:
    return (Bound(ratio, (*FASTEST_BOOSTING, CATBOOST)),)


def _binary(
    rows: int, features: int, ratio: float, n_rounds: int = 100, depth: int = DEPTH, repeat: int = 5
) -> Case:
    """A case of two classes, beside all peers that boost fast."""
    size = f"{_short(rows)} x {features:,}, {n_rounds} trees of depth {depth}"
    setting = _rounds(CLASSIFICATION, n_rounds, depth)
    name, bounds = f"GradientBoostingClassifier {size}", _of_fastest(ratio)
    data = ("binary", rows, features, setting, bounds)
    return Case(name, *data, peers=_PEERS, min_repeat=repeat)


def _short(rows: int) -> str:
    """A number of rows as in "900k"."""
    if rows < 1000:
        return str(rows)
    return f"{rows // 1000}k" if rows < 1_000_000 else f"{rows // 1_000_000}M"


def _stumps(rows: int, n_rounds: int) -> Case:
    """AdaBoost beside scikit-learn."""
    setting = Setting(ADABOOST, CLASSIFICATION, n_rounds, max_depth=1)
    name = f"AdaBoostClassifier {_short(rows)} x 28, {n_rounds} stumps"
    bounds = (Bound(0.05, (REFERENCE,)),)
    return Case(name, "binary", rows, 28, setting, bounds, peers=(OURS, REFERENCE))


def _prediction(rows: int) -> Case:
    """Predictions of a boosted ensemble, beside all peers that boost fast."""
    name = (
        f"Prediction of {_short(rows)} rows x 28, GradientBoostingClassifier, 100 trees of depth 6"
    )
    data = ("binary", 100_000, 28, _rounds(CLASSIFICATION), _of_fastest(0.8), rows)
    return Case(name, *data, peers=_PEERS, min_repeat=5)


_SMALL = (Bound(1.5, (LIGHTGBM,)), Bound(0.9, (XGBOOST, HIST, HESSBOOST, BONSAI, CATBOOST)))

BOOSTING_SPEED = (
    _binary(900_000, 28, 0.8),
    _binary(100_000, 28, 0.85),
    _binary(100_000, 28, 0.8, depth=10),
    replace(_binary(10_000, 20, 0.9, repeat=9), peers=_AND_EXACT),
    replace(_binary(500, 10, 1.0, repeat=15), peers=_AND_EXACT, bounds=_SMALL),
    _binary(20_000, 1_000, 0.75, n_rounds=20),
    _binary(5_000, 5_000, 0.9),
    _binary(3_000_000, 28, 0.75, n_rounds=20),
    _binary(10_000_000, 28, 0.8, n_rounds=20, depth=8, repeat=3),
    Case(
        "GradientBoostingClassifier 200k x 28, 100 trees of 31 leaves",
        "binary",
        200_000,
        28,
        _rounds(CLASSIFICATION, depth=None, max_leaves=31),
        (Bound(0.7, (*FASTEST_BOOSTING,)),),
        peers=(OURS, *FASTEST_BOOSTING),
        min_repeat=5,
    ),
    Case(
        "GradientBoostingClassifier 7 classes, 100k x 54, 100 rounds of depth 6",
        "seven classes",
        100_000,
        54,
        _rounds(CLASSIFICATION),
        _of_fastest(0.6),
        peers=_PEERS,
    ),
    Case(
        "GradientBoostingRegressor quantile 0.9, 200k x 28, 100 trees of depth 6",
        "continuous",
        200_000,
        28,
        _rounds(REGRESSION, loss=QUANTILE, quantile=UPPER_QUANTILE),
        _of_fastest(0.6),
        peers=_PEERS,
    ),
    Case(
        "GradientBoostingRegressor absolute_error, 200k x 28, 100 trees of depth 6",
        "continuous",
        200_000,
        28,
        _rounds(REGRESSION, loss=ABSOLUTE_ERROR),
        _of_fastest(0.7),
        peers=_PEERS,
    ),
    Case(
        "GradientBoostingRegressor 8 outputs, 100k x 28, 100 rounds of depth 6",
        "8 outputs",
        100_000,
        28,
        _rounds(REGRESSION, n_outputs=8),
        _of_fastest(0.6),
        peers=_PEERS,
    ),
    _stumps(100_000, 100),
    _stumps(3_000_000, 20),
    Case(
        "NumPy backend, GradientBoostingClassifier 100k x 28, 100 trees of depth 6",
        "binary",
        100_000,
        28,
        _rounds(CLASSIFICATION),
        (Bound(10.0, (XGBOOST,)),),
        device="numpy",
        peers=(OURS, XGBOOST),
    ),
    _prediction(1_000_000),
    _prediction(50_000),
)

SPARSE_SPEED = (
    Case(
        "RandomForestClassifier sparse text 4k x 20k, 20 trees to purity",
        "sparse text",
        4_000,
        20_000,
        Setting(FOREST, CLASSIFICATION, 20),
        (Bound(1.0, (REFERENCE,)),),
        peers=(OURS, REFERENCE),
        min_repeat=5,
    ),
    Case(
        "GradientBoostingClassifier sparse text 4k x 20k, 20 trees of depth 6",
        "sparse text",
        4_000,
        20_000,
        Setting(BOOSTING, CLASSIFICATION, 20, max_depth=DEPTH, boosting=BoostingOptions()),
        (Bound(1.0, (XGBOOST,)),),
        peers=(OURS, XGBOOST, LIGHTGBM),
        min_repeat=5,
    ),
)
