"""What a fit takes on a device, before it is begun."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from gpuboost.backends.choice import choose_backend, growth_work
from gpuboost.backends.cuda.memory import (
    HISTOGRAM_SHARE,
    DeviceShape,
    binning_peak,
    fit_peak,
)
from gpuboost.backends.devices import why_no_cuda
from gpuboost.data.bins import BinMapper, BinnedMatrix
from gpuboost.data.parameters import integer_at_least, integer_between, one_of
from gpuboost.engine.spec import GrowTask, Target
from gpuboost.engine.statistics import class_target, value_target
from gpuboost.estimators.base import TreeModel
from gpuboost.estimators.boosting import GradientBoosting
from gpuboost.estimators.labels import ClassLabels, ValueLabels
from gpuboost.estimators.settings import bin_limit, tree_options

if TYPE_CHECKING:
    from gpuboost.engine.sampling import RowSampler

NO_BUDGET = 1 << 62
_FEW = 8  # rows from which the columns of a target are learnt


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
    about as many nodes as rows; for trees of more than a dozen levels that is more than most data
    ask for. Not counted is what CUDA itself takes, some hundred MB for each process.

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
    if isinstance(estimator, GradientBoosting):
        raise NotImplementedError(
            f"{type(estimator).__name__}: what rounds of boosting take on the device is not "
            "estimated yet; ask for a DecisionTreeRegressor of its max_depth, which takes as much "
            "beside raw predictions, gradients and hessians"
        )
    table = _Table(
        integer_at_least("n_samples", n_samples, 1),
        integer_at_least("n_features", n_features, 1),
        integer_at_least("n_classes", n_classes, 1),
        integer_at_least("n_outputs", n_outputs, 1),
        _categorical_count(estimator.categorical_features, n_categorical, n_features),
        bool(weighted),
        np.dtype(one_of("dtype", np.dtype(dtype).name, ("float32", "float64"))),
    )
    task, shape = _task(clone(estimator).set_params(random_state=0), table), DeviceShape()
    if memory_budget is None:
        budget, shape = _current_device(task)
    else:
        budget = integer_at_least("memory_budget", memory_budget, 1)
    task = replace(task, memory_budget=int(HISTOGRAM_SHARE * budget))
    growing = fit_peak(task, budget, shape)
    itemsize = table.dtype.itemsize
    return max(growing, binning_peak(n_features, n_samples, itemsize, bool(weighted)))


def _categorical_count(listed: Any, given: int | None, n_features: int) -> int:
    """Features that are categories, by number, or by the mask, places or names of an estimator."""
    if given is not None:
        return integer_between("n_categorical", given, 0, n_features)
    if listed is None or isinstance(listed, str):
        return 0
    chosen = np.asarray(listed)
    count = np.count_nonzero(chosen) if chosen.dtype == bool else chosen.size
    return min(int(count), n_features)


def _current_device(task: GrowTask) -> tuple[int, DeviceShape]:
    """Bytes that a fit on the current device may use, and the device; no limit without one."""
    if why_no_cuda():
        return NO_BUDGET, DeviceShape()
    size = task.matrix.n_samples, task.matrix.n_features, len(task.trees), task.options.max_depth
    backend: Any = choose_backend("cuda", growth_work(*size, task.target.n_channels))
    with backend.runtime.active():
        return backend.runtime.memory_budget(), DeviceShape.of(backend.runtime)


@dataclass(frozen=True)
class _Table:
    """What is known of the data."""

    n_samples: int
    n_features: int
    n_classes: int
    n_outputs: int
    n_categorical: int
    weighted: bool
    dtype: np.dtype

    def labels(self, kind: Any) -> ClassLabels | ValueLabels:
        """Labels of the shape there will be."""
        if issubclass(kind, ClassLabels):
            codes = np.arange(self.n_samples, dtype=np.int32) % np.int32(self.n_classes)
            return ClassLabels(codes, np.arange(self.n_classes))
        return ValueLabels(np.broadcast_to(0.0, (self.n_samples, self.n_outputs)))

    def weights(self) -> np.ndarray | None:
        """Real weights, none of them a whole multiple of another."""
        return np.linspace(0.6, 1.0, self.n_samples) ** 0.5 if self.weighted else None

    def matrix(self, max_bins: int) -> BinnedMatrix:
        """Codes that take no memory."""
        shape = (self.n_features, max_bins)
        center = np.broadcast_to(0.0, shape)
        mapper = BinMapper(
            edges=(np.zeros(0),) * self.n_features,
            n_bins=np.full(self.n_features, max_bins, dtype=np.int32),
            low=center,
            high=center,
            center=center,
            is_categorical=np.arange(self.n_features) < self.n_categorical,
        )
        codes = np.broadcast_to(np.uint8(0), (self.n_features, self.n_samples))
        return BinnedMatrix(codes, mapper, np.zeros(self.n_features, dtype=np.int64))

    def target(self, labels: ClassLabels | ValueLabels, sampler: RowSampler) -> Target:
        """A target with the columns there will be, learnt from few rows."""
        facts, n = sampler.weight_facts, self.n_samples
        few = min(n, _FEW)
        real, inside = facts.real, facts.inside
        facts = replace(
            facts,
            real=None if real is None else real[:few],
            inside=None if inside is None else inside[:few],
        )
        if isinstance(labels, ClassLabels):
            found = class_target(labels.codes[:few], self.n_classes, facts)
        else:
            found = value_target(np.zeros((few, self.n_outputs)), facts)
        return replace(
            found,
            classes=_lengthened(found.classes, n),
            values=_lengthened(found.values, n),
            wide=_lengthened(found.wide, n),
        )


def _lengthened(column: np.ndarray | None, n: int) -> np.ndarray | None:
    """The first row of a column, n times, in no memory."""
    return None if column is None else np.broadcast_to(column[:1], (n, *column.shape[1:]))


def _task(estimator: Any, table: _Table) -> GrowTask:
    """What the backend would be asked for."""
    labels = table.labels(estimator._labels)
    weights = estimator._weights(labels, table.weights())
    batch = estimator._batch(labels, weights, table.n_features, None)
    seen = table.n_features if batch.feature_draw is None else batch.feature_draw.count
    options = tree_options(estimator._tree, table.n_samples, seen, labels.criteria)
    return GrowTask(
        table.matrix(bin_limit(estimator.max_bins)),
        table.target(labels, batch.sampler),
        options,
        rows_of=batch.sampler.rows,
        trees=batch.trees[:1] if estimator._in_turn else batch.trees,
        seed=0,
        sampler=batch.sampler,
    )
