"""What all exports write of a fitted estimator."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpuboost.data.frames import FeatureSchema
from gpuboost.data.validation import feature_label
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.losses.links import IDENTITY, LOGIT, SOFTMAX, Link
from gpuboost.estimators.adaboost.model import AdaBoostTrees
from gpuboost.estimators.boosting.hist_gradient_boosting import HistGradientBoosting
from gpuboost.estimators.boosting.model import BoostedRounds
from gpuboost.estimators.fitting.base import TreeModel
from gpuboost.estimators.model.fitted import FittedTrees

MEAN, SUM, MEDIAN = "mean", "sum", "median"


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelContents:
    """The trees of a fitted estimator, and how its predictions are computed from their leaves.

    Attributes
    ----------
    name : str
        Name of the class.
    trees : Ensemble
        The trees; their values are class probabilities, votes, outputs, or terms of a sum.
    schema : FeatureSchema
        The columns of X.
    aggregation : {MEAN, SUM, MEDIAN}
        How the values of a row's leaves become raw predictions; MEDIAN is weighted by ``votes``.
    classes : list of ndarray
        Class labels of each output; empty for a regression.
    n_outputs : int
        Number of outputs.
    trees_per_round : int
        If above 1, tree t adds to column t % trees_per_round; otherwise to all columns.
    baseline : float64 (columns,)
        Added to the mean or sum.
    divisor : float
        The sum is divided by this number.
    link : Link
        Makes predictions of raw predictions divided by ``link_divisor``.
    link_divisor : float
        See ``link``.
    votes : float64 (n_trees,) or None
        Weights of the trees in AdaBoost.
    """

    name: str
    trees: Ensemble
    schema: FeatureSchema
    aggregation: str
    classes: list[np.ndarray]
    n_outputs: int
    baseline: np.ndarray
    trees_per_round: int = 1
    divisor: float = 1.0
    link: Link = IDENTITY
    link_divisor: float = 1.0
    votes: np.ndarray | None = None

    @property
    def columns(self) -> int:
        """Number of raw predictions of a row."""
        return len(self.baseline)

    @property
    def is_classifier(self) -> bool:
        """Whether there are class labels."""
        return bool(self.classes)


def split_categories(trees: Ensemble, schema: FeatureSchema) -> list[str]:
    """Labels of the features with categorical splits."""
    used = np.unique(trees.feature[trees.category >= 0]).tolist()
    return [feature_label(feature, schema.names) for feature in used]


def own_estimator(estimator: Any, target: str) -> TreeModel:
    """The estimator that holds the trees: ``estimator``, or the boosting in `HistGradientBoosting`.

    Raises
    ------
    NotFittedError
        If it is not fitted.
    TypeError
        If its trees are not gpuboost's.
    """
    check_is_fitted(estimator)
    if isinstance(estimator, HistGradientBoosting):
        return estimator._fitted()
    if not isinstance(estimator, TreeModel) or estimator._model is None:
        maker = getattr(estimator, "source_", "the library that has made it")
        raise TypeError(
            f"only models with trees that gpuboost has grown can be exported to {target}, got "
            f"{estimator!r:.80}; export the model with {maker}"
        )
    return estimator


def contents_of(estimator: Any, target: str) -> ModelContents:
    """Read a fitted estimator, to be exported to ``target``.

    Raises
    ------
    NotFittedError, TypeError
        As `own_estimator`.
    ValueError
        If predictions depend on Python code or on an ``init`` estimator.
    """
    own, name = own_estimator(estimator, target), type(estimator).__name__
    model: FittedTrees = own._model
    found = getattr(own, "classes_", [])
    classes = found if isinstance(found, list) else [found]
    facts: dict[str, Any] = {
        "name": name,
        "schema": model.schema,
        "classes": classes,
        "n_outputs": own.n_outputs_,
    }
    if isinstance(model, BoostedRounds):
        return _of_boosting(model, facts, target)
    if isinstance(model, AdaBoostTrees):
        return _of_adaboost(model, facts)
    trees = model.votes if classes and own._voting_rule() == "hard" else model.ensemble
    return ModelContents(trees=trees, aggregation=MEAN, baseline=np.zeros(trees.n_values), **facts)


def _of_adaboost(model: AdaBoostTrees, facts: dict[str, Any]) -> ModelContents:
    votes, classes = model.tree_votes, facts["classes"]
    if not classes:
        return ModelContents(
            trees=model.ensemble, aggregation=MEDIAN, votes=votes, baseline=np.zeros(1), **facts
        )
    n_classes, trees = len(classes[0]), model.votes
    return ModelContents(
        trees=trees,
        aggregation=SUM,
        votes=votes,
        baseline=np.zeros(trees.n_values),
        divisor=float(np.cumsum(votes)[-1]),
        link=LOGIT if n_classes == 2 else SOFTMAX,
        link_divisor=1.0 if n_classes == 2 else float(max(n_classes - 1, 1)),
        **facts,
    )


def _of_boosting(model: BoostedRounds, facts: dict[str, Any], target: str) -> ModelContents:
    if model.init is not None:
        raise ValueError(
            f"this {facts['name']} starts from the predictions of init={model.init!r:.80}, which "
            f"cannot be exported to {target}; fit with init=None or init='zero'"
        )
    return ModelContents(
        trees=model.ensemble,
        aggregation=SUM,
        baseline=model.baseline,
        trees_per_round=model.trees_per_round,
        link=_link_of(model, facts, target),
        **facts,
    )


def _link_of(model: BoostedRounds, facts: dict[str, Any], target: str) -> Link:
    """The link of the loss; of a user's loss, the one that is used if it has no ``predict``."""
    loss = model.loss
    if loss.has_formula:
        return loss.facts.link
    if hasattr(getattr(loss, "objective", None), "predict"):
        raise ValueError(
            f"the loss of this {facts['name']} has a method predict, which is Python code and "
            f"cannot be exported to {target}; use a loss without it, or a built-in loss"
        )
    if not facts["classes"]:
        return IDENTITY
    return LOGIT if loss.columns == 1 else SOFTMAX


def optional_module(name: str, extra: str) -> Any:
    """Import an optional library.

    Raises
    ------
    ImportError
        If it is not installed; the message names the extra.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"this needs {name.split('.')[0]}, which is not installed; run "
            f"pip install 'gpuboost[{extra}]'"
        ) from error
