"""What a user brings to a fit of gradient boosting -> checked and binned data, and the fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier

from gpuboost.backends.device_arrays import adopt_features, adopt_targets
from gpuboost.backends.select import Growth, Work, choose_backend, growth_work, rounds_are_replayed
from gpuboost.data.arrays import copy_to_host
from gpuboost.data.parameters import integer_at_least
from gpuboost.data.validation import check_flush_to_zero
from gpuboost.engine.bins import BinnedMatrix
from gpuboost.engine.ensembles.boosting_task import RowSet
from gpuboost.estimators.boosting import parameters as options
from gpuboost.estimators.boosting.baseline import fitted_init, raw_of_init, read_offset
from gpuboost.estimators.boosting.training import BoostingFit, TrainingData
from gpuboost.estimators.inputs.features import (
    read_prediction,
    read_targets,
    read_training,
    where_they_are,
)
from gpuboost.estimators.inputs.parameters import execution_of, tree_limits

if TYPE_CHECKING:
    from gpuboost.backends.protocol import Backend
    from gpuboost.engine.losses import Loss
    from gpuboost.estimators.boosting.model import BoostedRounds
    from gpuboost.estimators.inputs.features import Table
    from gpuboost.estimators.inputs.parameters import Execution
    from gpuboost.estimators.inputs.targets import ClassLabels, ValueLabels

ROW_PARTS = ("X", "y", "sample_weight", "offset")  # of one element of eval_set


@dataclass(frozen=True, eq=False)
class Given:
    """The arguments of `fit`."""

    X: Any
    y: Any
    sample_weight: Any
    offset: Any
    eval_set: Any


def read_fit(
    estimator: Any, given: Given, before: BoostedRounds | None
) -> tuple[BoostingFit, ClassLabels | ValueLabels]:
    """Read, check and bin everything, and choose the device."""
    check_flush_to_zero()
    execution = execution_of(estimator)
    X, device = adopt_features(given.X, execution.device)
    table = read_training(X, estimator, before)
    labels, weights = read_rows(estimator, given.y, given.sample_weight, table.shape[0], device)
    if before is not None:
        estimator._check_same_labels(labels)
    loss = estimator._make_loss(labels) if before is None else before.loss
    y = copy_to_host(labels.rows)
    loss.check_target(y)
    backend = choose_backend(device, work_of(estimator, table, loss))
    matrix = table.bin(weights, backend, execution.n_threads)
    init = None if before is None else before.init
    if before is None and estimator.init is not None:
        init = fitted_init(estimator.init, given.X, given.y, weights)
    data = TrainingData(
        table.schema,
        matrix,
        y,
        copy_to_host(estimator._weights(labels, weights)),
        start_of_rows(given.X, given.offset, init, loss, len(y)),
        init,
        [],
    )
    reader = EvaluationReader(estimator, data, loss, backend, execution)
    data.evaluated.extend(reader.read(given.eval_set, labels))
    return BoostingFit(estimator, data, loss, backend, execution, before), labels


def work_of(estimator: Any, table: Table, loss: Loss) -> Work:
    """What the fit costs, round after round, for the choice of a device."""
    n, n_features = table.shape
    counts = options.FeatureCounts.of(estimator, n_features)
    trees, columns = (
        (1, loss.columns) if options.sums_outputs(estimator, loss) else (loss.columns, 1)
    )
    limits = tree_limits(estimator, n, counts.level)
    of_replay = (limits[name] for name in ("max_depth", "max_leaf_nodes", "ccp_alpha"))
    growth = Growth(
        n,
        n_features,
        n_looked_at=counts.node,
        n_trees=trees,
        max_depth=limits["max_depth"],
        n_channels=columns,
        value_bytes=table.value_bytes,
        n_rounds=integer_at_least("n_estimators", estimator.n_estimators, 1),
        replayed=rounds_are_replayed(*of_replay),
        max_leaf_nodes=limits["max_leaf_nodes"],
        min_samples_leaf=limits["min_samples_leaf"],
    )
    return growth_work(growth)


def read_rows(
    estimator: Any, y: Any, sample_weight: Any, n: int, device: str
) -> tuple[ClassLabels | ValueLabels, np.ndarray | None]:
    """Labels, and weights of rows by the user."""
    y, sample_weight = (adopt_targets(given, device) for given in (y, sample_weight))
    with where_they_are(y, sample_weight):
        return read_targets(estimator._labels, y, sample_weight, n)


def start_of_rows(X: Any, offset: Any, init: Any, loss: Loss, n: int) -> np.ndarray | None:
    """What raw predictions start from beside a constant: float64 (n, columns)."""
    offsets = read_offset(offset, n, loss.columns)
    if init is None:
        return offsets
    own = raw_of_init(init, X, loss)
    return own if offsets is None else offsets + own


@dataclass(frozen=True, eq=False)
class EvaluationReader:
    """Reads ``eval_set`` with the columns, bins and labels of the training data."""

    estimator: Any
    data: TrainingData
    loss: Loss
    backend: Backend
    execution: Execution

    def read(self, eval_set: Any, labels: ClassLabels | ValueLabels) -> list[RowSet]:
        """The row sets; their raw predictions are those beside the constant."""
        if eval_set is None:
            return []
        if isinstance(eval_set, tuple) or not isinstance(eval_set, list):
            eval_set = [eval_set]
        return [self._rows(each, labels) for each in eval_set]

    def _rows(self, given: Any, labels: ClassLabels | ValueLabels) -> RowSet:
        if not isinstance(given, (tuple, list)) or not 2 <= len(given) <= len(ROW_PARTS):
            raise ValueError(
                "eval_set must be a list of (X, y), (X, y, sample_weight) or (X, y, sample_weight, "
                f"offset), got an element {type(given).__name__} of {given!r:.80}"
            )
        X, y, sample_weight, offset = (*given, None, None)[:4]
        data = read_prediction(X, self.data, type(self.estimator).__name__)
        n = data.n_samples if isinstance(data, BinnedMatrix) else len(data)
        own, weights = read_rows(self.estimator, y, sample_weight, n, self.backend.name)
        target = self._target(own, labels)
        offsets = start_of_rows(X, offset, self.data.init, self.loss, len(target))
        if offsets is None:
            offsets = np.zeros((len(target), self.loss.columns))
        return RowSet(data, target, weights, offsets)

    def _target(self, own: Any, labels: Any) -> np.ndarray:
        """Targets as the training data has them."""
        if not is_classifier(self.estimator):
            if own.values.shape[1:] != labels.values.shape[1:]:
                raise ValueError(
                    f"y of eval_set has shape {own.values.shape}, that of fit "
                    f"{labels.values.shape}; both must have the same outputs"
                )
            return own.values
        unknown = np.setdiff1d(own.classes, labels.classes)
        if len(unknown):
            raise ValueError(
                f"y of eval_set has the classes {unknown!r:.80}, which y of fit does not have; "
                "leave those rows out"
            )
        place = np.searchsorted(labels.classes, own.classes)
        return place[own.codes].astype(np.int32)
