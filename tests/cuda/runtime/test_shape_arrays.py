"""Shape arrays, which have a shape and no memory."""

from __future__ import annotations

import numpy as np
import pytest

from gpuboost import AdaBoostRegressor, DecisionTreeRegressor, estimate_memory
from gpuboost.backends.cuda.runtime.shape_arrays import UNIT, Meter, ShapeModule


def test_shape_arrays_have_the_shapes_of_arrays() -> None:
    meter = Meter()
    xp = ShapeModule(meter)
    made = xp.zeros((6, 4), dtype=np.int32)
    real = np.zeros((6, 4), dtype=np.int32)
    assert meter.now == UNIT
    for work in (
        lambda a: a.T,
        lambda a: a[2:5, 1],
        lambda a: a[None, ..., 0],
        lambda a: a.reshape(-1, 8),
        lambda a: a.reshape(-1)[:8].view(np.int64),
        lambda a: a.astype(np.uint8),
        lambda a: a == 3,
        lambda a: a[a[:, 0]],
    ):
        shape_array, array = work(made), work(real)
        assert (shape_array.shape, shape_array.dtype) == (array.shape, array.dtype)
        assert (shape_array.size, shape_array.nbytes) == (array.size, array.nbytes)
    view = made[1:]
    del made, shape_array
    assert meter.now == UNIT
    del view
    assert meter.now == 0 and meter.peak >= 2 * UNIT
    with pytest.raises(AttributeError, match="shape arrays have no sort"):
        xp.sort(xp.ones(3))


def test_dry_runs_of_rounds_with_size_readbacks_end() -> None:
    """The dry run of a round ends even if the host reads sizes; every batch starts at its roots."""
    boosted = AdaBoostRegressor(DecisionTreeRegressor(), n_estimators=2)
    two = estimate_memory(boosted, 5000, 4)
    one = estimate_memory(boosted.set_params(n_estimators=1), 5000, 4)
    assert one <= two < 2 * one
