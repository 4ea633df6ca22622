"""Gradient boosting as that of scikit-learn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn import ensemble as sklearn_ensemble
from sklearn import tree as sklearn_trees
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper

from gpuboost.engine.growth.tree import Tree
from gpuboost.engine.losses.links import IDENTITY
from gpuboost.estimators.boosting.hist_gradient_boosting import HistGradientBoosting
from gpuboost.estimators.boosting.model import BoostedRounds
from gpuboost.interchange.export.sklearn_parameters import (
    copy_attributes,
    sklearn_class_of,
    with_parameters_of,
)
from gpuboost.interchange.export.sklearn_trees import sklearn_tree, tree_predictor

OF_GRADIENT_BOOSTING = ("squared_error", "absolute_error", "huber", "quantile")
OF_HIST_GRADIENT_BOOSTING = ("poisson", "gamma")
OF_CLASSIFIERS = ("log_loss", "exponential")
BASELINE_ERROR = 1e-14  # relative to max(1, |baseline|)


def sklearn_boosting(estimator: Any, own: Any) -> Any:
    """The estimator of scikit-learn for gradient boosting.

    Parameters
    ----------
    estimator : estimator
        `GradientBoosting*` or `HistGradientBoosting*`.
    own : GradientBoosting
        The boosting that holds the trees.

    Raises
    ------
    ValueError
        If scikit-learn has no such model.
    """
    model: BoostedRounds = own._model
    _check_loss(model, sklearn_class_of(estimator).__name__)
    is_hist = isinstance(estimator, HistGradientBoosting)
    if is_hist or model.loss.facts.name in OF_HIST_GRADIENT_BOOSTING:
        return _hist_gradient_boosting(estimator, own)
    return _gradient_boosting(own)


def _check_loss(model: BoostedRounds, name: str) -> None:
    """Check that scikit-learn has the loss, for as many columns."""
    loss, classifies = model.loss, "Classifier" in name
    of_values = (*OF_GRADIENT_BOOSTING, *OF_HIST_GRADIENT_BOOSTING)
    known = OF_CLASSIFIERS if classifies else of_values
    if not loss.has_formula or loss.facts.name not in known:
        shown = repr(loss.facts.name) if loss.has_formula else "a user-defined loss"
        raise ValueError(
            f"this {name} minimises {shown}, which scikit-learn's gradient boosting does not have; "
            f"it has {', '.join(map(repr, known))}; to_treelite and to_onnx export any loss"
        )
    if loss.columns > 1 and not classifies:
        raise ValueError(
            f"this {name} has {loss.columns} outputs or quantile levels, but scikit-learn's "
            "gradient boosting has one; use to_treelite or to_onnx, or fit one model for each"
        )
    if model.init is not None and loss.facts.link != IDENTITY:
        raise ValueError(
            f"this {name} starts from the predictions of init={model.init!r:.80}, which "
            "scikit-learn would clip in another way; fit with init=None or init='zero'"
        )


def _rounds(model: BoostedRounds) -> list[list[Tree]]:
    """The trees of each round, one for each column, with one value per leaf."""
    k, trees = model.trees_per_round, model.ensemble.trees
    if k > 1 or model.ensemble.n_values == 1:
        return [list(trees[start : start + k]) for start in range(0, len(trees), k)]
    columns = range(model.ensemble.n_values)
    return [[replace(tree, value=tree.value[:, [c]]) for c in columns] for tree in trees]


def _without_trees(kind: str, estimator: Any, model: BoostedRounds) -> Any:
    """scikit-learn's boosting with the parameters, the attributes and the loss of ours."""
    ending = "Classifier" if model.loss.is_classifier else "Regressor"
    made = with_parameters_of(getattr(sklearn_ensemble, kind + ending), estimator)
    copy_attributes(made, estimator)
    made.n_trees_per_iteration_ = model.loss.columns
    made._loss = made._get_loss(sample_weight=None)
    return made


# ---- GradientBoosting* ---------------------------------------------------------------------------


def _gradient_boosting(own: Any) -> Any:
    """`sklearn.ensemble.GradientBoosting*`; leaf values contain the learning rate, which is 1."""
    model: BoostedRounds = own._model
    made = _without_trees("GradientBoosting", own, model)
    made.set_params(learning_rate=1.0, criterion=type(made)().criterion)
    if model.loss.is_classifier:
        vars(made).pop("n_outputs_", None)
    rounds = _rounds(model)
    made.estimators_ = np.empty((len(rounds), model.loss.columns), dtype=object)
    for index in np.ndindex(made.estimators_.shape):
        made.estimators_[index] = _tree_of_round(own, rounds[index[0]][index[1]])
    if not _set_start(made, model):
        made.init = made.init_ = "zero"
        for k, (tree, constant) in enumerate(zip(rounds[0], model.baseline, strict=True)):
            moved = replace(tree, value=tree.value + constant)
            made.estimators_[0, k] = _tree_of_round(own, moved)
    return made


def _set_start(made: Any, model: BoostedRounds) -> bool:
    """Set ``init_`` to an estimator that predicts the baseline; False if none is close enough."""
    n_features = made.n_features_in_
    if model.init is not None:
        made.init = made.init_ = model.init
        return True
    if model.loss.is_classifier:
        probabilities = model.loss.predict(model.baseline[None])[0]
        made.init_ = DummyClassifier(strategy="prior")
        facts = {"class_prior_": probabilities, "classes_": made.classes_, "n_outputs_": 1}
        facts |= {"n_classes_": len(made.classes_), "_strategy": "prior", "sparse_output_": False}
    else:
        made.init_ = DummyRegressor(strategy="constant", constant=model.baseline[0])
        facts = {"constant_": model.baseline[None], "n_outputs_": 1}
    vars(made.init_).update(facts, n_features_in_=n_features)
    found = made._raw_predict_init(np.zeros((1, n_features), dtype=np.float32))[0]
    error = np.abs(found - model.baseline) / np.maximum(1.0, np.abs(model.baseline))
    return bool(error.max() <= BASELINE_ERROR)


def _tree_of_round(own: Any, tree: Tree) -> Any:
    """A fitted `sklearn.tree.DecisionTreeRegressor`."""
    made = with_parameters_of(sklearn_trees.DecisionTreeRegressor, own._empty_tree())
    made.n_features_in_, made.n_outputs_ = own.n_features_in_, 1
    made.max_features_ = own.max_features_
    made.tree_ = sklearn_tree(tree, own.n_features_in_, np.ones(1, dtype=np.intp))
    return made


# ---- HistGradientBoosting* -----------------------------------------------------------------------


def _hist_gradient_boosting(estimator: Any, own: Any) -> Any:
    """`sklearn.ensemble.HistGradientBoosting*`."""
    model: BoostedRounds = own._model
    made = _without_trees("HistGradientBoosting", estimator, model)
    made.set_params(max_iter=model.n_rounds, categorical_features=None)
    for name in ("n_classes_", "n_outputs_", "n_estimators_"):
        vars(made).pop(name, None)
    mapper = _BinMapper()
    mapper.is_categorical_ = np.zeros(made.n_features_in_, dtype=np.uint8)
    mapper.bin_thresholds_ = list(model.mapper.edges)
    made._bin_mapper, made.bin_thresholds_ = mapper, mapper.bin_thresholds_
    made._preprocessor = made.is_categorical_ = made._is_categorical_remapped = None
    made._n_features = made.n_features_in_
    made._baseline_prediction = model.baseline[None].copy()
    made._predictors = [list(map(tree_predictor, trees)) for trees in _rounds(model)]
    return made
