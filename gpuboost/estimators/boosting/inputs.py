"""Inputs of gradient boosting besides X: loss, y, weights, offsets and evaluation sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.backends.cost_model import GrowthSize
from gpuboost.backends.device_arrays import adopt_targets
from gpuboost.data.advice import warn_user
from gpuboost.data.class_labels import codes_among
from gpuboost.data.parameters import integer_at_least
from gpuboost.data.sparse_features import SparseFeatures, to_dense
from gpuboost.engine.array_modules import copy_to_host
from gpuboost.engine.ensembles.boosting_task import RowSet
from gpuboost.engine.losses import Loss
from gpuboost.estimators.boosting import parameters as options
from gpuboost.estimators.boosting.baseline import raw_of_init, read_offset
from gpuboost.estimators.boosting.further_rounds import check_same_loss
from gpuboost.estimators.fitting.grow_plan import growth_of
from gpuboost.estimators.fitting.pipeline import FitInputs, Prepared
from gpuboost.estimators.inputs.features import read_prediction, read_targets, where_they_are
from gpuboost.estimators.inputs.parameters import tree_limits
from gpuboost.estimators.inputs.targets import ClassLabels, Labels

ROW_PARTS = ("X", "y", "sample_weight", "offset")  # parts of one element of eval_set


@dataclass(frozen=True, eq=False)
class BoostPlan:
    """The loss, targets and weights of a fit; ``y`` and ``weights`` are on the host.

    Attributes
    ----------
    loss : Loss
        The loss that is minimised.
    y : float64 (n,) or (n, n_outputs), or class codes int32 (n,)
        Targets.
    weights : float64 (n,) or None
        The user's weights times class weights.
    given_weights : float64 (n,) or None
        The user's weights without class weights, on their device, for ``init``.
    """

    loss: Loss
    y: np.ndarray
    weights: np.ndarray | None
    given_weights: np.ndarray | None = None


def boost_plan(estimator: Any, inputs: FitInputs) -> tuple[BoostPlan, GrowthSize]:
    """The plan of a boosting fit, and the `GrowthSize` of its rounds."""
    labels, before = inputs.labels, inputs.before
    loss = estimator._make_loss(labels) if before is None else before.loss
    if getattr(loss, "objective", loss) is None and estimator.n_estimators != before.n_rounds:
        loss = estimator._make_loss(labels)  # a model file holds no code
        if loss.has_formula:
            raise ValueError("this model was read without its loss; set the parameter loss to it")
    y = copy_to_host(labels.rows)
    if estimator._adds_rounds:
        check_same_loss(loss, estimator._make_loss(labels))
    loss.check_target(y)
    weights = copy_to_host(estimator._weights(labels, inputs.weights))
    if weights is not None and isinstance(labels, ClassLabels):
        _check_classes(y, weights)
    plan = BoostPlan(loss, y, weights, inputs.weights)
    level = options.FeatureCounts.of(estimator, inputs.schema.n_features).level
    in_leaves = loss.columns if options.sums_outputs(estimator, loss) else 1
    n_rounds = integer_at_least("n_estimators", estimator.n_estimators, 1)
    of_trees = loss.columns // in_leaves, n_rounds, in_leaves
    return plan, growth_of(inputs, tree_limits(estimator, len(y), level), of_trees)


def _check_classes(codes: np.ndarray, weights: np.ndarray) -> None:
    """Check that two classes have rows of positive weight."""
    n_left = int(np.count_nonzero(np.bincount(codes, weights)))
    if n_left < 2:
        raise ValueError(
            f"y contains {n_left} class after sample_weight trimmed classes with zero weights, "
            "while a minimum of 2 classes are required; give rows of two classes a positive weight"
        )


def start_of_rows(X: Any, offset: Any, init: Any, loss: Loss, n: int) -> np.ndarray | None:
    """Offsets plus raw predictions of ``init``: float64 (n, columns); None if both are None.

    ``init`` is the fitted estimator.
    """
    offsets = read_offset(offset, n, loss.columns)
    if init is None:
        return offsets
    own = raw_of_init(init, X, loss)
    return own if offsets is None else offsets + own


def read_eval_set(
    eval_set: Any, estimator: Any, prepared: Prepared[BoostPlan], init: Any, has_offset: bool
) -> list[RowSet]:
    """The row sets of ``eval_set``, a list of tuples or a single tuple.

    Their raw predictions do not include the baseline yet. If the training rows have an offset
    (``has_offset``), sets without one get a warning.
    """
    if eval_set is None:
        return []
    several = eval_set if isinstance(eval_set, list) else [eval_set]
    sets = [_read_rows(each, estimator, prepared, init) for each in several]
    if has_offset and any(len(each) < len(ROW_PARTS) or each[3] is None for each in several):
        warn_user("fit has an offset, but a set of eval_set has none and starts from 0")
    return sets


def _read_rows(given: Any, estimator: Any, prepared: Prepared[BoostPlan], init: Any) -> RowSet:
    """Read one element of ``eval_set``, with the columns, bins and classes of the training data."""
    if not isinstance(given, (tuple, list)) or not 2 <= len(given) <= len(ROW_PARTS):
        raise ValueError(
            "eval_set must be a list of (X, y), (X, y, sample_weight) or (X, y, sample_weight, "
            f"offset), got an element of type {type(given).__name__}"
        )
    if prepared.matrix.is_blocked:  # rounds run on the host
        given = tuple(adopt_targets(each, "cpu") for each in given)
    X, y, sample_weight, offset = (*given, None, None)[:4]
    loss = prepared.plan.loss
    data = read_prediction(X, prepared.schema, prepared.matrix.mapper, estimator._shown_name)
    data = to_dense(data) if isinstance(data, SparseFeatures) else data
    y, sample_weight = (adopt_targets(its, prepared.backend.name) for its in (y, sample_weight))
    with where_they_are(y, sample_weight):
        own, weights = read_targets(estimator._read_labels, y, sample_weight, len(data))
    target = _known_target(own, prepared.labels)
    offsets = start_of_rows(X, offset, init, loss, len(target))
    if offsets is None:
        offsets = np.zeros((len(target), loss.columns))
    return RowSet(data, target, weights, offsets)


def _known_target(own: Labels, labels: Labels) -> np.ndarray:
    """Targets of evaluation rows; classes are encoded as in the training data."""
    if not isinstance(own, ClassLabels) or not isinstance(labels, ClassLabels):
        if own.rows.shape[1:] != labels.rows.shape[1:]:
            raise ValueError(
                f"y of eval_set has shape {own.rows.shape}, y of fit has {labels.rows.shape}; both "
                "must have the same number of outputs"
            )
        return own.rows
    return codes_among(labels.classes, own.rows, own.classes, "y of eval_set")
