"""A user's script for ``mypy --strict``: public names, and the types that they give.

``test_types.py`` checks it. Lines that end with ``# wrong`` must be errors.
"""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np

import gpuboost
from gpuboost import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    Dataset,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    estimate_memory,
)

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]


def forests(X: Array, y: Array) -> float:
    forest = RandomForestClassifier(n_estimators=10, max_features="sqrt", n_jobs=2, random_state=0)
    assert_type(forest.fit(X, y), RandomForestClassifier)
    assert_type(forest.predict(X), Array)
    assert_type(forest.apply(X), Array)
    assert_type(forest.feature_importances_, Array)
    assert_type(forest.fingerprint(), str)
    assert_type(forest.device_, str)
    assert_type(forest.n_features_in_, int)
    assert_type(forest.get_params(), dict[str, Any])
    assert_type(forest.set_params(n_estimators=20), RandomForestClassifier)
    assert_type(forest.estimators_[0].tree_.node_count, int)
    ExtraTreesClassifier(100, bootstrap=True, oob_score=True).fit(X, y, sample_weight=y)
    values = RandomForestRegressor(criterion="squared_error", max_depth=8).fit(X, y)
    assert_type(ExtraTreesRegressor(5).fit(X, y).predict(X), Array)
    assert_type(values.oob_score_, float)
    RandomForestClassifier(n_estimators="10")  # wrong
    RandomForestClassifier(n_trees=10)  # wrong
    forest.predict()  # wrong
    print(forest.classes)  # wrong
    return values.score(X, y)


def bagging_and_trees(X: Array, y: Array) -> None:
    assert_type(BaggingClassifier(DecisionTreeClassifier(), 5).fit(X, y), BaggingClassifier)
    assert_type(BaggingRegressor(n_estimators=5).fit(X, y).predict(X), Array)
    tree = DecisionTreeRegressor(max_leaf_nodes=7, ccp_alpha=0.1).fit(X, y)
    assert_type(tree, DecisionTreeRegressor)
    assert_type(tree.get_depth(), int)
    assert_type(ExtraTreeClassifier().fit(X, y).get_n_leaves(), int)
    assert_type(ExtraTreeRegressor(splitter="best").fit(X, y).max_features_, int)


def boosting(X: Array, y: Array) -> None:
    model = GradientBoostingRegressor(
        n_estimators=50, learning_rate=0.1, loss="quantile", alpha=0.9, n_iter_no_change=5
    )
    assert_type(model.fit(X, y, eval_set=[(X, y)]), GradientBoostingRegressor)
    assert_type(model.predict(X, n_rounds=10), Array)
    assert_type(list(model.staged_predict(X)), list[Array])
    assert_type(model.n_estimators_, int)
    assert_type(model.evals_result_["eval_0"]["loss"], list[float])
    classes = GradientBoostingClassifier(subsample=0.5).fit(X, y)
    assert_type(classes.predict_proba(X), Array)
    assert_type(classes.decision_function(X), Array)
    GradientBoostingRegressor(n_estimators="50")  # wrong
    model.fit(X, y, evaluation_set=[(X, y)])  # wrong


def adaboost(X: Array, y: Array) -> None:
    model = AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=5).fit(X, y)
    assert_type(model.estimator_weights_, Array)
    assert_type(model.predict_proba(X), Array)
    assert_type(AdaBoostRegressor(loss="linear").fit(X, y).predict(X), Array)


def data_and_memory(X: Array, y: Array) -> int:
    train = Dataset(X, max_bins=63)
    assert_type(train.shape, tuple[int, int])
    assert_type(train[:10], Dataset)
    assert_type(gpuboost.__version__, str)
    RandomForestRegressor().fit(train, y)
    return estimate_memory(RandomForestRegressor(), 1000, 20)
