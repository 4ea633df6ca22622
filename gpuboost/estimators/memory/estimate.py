"""Estimates of the memory of a fit, made before it starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags

from gpuboost.backends.cuda.data.binning import binning_peak
from gpuboost.backends.cuda.fit_memory import boosting_peak, reweighting_peak
from gpuboost.backends.cuda.growth.memory_plan import HISTOGRAM_SHARE, fit_peak
from gpuboost.backends.cuda.runtime.shape_arrays import DeviceShape
from gpuboost.backends.devices import device_number, why_no_cuda
from gpuboost.backends.select import cuda_backend
from gpuboost.data.parameters import integer_at_least, integer_between, one_of
from gpuboost.estimators.adaboost.estimators import AdaBoost
from gpuboost.estimators.boosting.base import GradientBoosting
from gpuboost.estimators.boosting.hist_gradient_boosting import HistGradientBoosting
from gpuboost.estimators.fitting.base import TreeModel
from gpuboost.estimators.memory import shape_only_fit
from gpuboost.estimators.memory.blocked_fit import blocked_peak
from gpuboost.estimators.memory.shape_only_fit import ShapeOnlyTable

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
    memory_limit: int | None = None,
) -> int:
    """Estimate the peak memory of a fit in bytes: on a CUDA device, or on the host in blocks.

    X is assumed to be on the host. Trees of limited depth (at most 32) or number of leaves (at most
    64) are assumed to be full, as far as the number of rows allows, and other trees to have about
    as many nodes as rows, or as ``max_leaf_nodes`` allows. For trees of more than a dozen levels,
    this is more than most data need. The estimate excludes the memory of CUDA itself (a few hundred
    MB per process), the out-of-bag predictions of ``oob_score`` and, for boosting, the rows of
    ``eval_set`` and the arrays of a user-defined loss.

    Parameters
    ----------
    estimator : a gpuboost estimator
        Only the parameters of the estimator matter; it need not be fitted.
    n_samples, n_features : int
        Shape of X.
    n_classes : int
        Number of classes, for classifiers.
    n_outputs : int
        Number of outputs, for estimators that support several; of a classifier, each has
        ``n_classes`` classes.
    n_categorical : int, optional
        Number of categorical features. None means the number of features that the estimator's
        ``categorical_features`` lists, or 0 if that parameter is "from_dtype" or None.
    weighted : bool
        Whether `fit` gets real-valued sample weights (equal or integer weights need less memory).
    dtype : float32 or float64
        Data type of X.
    memory_budget : int, optional
        Bytes that the fit can use in addition to the binned matrix, the targets and other arrays
        that all trees share. With a smaller budget, fewer trees grow at once and levels are
        searched in slices. None means the memory that a fit on the current device could use now,
        or no limit without a device.
    memory_limit : int, optional
        The ``memory_limit`` of `Dataset.from_batches`. The estimate is then that of the host, for
        the dataset and a fit on it, besides the process with its imports; ``dtype`` and
        ``memory_budget`` do not matter.

    Returns
    -------
    int
        Bytes.

    Raises
    ------
    TypeError
        If ``estimator`` is not a gpuboost estimator, or a number or a parameter has a wrong type.
    ValueError
        If a number or a parameter of the estimator is out of range, if there are several outputs,
        which the estimator does not support, or if ``dtype`` is another type.

    Examples
    --------
    >>> from gpuboost import RandomForestClassifier, estimate_memory
    >>> forest = RandomForestClassifier(max_depth=12)
    >>> estimate_memory(forest, 1_000_000, 28, memory_budget=4 * 2**30) < 5 * 2**30
    True
    """
    if isinstance(estimator, HistGradientBoosting):
        weighted = weighted or getattr(estimator, "class_weight", None) is not None
        estimator = estimator._configured(None, seed=0)
    _check_estimator(estimator)
    table = ShapeOnlyTable(
        integer_at_least("n_samples", n_samples, 1),
        integer_at_least("n_features", n_features, 1),
        integer_at_least("n_classes", n_classes, 1),
        integer_at_least("n_outputs", n_outputs, 1),
        _categorical_count(estimator.categorical_features, n_categorical, n_features),
        bool(weighted),
        np.dtype(one_of("dtype", np.dtype(dtype).name, ("float32", "float64"))),
    )
    if table.n_outputs > 1 and not get_tags(estimator).target_tags.multi_output:
        raise ValueError(
            f"n_outputs={n_outputs} was given, but {type(estimator).__name__} has one output; use "
            "n_outputs=1"
        )
    estimator = clone(estimator).set_params(random_state=0)
    if memory_limit is not None:
        return blocked_peak(estimator, table, integer_at_least("memory_limit", memory_limit, 1))
    budget, shape = _budget(memory_budget)
    size = n_features, n_samples, table.dtype.itemsize
    binning = binning_peak(*size, table.weighted, budget)
    return max(_growing_peak(estimator, table, budget, shape), binning)


def _check_estimator(estimator: Any) -> None:
    if not isinstance(estimator, TreeModel):
        name = type(estimator).__name__
        raise TypeError(f"estimator must be an estimator of gpuboost, got {name}")


def _growing_peak(estimator: Any, table: ShapeOnlyTable, budget: int, shape: DeviceShape) -> int:
    """Peak memory in bytes after binning."""
    if isinstance(estimator, GradientBoosting):
        task = shape_only_fit.boost_task(estimator, table)
        return boosting_peak(replace(task, memory_budget=budget), shape)
    if isinstance(estimator, AdaBoost):
        rounds = shape_only_fit.adaboost_reweight_task(estimator, table)
        return reweighting_peak(replace(rounds, memory_budget=budget), shape)
    trees = shape_only_fit.grow_task(estimator, table)
    return fit_peak(replace(trees, memory_budget=int(HISTOGRAM_SHARE * budget)), budget, shape)


def _budget(given: int | None) -> tuple[int, DeviceShape]:
    """Bytes that a fit can use, and the shape of the device.

    Without a given budget and without a device, there is no limit. With a given budget, the shape
    is the default of `DeviceShape`, even if there is a device.
    """
    if given is not None:
        return integer_at_least("memory_budget", given, 1), DeviceShape()
    if why_no_cuda():
        return NO_BUDGET, DeviceShape()
    backend = cuda_backend(device_number("cuda"))
    with backend.runtime.active():
        return backend.runtime.memory_budget(), DeviceShape.of(backend.runtime)


def _categorical_count(listed: Any, given: int | None, n_features: int) -> int:
    """Number of categorical features, as given or listed by an estimator."""
    if given is not None:
        return integer_between("n_categorical", given, 0, n_features)
    if listed is None or isinstance(listed, str):
        return 0
    chosen = np.asarray(listed)
    count = np.count_nonzero(chosen) if chosen.dtype == bool else chosen.size
    return min(int(count), n_features)
