"""The speed benchmark's cases of gradient boosting and AdaBoost, and of sparse matrices."""

from __future__ import annotations

from benchmarks.peers.boosting_peers import CATBOOST
from benchmarks.peers.peers import FAST_BOOSTING, HIST, LIGHTGBM, OURS, REFERENCE, XGBOOST
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
_PEERS = (OURS, *FAST_BOOSTING, CATBOOST)
_AND_EXACT = (*_PEERS, REFERENCE)  # for cases in which scikit-learn's exact splits take seconds


def _rounds(task: str, **options: float | str) -> Setting:
    """The setting of a case: a hundred rounds of depth `DEPTH`."""
    chosen = BoostingOptions(**options)  # type: ignore[arg-type]
    return Setting(BOOSTING, task, 100, max_depth=DEPTH, boosting=chosen)


def _of_fastest(ratio: float) -> tuple[Bound, ...]:
    return (Bound(ratio, FAST_BOOSTING),)


BOOSTING_SPEED = (
    Case(
        "GradientBoostingClassifier 900k x 28, 100 trees of depth 6",
        "binary",
        900_000,
        28,
        _rounds(CLASSIFICATION),
        _of_fastest(0.7),
        peers=_PEERS,
    ),
    Case(
        "GradientBoostingClassifier 10k x 20, 100 trees of depth 6",
        "binary",
        10_000,
        20,
        _rounds(CLASSIFICATION),
        _of_fastest(1.0),
        peers=_AND_EXACT,
        min_repeat=7,
    ),
    Case(
        "GradientBoostingClassifier 500 x 10, 100 trees of depth 6",
        "binary",
        500,
        10,
        _rounds(CLASSIFICATION),
        (Bound(1.0, (HIST,)),),
        peers=_AND_EXACT,
        min_repeat=15,
    ),
    Case(
        "GradientBoostingClassifier 7 classes, 100k x 54, 100 rounds of depth 6",
        "seven classes",
        100_000,
        54,
        _rounds(CLASSIFICATION),
        _of_fastest(0.7),
        peers=_PEERS,
    ),
    Case(
        "GradientBoostingRegressor quantile 0.9, 200k x 28, 100 trees of depth 6",
        "continuous",
        200_000,
        28,
        _rounds(REGRESSION, loss=QUANTILE, quantile=UPPER_QUANTILE),
        _of_fastest(0.7),
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
        "AdaBoostClassifier 100k x 28, 100 stumps",
        "binary",
        100_000,
        28,
        Setting(ADABOOST, CLASSIFICATION, 100, max_depth=1),
        (Bound(0.05, (REFERENCE,)),),
        peers=(OURS, REFERENCE),
    ),
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
    Case(
        "Prediction of 1M rows x 28, GradientBoostingClassifier, 100 trees of depth 6",
        "binary",
        100_000,
        28,
        _rounds(CLASSIFICATION),
        _of_fastest(0.8),
        predict_rows=1_000_000,
        peers=_PEERS,
    ),
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
