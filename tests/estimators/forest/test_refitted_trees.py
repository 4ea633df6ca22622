"""The trees of a forest can be fitted again, alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import gpuboost


@pytest.mark.parametrize("bootstrap", [True, False])
@pytest.mark.parametrize(
    "name",
    [
        "RandomForestClassifier",
        "ExtraTreesClassifier",
        "RandomForestRegressor",
        "ExtraTreesRegressor",
    ],
)
def test_a_tree_is_refitted_from_its_seed_and_rows(name: str, bootstrap: bool) -> None:
    """The values of y are integers, so gains do not depend on the other rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    words: dict[str, Any] = {"max_samples": 0.6} if bootstrap else {}
    words |= {"n_estimators": 3, "max_features": 0.5, "random_state": 7}
    model = getattr(gpuboost, name)(bootstrap=bootstrap, **words).fit(X, y)
    for tree, rows in zip(model.estimators_, model.estimators_samples_, strict=True):
        again = clone(tree).fit(X[rows], y[rows])
        assert np.array_equal(again.tree_.threshold, tree.tree_.threshold)
        assert np.array_equal(again.tree_.value, tree.tree_.value)


def test_the_trees_keep_the_parameters_that_they_were_grown_with() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    model = gpuboost.RandomForestRegressor(2, max_depth=1, warm_start=True).fit(X, X[:, 0])
    model.set_params(n_estimators=3, max_depth=2).fit(X, X[:, 0])
    assert [tree.max_depth for tree in model.estimators_] == [1, 1, 2]
