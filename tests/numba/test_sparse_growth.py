"""Trees that Numba grows on sparse codes equal those that NumPy grows on dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import gpuboost as g
from gpuboost.backends.numba.depth_first import tree_grower
from gpuboost.engine.bins import SparseCodes

N, F = 250, 50
KINDS = ("text", "one-hot", "missing", "frequent")


def table(kind: str) -> tuple[scipy.sparse.csr_array, np.ndarray]:
    """A sparse matrix of few entries, and a number for each row that depends on them."""
    rng = np.random.default_rng(KINDS.index(kind))
    values = np.where(rng.random((N, F)) < 0.04, rng.normal(size=(N, F)), 0.0)
    if kind == "one-hot":
        values = (rng.integers(0, F, N)[:, None] == np.arange(F)).astype(float)
    elif kind == "missing":
        values[(values != 0.0) & (rng.random((N, F)) < 0.3)] = np.nan
    elif kind == "frequent":  # columns of many entries, which small nodes search
        values[:, :4] = rng.integers(-2, 3, (N, 4))
        values[:, 4:] = np.where(rng.random((N, F - 4)) < 0.02, 1.5, 0.0)
    y = np.nan_to_num(values) @ rng.normal(size=F) + 0.3 * rng.normal(size=N)
    return scipy.sparse.csr_array(values), y


def classes(y: np.ndarray, n: int) -> np.ndarray:
    """Classes of about equally many rows, by the order of ``y``."""
    return np.argsort(np.argsort(y)) * n // len(y)


MODELS: dict[str, tuple[Any, int]] = {  # an estimator, and its number of classes (0: regression)
    "forest": (g.RandomForestClassifier(4), 2),
    "forest of 3 classes": (g.RandomForestClassifier(4, min_samples_leaf=3), 3),
    "forest of 12 classes": (g.RandomForestClassifier(4), 12),
    "forest, entropy": (g.RandomForestClassifier(4, criterion="entropy", max_depth=6), 2),
    "forest, best first": (g.RandomForestClassifier(4, max_leaf_nodes=15), 2),
    "forest, all features": (g.RandomForestClassifier(4, max_features=None), 2),
    "forest of values": (g.RandomForestRegressor(8, max_features=0.3), 0),
    "forest of medians": (g.RandomForestRegressor(3, criterion="absolute_error"), 0),
    "extra-trees": (g.ExtraTreesClassifier(3), 2),
    "extra-trees of values": (g.ExtraTreesRegressor(2, max_features=0.4), 0),
    "bagging": (g.BaggingRegressor(n_estimators=3, max_features=0.5), 0),
    "tree": (g.DecisionTreeClassifier(max_depth=8), 4),
    "AdaBoost": (g.AdaBoostClassifier(n_estimators=10), 3),
    "boosting": (g.GradientBoostingRegressor(n_estimators=8, max_depth=5), 0),
    "boosting, 2 classes": (g.GradientBoostingClassifier(n_estimators=8, subsample=0.7), 2),
    "boosting, 4 classes": (g.GradientBoostingClassifier(n_estimators=4), 4),
    "boosting, best first": (g.GradientBoostingRegressor(n_estimators=5, max_leaf_nodes=9), 0),
    "boosting, some features": (g.GradientBoostingRegressor(n_estimators=5, max_features=0.4), 0),
    "boosting, quantile": (g.GradientBoostingRegressor(n_estimators=4, loss="quantile"), 0),
    "boosting, large leaves": (
        g.GradientBoostingRegressor(n_estimators=6, min_samples_leaf=9, l1_regularization=0.1),
        0,
    ),
    "boosting, monotonic": (
        g.GradientBoostingRegressor(n_estimators=6, monotonic_cst={0: 1, 3: -1, 9: 1}),
        0,
    ),
    "boosting, groups": (
        g.GradientBoostingRegressor(n_estimators=5, interaction_cst=[range(30), range(20, 50)]),
        0,
    ),
}


SEARCHES = (  # models that find the best split in different ways
    "forest",
    "forest of 12 classes",
    "forest of values",
    "extra-trees",
    "extra-trees of values",
    "boosting",
    "boosting, 2 classes",
    "boosting, monotonic",
)

CASES = [
    *((name, "text", False) for name in MODELS),
    *((name, "missing", True) for name in MODELS),
    *((name, "text", True) for name in SEARCHES),
    *((name, kind, False) for name in SEARCHES for kind in ("one-hot", "frequent")),
]


@pytest.mark.parametrize(("name", "kind", "weighted"), CASES)
def test_the_model_is_that_of_numpy_and_dense_codes(
    name: str, kind: str, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (model, n_classes), (X, values) = MODELS[name], table(kind)
    y = classes(values, n_classes) if n_classes else values
    weights = None
    if weighted:
        weights = np.random.default_rng(1).integers(0, 3, N) * 0.7
    if name != "forest of medians":  # these sort the rows of dense codes
        monkeypatch.setattr(SparseCodes, "dense", refuse)
    own = with_device(model, "numba").fit(X, y, weights)
    expected = with_device(model, "numpy").fit(X.toarray(), y, weights)
    assert own.fingerprint() == expected.fingerprint()
    np.testing.assert_array_equal(own.predict(X), expected.predict(X.toarray()))


def refuse(codes: SparseCodes) -> None:
    """Takes the place of `SparseCodes.dense`, which no fit on sparse codes may call."""
    raise AssertionError("the codes became dense")


def with_device(model: Any, device: str) -> Any:
    """A model with the parameters of another, on a device."""
    given = {**model.get_params(deep=False), "device": device, "random_state": 3}
    return type(model)(**given)


@pytest.mark.parametrize("limit", [1, 200])
def test_nodes_of_many_entries_read_the_columns(limit: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(tree_grower, "MAX_ENTRIES", limit)
    test_the_model_is_that_of_numpy_and_dense_codes("boosting", "missing", True, monkeypatch)


def test_evaluation_rows_and_out_of_bag_rows() -> None:
    X, y = table("text")
    parts = X[:180], y[:180], X[180:], y[180:]
    for make in (lambda values: values, lambda values: values.toarray()):
        train, watched = make(parts[0]), make(parts[2])
        boosted = g.GradientBoostingRegressor(n_estimators=6, device="numba", random_state=0)
        boosted.fit(train, parts[1], eval_set=[(watched, parts[3])])
        forest = g.RandomForestRegressor(40, oob_score=True, device="numba", random_state=0)
        forest.fit(train, parts[1])
        found = boosted.evals_result_, boosted.fingerprint(), forest.oob_score_
        if train is parts[0]:
            expected = found
    assert found == expected


def test_a_warm_start_and_a_dataset_keep_the_bins() -> None:
    X, y = table("frequent")
    found = []
    for data in (X, X.toarray(), g.Dataset(X), g.Dataset(X.toarray())):
        model = g.RandomForestRegressor(4, warm_start=True, device="numba", random_state=0)
        model.fit(data, y)
        found.append(model.set_params(n_estimators=7).fit(data, y).fingerprint())
    assert len(set(found)) == 1
