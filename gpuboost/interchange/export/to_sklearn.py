"""gpuboost's models as those of scikit-learn."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from gpuboost.engine.growth.tree import Tree
from gpuboost.estimators.boosting.model import BoostedRounds
from gpuboost.estimators.forest.bagging import Bagging
from gpuboost.estimators.trees.many_trees import ManyTrees
from gpuboost.interchange.export.contents import own_estimator, split_categories
from gpuboost.interchange.export.sklearn_boosting import sklearn_boosting
from gpuboost.interchange.export.sklearn_parameters import (
    copy_attributes,
    sklearn_class_of,
    with_parameters_of,
)
from gpuboost.interchange.export.sklearn_trees import sklearn_tree


def to_sklearn(estimator: Any) -> Any:
    """Convert a fitted estimator to one of scikit-learn; see the method of estimators."""
    if getattr(estimator, "_sklearn_model", None) is not None:
        return deepcopy(estimator._sklearn_model)
    own = own_estimator(estimator, "scikit-learn")
    name, model = type(estimator).__name__, own._model
    found = split_categories(model.ensemble, model.schema)
    if found:
        raise ValueError(
            f"this {name} splits on the categories of {', '.join(found)}, and scikit-learn's trees "
            "have no such splits; use to_treelite or to_onnx, or fit on encoded categories"
        )
    if isinstance(model, BoostedRounds):
        return sklearn_boosting(estimator, own)
    if isinstance(own, ManyTrees):
        return _many_trees(own)
    return _fitted_tree(own, model.ensemble.trees[0], own)


def _fitted_tree(own: Any, tree: Tree, view: Any) -> Any:
    """A fitted tree of scikit-learn.

    Parameters
    ----------
    own : estimator
        Has the classes that the tree predicts.
    tree : Tree
    view : SingleTree
        Has the parameters of the tree and its number of features.
    """
    made = with_parameters_of(sklearn_class_of(view), view)
    copy_attributes(made, view)
    n_classes = np.ones(view.n_outputs_, dtype=np.intp)
    if hasattr(own, "classes_"):
        made.classes_ = own.classes_
        n_classes[:] = made.n_classes_
    made.tree_ = sklearn_tree(tree, view.n_features_in_, n_classes)
    return made


def _many_trees(own: Any) -> Any:
    """A fitted forest, bagging or AdaBoost of scikit-learn."""
    made = with_parameters_of(sklearn_class_of(own), own)
    template = own._empty_tree()
    made.estimator_ = with_parameters_of(sklearn_class_of(template), template)
    copy_attributes(made, own)
    views, is_adaboost = own.estimators_, hasattr(own, "estimator_weights_")
    made.n_estimators = len(views)
    votes = hasattr(own, "classes_") and not is_adaboost and own._voting_rule() == "hard"
    ensemble = own._model.votes if votes else own._model.ensemble
    made.estimators_ = []
    for view, tree in zip(views, ensemble.trees, strict=True):
        # AdaBoost's trees have class labels; the others have their numbers.
        labelled = own if is_adaboost else view
        tree_of_view = replace(view._ensemble.trees[0], value=tree.value)
        made.estimators_.append(_fitted_tree(labelled, tree_of_view, view))
    if is_adaboost:
        made.estimator_weights_ = own.estimator_weights_.copy()
        made.estimator_errors_ = own.estimator_errors_.copy()
    if is_adaboost or isinstance(own, Bagging):
        made.estimator = made.estimator_
    if isinstance(own, Bagging):
        _set_features_of_bagging(made, own)
    return made


def _set_features_of_bagging(made: Any, own: Any) -> None:
    if hasattr(own, "classes_") and own.n_outputs_ > 1:
        raise ValueError(
            f"this {type(own).__name__} has {own.n_outputs_} outputs, but scikit-learn's bagging "
            "classifies one; use to_treelite or to_onnx, or a random forest"
        )
    made.estimators_features_ = own.estimators_features_
    made._max_features = len(made.estimators_features_[0])
