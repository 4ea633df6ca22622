"""Rounds in NumPy, which track the leaf of each row, equal rounds that look leaves up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuboost.backends.host.boosting import HostBooster
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.backends.numpy.boosting import NumpyBooster
from gpuboost.data.binning import bin_columns
from gpuboost.engine.criteria import NEWTON
from gpuboost.engine.ensembles.boosting_task import BoostTask, RowSet
from gpuboost.engine.losses import make_loss
from gpuboost.engine.sampling import ALL_ROWS, WITHOUT_REPLACEMENT, RowSampler
from gpuboost.engine.task import Regularisation, TreeOptions
from tests.binning import fit_bin_mapper
from tests.numba.booster.booster_rounds import assert_equal_fields

N, N_CLASSES = 300, 4


def task_of(loss: str, n_threads: int, subsample: bool, **options: Any) -> BoostTask:
    """A fit to numbers with missing values; the first half of the rows is the evaluation set."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((N, 4)).astype(np.float32)
    signal = X[:, 0] * X[:, 1] + X[:, 2] + rng.standard_normal(N)
    X[rng.random(X.shape) < 0.1] = np.nan
    n_classes = N_CLASSES if loss == "log_loss" else 0
    y = np.digitize(signal, (-1.0, 0.0, 1.0)).astype(np.int32) if n_classes else signal
    made = make_loss(loss, n_classes=n_classes) if n_classes else make_loss(loss)
    matrix = bin_columns(X, fit_bin_mapper(X, np.zeros(4, bool)))
    raw = np.zeros((N, made.columns))
    half = bin_columns(X[: N // 2], matrix.mapper)
    method, n_draws = (WITHOUT_REPLACEMENT, N // 2) if subsample else (ALL_ROWS, N)
    return BoostTask(
        matrix,
        RowSet(matrix, y, None, raw),
        (RowSet(half, y[: N // 2], None, raw[: N // 2]),),
        made,
        TreeOptions(NEWTON, hashed_order=False, regularisation=Regularisation(l2=1.0), **options),
        0.0,
        False,
        RowSampler(method, N, n_draws, 1),
        seed=7,
        features_of=None,
        n_threads=n_threads,
    )


@pytest.mark.parametrize(
    "options",
    [{"max_depth": 4}, {"max_leaf_nodes": 5}, {"max_depth": 4, "ccp_alpha": 0.03}],
    ids=["depth", "leaves", "pruned"],
)
@pytest.mark.parametrize("subsample", [False, True])
@pytest.mark.parametrize(("loss", "n_threads"), [("squared_error", 1), ("log_loss", 2)])
def test_rounds_are_those_of_the_reference(
    loss: str, n_threads: int, subsample: bool, options: dict[str, Any]
) -> None:
    """With four classes, two trees share a frontier."""
    task, backend = task_of(loss, n_threads, subsample, **options), NumpyBackend()
    found, expected = backend.booster(task), HostBooster(backend, task)
    assert isinstance(found, NumpyBooster)
    for number in range(3):
        done, reference = found.boost(number, 0.3).read(), expected.boost(number, 0.3)
        assert done.losses == reference.losses
        for have, want in zip(done.trees, reference.trees, strict=True):
            assert want.node_count > 1
            assert_equal_fields(have, want)
        for rows in (0, 1):
            assert np.array_equal(found.raw_predictions(rows), expected.raw_predictions(rows))
