"""The fitted models of all estimators in a file.

A model has a kind, which is that of its estimator: the trees of forests, the rounds of boosting or
those of AdaBoost. What all kinds have is in `files.trees`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.engine.losses import Loss, make_loss
from gpuboost.engine.losses.custom import placeholder_loss
from gpuboost.engine.losses.links import IDENTITY, LOG
from gpuboost.estimators.adaboost.model import AdaBoostTrees
from gpuboost.estimators.boosting.model import BoostedRounds
from gpuboost.estimators.files.trees import Parts, prefixed, trees_from_parts, trees_to_parts
from gpuboost.estimators.model.fitted import FittedTrees
from gpuboost.io.checks import Arrays, Fields, require
from gpuboost.io.json_values import NotStorable, from_json, to_json

USER_LOSS = "user"
MAX_COLUMNS = 2**20  # of raw predictions
_LARGEST_RAW = 700.0  # whose exponential is finite


@dataclass(frozen=True)
class TargetShape:
    """What is known of the target of a model: the classes of each output, or none.

    Attributes
    ----------
    n_classes : tuple of int
        Number of classes of each output; empty in a regression.
    n_outputs : int
        Number of outputs.
    """

    n_classes: tuple[int, ...]
    n_outputs: int

    @property
    def width(self) -> int:
        """Number of values of a leaf of a tree that predicts probabilities or means."""
        return self.n_outputs * max(self.n_classes, default=1)


@dataclass(frozen=True)
class EstimatorCoder:
    """Encodes and decodes the estimators that are part of a model.

    Attributes
    ----------
    to_json, from_json : callable
        Unfitted estimators as JSON.
    to_parts, from_parts : callable
        Fitted estimators as parts of a file.
    """

    to_json: Callable[[Any], Any]
    from_json: Callable[[str, Any], Any]
    to_parts: Callable[[Any], Parts]
    from_parts: Callable[[Fields, Arrays], Any]


def model_to_parts(model: FittedTrees, coder: EstimatorCoder) -> Parts:
    """The parts of a model of any kind."""
    header, arrays = trees_to_parts(model, coder.to_json)
    if isinstance(model, AdaBoostTrees):
        names = ("tree_votes", "errors", "bounds")
        return header, arrays | {name: getattr(model, name) for name in names}
    if not isinstance(model, BoostedRounds):
        return header, arrays
    header |= {"loss": _loss_to_json(model.loss), "trees_per_round": model.trees_per_round}
    arrays |= {"baseline": np.ascontiguousarray(model.baseline, np.float64)}
    if model.init is not None:
        header["init"], of_init = coder.to_parts(model.init)
        arrays |= prefixed("init", of_init)
    return header, arrays


def forest_from_parts(
    fields: Fields, arrays: Arrays, target: TargetShape, coder: EstimatorCoder
) -> FittedTrees:
    """Check and read the trees of a tree, a forest or bagging."""
    model = trees_from_parts(fields, arrays, (target.n_outputs, target.width), coder.from_json)
    if target.n_classes:
        _check_probabilities(model.ensemble.value, target)
    return model


def adaboost_from_parts(
    fields: Fields, arrays: Arrays, target: TargetShape, coder: EstimatorCoder
) -> AdaBoostTrees:
    """Check and read a model of AdaBoost."""
    model = forest_from_parts(fields, arrays, target, coder)
    n_trees = (model.ensemble.n_trees,)
    votes = arrays.finite("tree_votes", n_trees)
    require((votes >= 0.0).all() and votes.sum() > 0.0, "the weights of trees are negative or 0")
    rest = {name: arrays.take(name, np.float64, n_trees) for name in ("errors", "bounds")}
    return _of_kind(model, AdaBoostTrees, tree_votes=votes, **rest)


def boosting_from_parts(
    fields: Fields, arrays: Arrays, target: TargetShape, coder: EstimatorCoder
) -> BoostedRounds:
    """Check and read a model of gradient boosting."""
    loss = _loss_from_json(fields.part("loss"), target)
    per_round = fields.integer("trees_per_round", 1, MAX_COLUMNS)
    require(per_round in (1, loss.columns), "a round has neither one tree nor one for each column")
    width = 1 if per_round > 1 else loss.columns
    model = trees_from_parts(fields, arrays, (1, width), coder.from_json)
    require(model.ensemble.n_trees % per_round == 0, "the last round lacks trees")
    baseline, init = arrays.finite("baseline", (loss.columns,)), None
    if "init" in fields:
        init = coder.from_parts(fields.part("init"), arrays.part("init"))
        _check_init(init, model, loss, target)
    own = {"loss": loss, "baseline": baseline, "trees_per_round": per_round, "init": init}
    return _of_kind(model, BoostedRounds, **own)


def _of_kind(model: FittedTrees, kind: type[FittedTrees], **own: Any) -> Any:
    """A model of a subclass with the fields of ``model`` and some of its own."""
    shared = {name: getattr(model, name) for name in ("ensemble", "mapper", "schema", "batches")}
    return kind(**shared, n_outputs=model.n_outputs, **own)


def _check_init(init: Any, model: FittedTrees, loss: Loss, target: TargetShape) -> None:
    """Check that ``init`` predicts on the same columns, and what boosting can start from."""
    names: Any = getattr(init, "feature_names_in_", None)
    same = np.array_equal(np.array(model.schema.names), names)
    same = same and model.schema.n_features == init.n_features_in_
    require(same, "init has other columns than the model")
    if loss.is_classifier:
        sizes = tuple(map(len, [init.classes_])) if hasattr(init, "classes_") else ()
        require(sizes == target.n_classes, "init has other classes than the model")
        return
    is_value = not hasattr(init, "classes_") and getattr(init, "n_outputs_", 1) in (1, loss.columns)
    require(is_value, "init does not predict the values of the outputs")
    if loss.facts.link != IDENTITY:
        is_positive = _predicts_positive(getattr(getattr(init, "_boosting", init), "_model", None))
        require(
            is_positive, "init may have predictions that are not positive, but the loss needs them"
        )


def _predicts_positive(model: Any) -> bool:
    """Whether all predictions of a model are positive and finite."""
    if not isinstance(model, BoostedRounds):
        return isinstance(model, FittedTrees) and bool(model.ensemble.value.min() > 0.0)
    largest = np.abs(model.ensemble.value).max(axis=1)
    of_trees = np.maximum.reduceat(largest, model.ensemble.offset[:-1])
    raw = np.abs(model.baseline).max() + of_trees.sum()
    return model.loss.facts.link == LOG and model.init is None and bool(raw <= _LARGEST_RAW)


def _check_probabilities(value: np.ndarray, target: TargetShape) -> None:
    """Check that leaves hold probabilities, and none of classes that an output lacks."""
    per_output = value.reshape(len(value), target.n_outputs, -1)
    in_range = value.min() >= 0.0 and value.max() <= 1.0
    near_one = np.abs(per_output.sum(axis=2) - 1.0).max() < 1e-6
    require(in_range and near_one, "a node has class probabilities that do not sum to 1")
    for own, n_classes in zip(per_output.transpose(1, 0, 2), target.n_classes, strict=True):
        require(not own[:, n_classes:].any(), "a class that an output lacks has a probability")


def _loss_to_json(loss: Loss) -> dict[str, Any]:
    if loss.has_formula:
        given: Any = getattr(loss, "given", None)
        return {"name": loss.facts.name, "columns": loss.columns, "given": to_json(given)}
    objective: Any = getattr(loss, "objective", None)
    if hasattr(objective, "predict"):
        raise NotStorable(
            f"the loss {objective!r:.80} has a method predict, which a file cannot hold; fit with "
            "a loss without this method, and apply the function to the raw predictions"
        )
    return {"name": USER_LOSS, "columns": loss.columns, "given": None}


def _loss_from_json(fields: Fields, target: TargetShape) -> Loss:
    name, columns = fields.text("name"), fields.integer("columns", 1, MAX_COLUMNS)
    given = from_json(fields.take("given"))
    fields.end()
    n_classes = target.n_classes[0] if target.n_classes else 0
    if name == USER_LOSS:
        loss: Loss = placeholder_loss(columns)
    else:
        loss = _named_loss(name, given, columns, n_classes)
    fits = not n_classes or loss.columns == (1 if n_classes <= 2 else n_classes)
    require(
        fits and loss.columns == columns,
        "the loss and the target have different numbers of columns",
    )
    return loss


def _named_loss(name: str, given: Any, columns: int, n_classes: int) -> Loss:
    n_outputs = 1 if isinstance(given, tuple) else columns
    loss = make_loss(name, n_outputs, n_classes)
    if given is None:
        return loss
    parameter = getattr(loss, "parameter", "")
    require(parameter, f"the loss {name} has no parameter")
    return make_loss(name, n_outputs, n_classes, **{parameter: given})
