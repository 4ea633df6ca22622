"""Memory of a fit on a device, estimated before it starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from gpuboost.backends.cuda.fit_memory import boosting_peak, reweighting_peak
from gpuboost.backends.cuda.growth.memory_plan import HISTOGRAM_SHARE, binning_peak, fit_peak
from gpuboost.backends.cuda.runtime.shape_arrays import DeviceShape
from gpuboost.backends.devices import device_number, why_no_cuda
from gpuboost.backends.select import cuda_backend
from gpuboost.data.parameters import integer_at_least, integer_between, one_of
from gpuboost.estimators.adaboost.estimators import AdaBoost
from gpuboost.estimators.boosting.base import GradientBoosting
from gpuboost.estimators.fitting.base import TreeModel
from gpuboost.estimators.memory.shape_only_fit import ShapeOnlyTable, ShapeOnlyTrees, boost_task

NO_BUDGET = 1 << 62


def estimate_memory(
    estimator: Any,
    n_samples: int,
    n_features: int,
    *,
    n_classes: int = 2,
    n_outputs: int = 1,
    n_categorical: int | None = None,
    weighted: bool = False,
    dtype: Any = np.float32,
    memory_budget: int | None = None,
) -> int:
    """Most bytes that a fit of an estimator will hold on a CUDA device.

    X is taken to come from the host. Trees of bounded depth are taken to be full, others to have
    about as many nodes as rows: more than most data ask for of trees of more than a dozen levels.
    Not counted is what CUDA itself takes, some hundred MB for each process; in boosting neither are
    the rows of ``eval_set`` and what a loss of the user's own makes.

    Parameters
    ----------
    estimator : a gpuboost estimator
        Its parameters count; whether it is fitted does not.
    n_samples, n_features : int
        Shape of X.
    n_classes : int
        Classes of a classification.
    n_outputs : int
        Outputs of a regression.
    n_categorical : int, optional
        Features that are categories: their splits are masks. None: as many as the estimator's
        ``categorical_features`` lists; none if that is "from_dtype" or None.
    weighted : bool
        Whether real sample weights are given.
    dtype : float32 or float64
        Type of X.
    memory_budget : int, optional
        Bytes that the fit may use beside the binned matrix: with less, fewer trees grow at once
        and levels are searched in slices. None: what a fit on the current device would use now;
        without a device, as much as it wants.

    Returns
    -------
    int

    Raises
    ------
    TypeError
        ``estimator`` is none of gpuboost's.
    ValueError
        A number or a parameter of the estimator is out of range.

    Examples
    --------
    >>> from gpuboost import RandomForestClassifier, estimate_memory
    >>> forest = RandomForestClassifier(max_depth=12)
    >>> estimate_memory(forest, 1_000_000, 28, memory_budget=4 * 2**30) < 5 * 2**30
    True
    """
    if not isinstance(estimator, TreeModel):
        raise TypeError(
            f"estimator must be an estimator of gpuboost, got {type(estimator).__name__}"
        )
    table = ShapeOnlyTable(
        integer_at_least("n_samples", n_samples, 1),
        integer_at_least("n_features", n_features, 1),
        integer_at_least("n_classes", n_classes, 1),
        integer_at_least("n_outputs", n_outputs, 1),
        _categorical_count(estimator.categorical_features, n_categorical, n_features),
        bool(weighted),
        np.dtype(one_of("dtype", np.dtype(dtype).name, ("float32", "float64"))),
    )
    estimator = clone(estimator).set_params(random_state=0)
    budget, shape = _budget(memory_budget)
    if isinstance(estimator, GradientBoosting):
        growing = boosting_peak(replace(boost_task(estimator, table), memory_budget=budget), shape)
    elif isinstance(estimator, AdaBoost):
        rounds = ShapeOnlyTrees(estimator, table).reweight_task()
        growing = reweighting_peak(replace(rounds, memory_budget=budget), shape)
    else:
        trees = ShapeOnlyTrees(estimator, table).grow_task()
        share = int(HISTOGRAM_SHARE * budget)
        growing = fit_peak(replace(trees, memory_budget=share), budget, shape)
    itemsize = table.dtype.itemsize
    return max(growing, binning_peak(n_features, n_samples, itemsize, bool(weighted)))


def _budget(given: int | None) -> tuple[int, DeviceShape]:
    """Bytes that a fit may use, and the device; without either, no limit."""
    if given is not None:
        return integer_at_least("memory_budget", given, 1), DeviceShape()
    if why_no_cuda():
        return NO_BUDGET, DeviceShape()
    backend: Any = cuda_backend(device_number("cuda"))
    with backend.runtime.active():
        return backend.runtime.memory_budget(), DeviceShape.of(backend.runtime)


def _categorical_count(listed: Any, given: int | None, n_features: int) -> int:
    """Features that are categories, by number, or by the mask, places or names of an estimator."""
    if given is not None:
        return integer_between("n_categorical", given, 0, n_features)
    if listed is None or isinstance(listed, str):
        return 0
    chosen = np.asarray(listed)
    count = np.count_nonzero(chosen) if chosen.dtype == bool else chosen.size
    return min(int(count), n_features)
