"""Trees of many classes: nodes searched by moments, and sparse sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuboost import AdaBoostClassifier, DecisionTreeClassifier, RandomForestClassifier
from gpuboost.backends.numba.backend import NumbaBackend
from gpuboost.backends.numba.splits.channels import MOMENTS_UP_TO
from gpuboost.engine.criteria import CRITERIA
from gpuboost.engine.sparse_rows import DenseRows, SparseRows, dense
from gpuboost.engine.targets import ClassTarget, TreeRows
from tests.engine.exact import assert_equal_models, assert_same, assert_same_fields
from tests.numba.numba_cases import assert_same_trees, make_task

N_CLASSES = 90
CLASSIFIERS = [row.number for row in CRITERIA.values() if row.class_names]


def many_classes(n: int, missing: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Columns that are related to classes, some values missing, and the classes."""
    rng = np.random.default_rng(n)
    y = rng.integers(0, N_CLASSES, n).astype(np.int32)
    X = rng.standard_normal((n, 4)).astype(np.float32) + 0.05 * y[:, None]
    X[:, 1] = np.round(X[:, 1])
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", ["no", "integer", "real"])
@pytest.mark.parametrize(
    "options",
    [{}, {"min_samples_leaf": 4}, {"max_features": 2}, {"max_leaf_nodes": 20}, {"max_depth": 3}],
)
def test_trees_equal_those_of_numpy(missing: float, weighted: str, options: Any) -> None:
    X, y = many_classes(700, missing)
    rng, weights = np.random.default_rng(1), None
    if weighted == "integer":
        weights = rng.integers(0, 4, len(y)).astype(np.float64)
    elif weighted == "real":
        weights = rng.random(len(y))
    assert_same_trees(make_task(X, y, N_CLASSES, weights, **options))


def test_sums_are_sparse_if_most_are_0() -> None:
    X, y = many_classes(700)
    deep, shallow = (
        next(NumbaBackend().grow(make_task(X, y, N_CLASSES, max_depth=depth)))[1].sums
        for depth in (1000, 1)
    )
    assert isinstance(deep, SparseRows) and isinstance(shallow, np.ndarray)


@pytest.mark.parametrize("n", [MOMENTS_UP_TO, MOMENTS_UP_TO + 1])
def test_the_largest_terms_are_exact(n: int) -> None:
    """One feature separates two classes of nearly equal size; a third has one row."""
    rng = np.random.default_rng(0)
    y = (np.arange(n) >= n // 2).astype(np.int32)
    y[0] = 2
    X = rng.standard_normal((n, 3)).astype(np.float32)
    X[:, 1] += 10.0 * (y == 1)
    assert_same_trees(make_task(X, y, 12, method="all", n_trees=1, max_depth=3))


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(6, class_weight="balanced", random_state=0),
        RandomForestClassifier(6, ccp_alpha=1e-3, criterion="entropy", random_state=0),
        DecisionTreeClassifier(criterion="misclassification", random_state=0),
        AdaBoostClassifier(DecisionTreeClassifier(), n_estimators=3, random_state=0),
    ],
    ids=["balanced", "pruned", "tree", "adaboost"],
)
def test_models_equal_those_of_numpy(model: Any) -> None:
    X, y = many_classes(600, 0.1)
    params = {**model.get_params(deep=False)}
    fitted = [type(model)(**{**params, "device": d}).fit(X, y) for d in ("numba", "numpy")]
    assert_equal_models(*fitted)


def test_a_warm_start_joins_sparse_and_dense_values() -> None:
    X, y = many_classes(600)
    whole = RandomForestClassifier(6, device="numba", random_state=0).fit(X, y)
    model = RandomForestClassifier(4, device="numba", random_state=0, warm_start=True).fit(X, y)
    assert_equal_models(model.set_params(n_estimators=6).fit(X, y), whole)


# ---- sparse rows -------------------------------------------------------------------------------


def sparse_sums(n_planes: int = 1) -> SparseRows:
    """Random sums of 40 nodes and 50 classes; a node has between 1 and 50 of the classes."""
    rng = np.random.default_rng(n_planes)
    columns = [np.sort(rng.permutation(50)[: rng.integers(1, 51)]) for _ in range(40)]
    start = np.concatenate([[0], np.cumsum([len(own) for own in columns])])
    entry = rng.integers(1, 2**20, (start[-1], n_planes))
    return SparseRows(start, np.concatenate(columns).astype(np.int32), entry, 50)


@pytest.mark.parametrize("n_planes", [1, 2])
@pytest.mark.parametrize("criterion", CLASSIFIERS)
def test_node_values_are_those_of_the_dense_sums(criterion: int, n_planes: int) -> None:
    sums = sparse_sums(n_planes)
    wide = None if n_planes == 1 else np.zeros((1, 2), np.int64)
    target = ClassTarget(np.zeros(1, np.int32), 50, wide, np.array([30, 50])[: 2 * n_planes - 2])
    rows = TreeRows(np.ones(1, np.int32), None, False)
    found, expected = (
        target.node_values(each, np.ones(40), rows, criterion) for each in (sums, dense(sums))
    )
    assert isinstance(found.value, SparseRows)
    assert_same_fields(found, expected, "values")


def test_functions_of_rows() -> None:
    sums, nodes = sparse_sums(), np.array([7, 0, 39, 7])
    sparse = sums.with_entries(sums.entry[:, 0] / 3.0)
    whole = DenseRows(dense(sparse))
    assert sparse.shape == whole.entry.shape == (40, 50)
    assert_same(sparse.row_sums(sparse.entry), whole.row_sums(whole.entry), "sums")
    assert_same(sparse.row_max(sparse.entry), whole.row_max(whole.entry), "largest")
    assert_same(dense(sparse[nodes]), whole.entry[nodes], "some rows")
