"""The steps of every fit: prepare, grow, keep.

`prepare` reads the parameters of the execution, then X, y and the weights. It calls the estimator's
``_plan``, which reads most of the other parameters; then it chooses a backend and bins X. From the
resulting `Prepared` object, the estimator grows its trees or boosts its rounds. `keep` replaces the
fitted attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from traceback import clear_frames
from typing import Any, Generic, TypeVar

import numpy as np

from gpuboost.backends.cost_model import growth_work
from gpuboost.backends.device_arrays import adopt_features, adopt_targets
from gpuboost.backends.protocol import Backend
from gpuboost.backends.select import choose_backend
from gpuboost.data.frames import FeatureSchema
from gpuboost.data.validation import check_flush_to_zero, check_target_given
from gpuboost.engine.bins import BinnedMatrix
from gpuboost.estimators.fitting.callbacks import FitCallbacks
from gpuboost.estimators.inputs.features import read_targets, read_training, where_they_are
from gpuboost.estimators.inputs.parameters import Execution, execution_of
from gpuboost.estimators.inputs.targets import AnyLabels
from gpuboost.estimators.model.fitted import FittedTrees

Plan = TypeVar("Plan")


@dataclass(frozen=True, eq=False)
class FitInputs:
    """The input of an estimator's ``_plan``: all that was read from the user, except X itself.

    Attributes
    ----------
    labels : ClassLabels, MultiOutputClassLabels or ValueLabels
        Checked targets.
    weights : float64 (n_samples,) or None
        The user's weights.
    schema : FeatureSchema
        Names and kinds of the features.
    value_bytes : int
        Bytes per value of X: 4 or 8, or 1 if X is binned already.
    before : FittedTrees or None
        The model that a warm start adds trees to.
    """

    labels: AnyLabels
    weights: np.ndarray | None
    schema: FeatureSchema
    value_bytes: int = 4
    before: Any = None


@dataclass(frozen=True, eq=False)
class RoundInputs:
    """Arguments of the ``fit`` of gradient boosting that the rounds need, as the user gave them.

    ``X`` and ``y`` are for the ``init`` estimator.
    """

    X: Any = None
    y: Any = None
    monitor: Callable[..., Any] | None = None
    offset: Any = None
    eval_set: Any = None


@dataclass(frozen=True, eq=False)
class Prepared(Generic[Plan]):
    """Everything that is known before the first tree grows.

    Attributes
    ----------
    schema : FeatureSchema
        Names and kinds of the features.
    matrix : BinnedMatrix
        Binned training rows.
    labels : ClassLabels, MultiOutputClassLabels or ValueLabels
        Checked targets.
    plan : GrowPlan or BoostPlan
        The plan that the estimator's ``_plan`` returned.
    backend : Backend
        The backend that grows the trees.
    execution : Execution
        Device, number of threads and verbosity.
    before : FittedTrees or None
        The model that a warm start or a resumed fit adds trees to.
    resumed : estimator or None
        The fitted estimator of ``before``, if a fit is resumed.
    """

    schema: FeatureSchema
    matrix: BinnedMatrix
    labels: AnyLabels
    plan: Plan
    backend: Backend
    execution: Execution
    before: Any = None
    resumed: Any = None


def run_fit(
    estimator: Any, X: Any, y: Any, sample_weight: Any, rounds: RoundInputs | None = None
) -> None:
    """Prepare, grow and keep. The prepared data is released on return.

    After an error, the frames in its traceback keep the data alive; `memory_advice` clears those of
    a MemoryError.
    ``rounds`` is passed to the ``_grow`` of gradient boosting.
    """
    prepared = prepare(estimator, X, y, sample_weight)
    if estimator._has_all_trees():
        return
    own = () if rounds is None else (rounds,)
    keep(estimator, prepared, *estimator._grow(prepared, *own))


def prepare(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Prepared[Any]:
    """Read, check, plan and bin. Columns made from X are released here, before trees grow."""
    check_flush_to_zero()
    check_target_given(getattr(X, "shape", ()), y, type(estimator).__name__)
    execution, before = execution_of(estimator), estimator._model_to_extend()
    resumed = FitCallbacks.of(estimator).start(estimator, before)
    if resumed is not None:
        before = resumed._model
    X, device = adopt_features(X, execution.device)
    with _advice_if_resumed(resumed):
        table = read_training(X, estimator, before)
    device, of_targets = _devices_for(table.data, device)
    y, sample_weight = (adopt_targets(given, of_targets) for given in (y, sample_weight))
    with where_they_are(y, sample_weight), _advice_if_resumed(resumed):
        labels, weights = read_targets(estimator._read_labels, y, sample_weight, table.n_samples)
        if before is not None and not estimator._has_all_trees():
            check_same_labels(resumed or estimator, labels)
        inputs = FitInputs(labels, weights, table.schema, table.value_bytes, before)
        plan, growth = estimator._plan(inputs)
    backend = choose_backend(device, growth_work(growth))
    matrix = table.bin(weights, backend, execution.n_threads)
    of_fit = plan, backend, execution, before, resumed
    return Prepared(table.schema, matrix, labels, *of_fit)


def _devices_for(data: Any, device: str) -> tuple[str, str]:
    """The devices of a fit and of its targets: for codes in blocks, targets are on the host."""
    if not (isinstance(data, BinnedMatrix) and data.is_blocked):
        return device, device
    return "cpu" if device == "auto" else device, "cpu"


@contextmanager
def _advice_if_resumed(resumed: Any) -> Iterator[None]:
    """Context in which errors of a resumed fit say that the checkpoint may be of other data."""
    try:
        yield
    except ValueError as error:
        if resumed is None:
            raise
        raise ValueError(
            f"{error} (This fit is resumed from a checkpoint. If that is of other data, delete its "
            "file or use another path.)"
        ) from error


def check_same_labels(estimator: Any, labels: AnyLabels) -> None:
    """Check that added trees have the classes and the number of outputs of those before."""
    for name, value in labels.attributes().items():
        if not _equal(getattr(estimator, name), value):
            raise ValueError(
                f"to add trees to a model, y must have the same {name} as before, "
                f"{getattr(estimator, name)!r:.80}, got {value!r:.80}; start a new model, with "
                "warm_start=False and without init_model"
            )


def _equal(before: Any, now: Any) -> bool:
    """Whether two numbers, arrays, or lists of arrays of the outputs are equal."""
    if isinstance(before, list) and isinstance(now, list):
        return len(before) == len(now) and all(map(np.array_equal, before, now))
    return not isinstance(before, list) and np.array_equal(before, now)


def keep(
    estimator: Any, prepared: Prepared[Any], model: FittedTrees, facts: dict[str, Any]
) -> None:
    """Replace the fitted attributes; ``facts`` are the attributes specific to the estimator."""
    found = {
        "_model": model,
        **model.schema.attributes(),
        "_binning": (estimator.max_bins, estimator.categorical_features),
        "device_": prepared.backend.name,
        **prepared.labels.attributes(),
        **facts,
    }
    estimator._adopt(found)


def fitted_copy(
    estimator: Any, prepared: Prepared[Any], model: FittedTrees, facts: dict[str, Any]
) -> Any:
    """A copy of an estimator, fitted by a model; it has no callbacks."""
    other = copy(estimator)
    other.callbacks = None
    keep(other, prepared, model, facts)
    return other


@contextmanager
def memory_advice() -> Iterator[None]:
    """Context that adds advice to a MemoryError, and releases the arrays in its traceback."""
    try:
        yield
    except MemoryError as error:
        clear_frames(error.__traceback__)  # a stored error must not keep the arrays alive
        raise MemoryError(
            "Not enough memory for this fit; the estimator is unchanged. Grow smaller trees "
            "(max_depth, max_leaf_nodes, min_samples_leaf), fewer trees (n_estimators), or fewer "
            "at a time (n_jobs). float32 in place of float64, or a gpuboost.Dataset in place of X, "
            f"at least halves the data. ({error})"
        ) from error
