"""The Numba backend: packed words, wide nodes, binning, prediction, compilation."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuboost.backends.numba.backend import NumbaBackend
from gpuboost.backends.numba.common.packed_words import MAX_PACKED_ROWS, Packing, choose_packing
from gpuboost.backends.numba.common.records import Problem
from gpuboost.backends.numba.depth_first import grow as growing
from gpuboost.backends.numba.depth_first import tree_grower
from gpuboost.backends.numba.predict import traversal
from gpuboost.backends.numba.splits.plugins import NO_PLUGINS
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.data.binning import bin_columns
from gpuboost.engine import criteria
from tests.binning import fit_bin_mapper
from tests.numba.numba_cases import assert_same_trees, ensemble_of, make_task, synth

PROPERTY = settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)


# ---- packed words ------------------------------------------------------------------------------


@given(
    st.integers(1, 2**28),
    st.integers(1, 2**16),
    st.booleans(),
)
def test_a_block_of_the_largest_rows_fits(value: int, weight: int, counted: bool) -> None:
    packing = choose_packing(value, weight, counted)
    assert packing.block >= 1
    rows = packing.block
    if packing.hessian_mask:
        rows = min(rows, packing.hessian_mask // weight)
    assert rows * weight <= packing.hessian_mask
    if counted:
        assert 1 <= rows <= packing.count_mask
    for sign in (1, -1):
        word = (sign * rows * weight * value << packing.gradient_shift) + (
            rows * weight << packing.count_bits
        )
        word += rows if counted else 0
        assert -(2**63) <= word < 2**63
        assert word >> packing.gradient_shift == sign * rows * weight * value
        assert (word >> packing.count_bits) & packing.hessian_mask == rows * weight


def test_weights_beyond_what_a_word_holds_are_refused() -> None:
    with pytest.raises(ValueError, match=r"do not fit a word of 63 bits"):
        choose_packing(2**28, 2**20, False)


def narrow_packing(hessian_bits: int, weight: int, with_counts: bool) -> Packing:
    """Make the fields of packed words so narrow that nodes of few rows are wide."""
    count_bits = hessian_bits if with_counts else 0
    mask = (1 << hessian_bits) - 1
    block = max(1, mask // weight)
    max_rows = mask if with_counts else MAX_PACKED_ROWS
    count_mask = mask if with_counts else 0
    return Packing(hessian_bits + count_bits, count_bits, mask, count_mask, block, max_rows)


# Blocks of few rows are summed row by row, blocks of 1023 rows as packed words.
@pytest.mark.parametrize(("hessian_bits", "method"), [(5, "bootstrap"), (10, "all")])
@pytest.mark.parametrize("n_classes", [0, 2, 4])
@pytest.mark.parametrize("random_thresholds", [False, True])
@pytest.mark.parametrize("min_samples_leaf", [1, 4])
def test_wide_nodes(
    monkeypatch: pytest.MonkeyPatch,
    hessian_bits: int,
    method: str,
    n_classes: int,
    random_thresholds: bool,
    min_samples_leaf: int,
) -> None:
    monkeypatch.setattr(
        tree_grower,
        "choose_packing",
        lambda value, weight, counted: narrow_packing(hessian_bits, weight, counted),
    )
    X, z = synth(12_000 if method == "all" else 1500, 5)
    X[:, 4] = np.floor(np.clip(X[:, 4] * 2, 0, 6))
    X[::7, 1] = np.nan
    y = z if n_classes == 0 else np.clip((z * 0.7 + 1).astype(np.int32), 0, n_classes - 1)
    task = make_task(
        X,
        y,
        n_classes,
        method=method,
        n_trees=1,
        categorical=(4,),
        random_thresholds=random_thresholds,
        min_samples_leaf=min_samples_leaf,
        max_depth=7,
    )
    assert_same_trees(task)


def test_sums_beyond_one_word() -> None:
    """With weights of 16 bits and values of 28, no node of two rows fits in a word."""
    X, z = synth(3000, 5)
    rng = np.random.default_rng(4)
    weights = 10.0 ** rng.uniform(-9, 0, len(X))
    for min_samples_leaf in (1, 3):
        task = make_task(X, z, weights=weights, method="all", min_samples_leaf=min_samples_leaf)
        assert_same_trees(task)


# ---- several channels --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "criterion",
    [criteria.VARIANCE, criteria.ENTROPY, criteria.MISCLASSIFICATION, criteria.TWOING],
)
@pytest.mark.parametrize("n_classes", [3, 9, 300])
def test_many_classes(criterion: int, n_classes: int) -> None:
    """One tree uses pairs, fields of one word and histograms per class."""
    X, z = synth(1500, 4)
    order = np.argsort(np.argsort(z))
    y = (order * n_classes // len(z)).astype(np.int32)
    X[::5, 0] = np.nan
    X[:, 3] = np.floor(np.abs(X[:, 3]) * 6)
    assert_same_trees(
        make_task(X, y, n_classes, criterion=criterion, categorical=(3,), max_features=2)
    )


def test_thousands_of_classes() -> None:
    X, _ = synth(6000, 3)
    y = (np.arange(6000) % 3000).astype(np.int32)
    assert_same_trees(make_task(X, y, 3000, n_trees=1, max_depth=4))


# ---- limits of shortcuts -----------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [0, 2, 3])
@pytest.mark.parametrize("max_features", [1, 3, 2**31 - 1])
def test_small_nodes_with_many_ties(n_classes: int, max_features: int) -> None:
    """Columns of few values, so that most nodes end in ties of pairs and pure splits."""
    X, z = synth(800, 8)
    X = np.round(X)
    X[:, 7] = X[:, 6]
    y = np.round(z) if n_classes == 0 else np.clip(np.round(z + 1), 0, n_classes - 1)
    task = make_task(X, y.astype(np.int32), n_classes, max_features=max_features, n_trees=4)
    assert_same_trees(task)


def test_best_first_grows_no_unused_nodes() -> None:
    X, z = synth(4000, 5)
    for max_leaf_nodes in (2, 3, 17, 500):
        task = make_task(X, z, max_leaf_nodes=max_leaf_nodes, n_trees=1)
        assert_same_trees(task)
        _, grown = next(iter(NumbaBackend().grow(task)))
        assert np.count_nonzero(grown.left == 0) == max_leaf_nodes


# ---- binning and prediction --------------------------------------------------------------------


@PROPERTY
@given(st.integers(0, 2**32 - 1), st.sampled_from((np.float32, np.float64)), st.integers(2, 255))
def test_codes_equal_numpy_s(seed: int, dtype: Any, max_bins: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 3000))
    X = rng.standard_normal((n, 6)).astype(dtype)
    X[:, 1] = np.round(X[:, 1])
    X[:, 2] = np.finfo(dtype).smallest_subnormal * rng.integers(0, 9, n)
    X[:, 3] = rng.choice([-0.0, 0.0, np.finfo(dtype).max], n)
    X[:, 4] = rng.integers(0, 20, n)
    X[rng.random(X.shape) < 0.05] = np.nan
    mapper = fit_bin_mapper(X, np.arange(6) == 4, max_bins)
    X[:, 4] = rng.integers(0, 30, n)  # some codes are unknown
    X.flags.writeable = False
    for view in (X, np.asfortranarray(X), X[::-2], np.repeat(X, 2, axis=1)[:, ::2]):
        found = NumbaBackend().bin(view, mapper, 2)
        expected = bin_columns(view, mapper, 1)
        assert np.array_equal(found.codes, expected.codes)
        assert np.array_equal(found.n_missing, expected.n_missing)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("categorical", [(), (3,)])
def test_prediction_equals_numpy_s(dtype: Any, categorical: tuple[int, ...]) -> None:
    X, z = synth(3000, 5)
    rng = np.random.default_rng(5)
    X = X.astype(dtype)
    X[:, 3] = rng.integers(0, 12, len(X))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.clip(z + 1, 0, 2).astype(np.int32)
    ensemble = ensemble_of(make_task(X, y, 3, categorical=categorical, n_trees=5))
    # Values that equal thresholds, where float32 and float64 comparisons could differ.
    inner = (ensemble.feature >= 0) & (ensemble.category < 0)
    asked = np.repeat(X, 2, axis=0)
    for row, node in enumerate(np.flatnonzero(inner)[: len(asked)]):
        if ensemble.feature[node] not in categorical:
            asked[row, ensemble.feature[node]] = ensemble.threshold[node]
    for view in (asked, np.asfortranarray(asked), asked[:1], asked[:0], asked[::-3]):
        numba, numpy = NumbaBackend(), NumpyBackend()
        assert np.array_equal(numba.apply(ensemble, view, 2), numpy.apply(ensemble, view, 1))
        assert np.array_equal(numba.predict(ensemble, view, 2), numpy.predict(ensemble, view, 1))


def test_a_tree_of_one_leaf_predicts() -> None:
    X, _ = synth(50, 2)
    ensemble = ensemble_of(make_task(X, np.zeros(50), max_depth=0))
    assert np.array_equal(NumbaBackend().apply(ensemble, X, 1), np.zeros((50, 2)))


# ---- compilation -------------------------------------------------------------------------------


def test_every_entry_is_compiled_once() -> None:
    """Memory order, dtype and flags of arguments do not cause another compilation."""
    X, z = synth(300, 3)
    frozen = X.copy(order="F")
    frozen.flags.writeable = False
    for data in (X, frozen, X.astype(np.float64)):
        task = make_task(data, (z > 0).astype(np.int32), 2)
        task.matrix.codes.flags.writeable = False
        ensemble = ensemble_of(task)
        NumbaBackend().predict(ensemble, data, 1)
    task = make_task(X, np.column_stack([z, z]))
    NumbaBackend().predict(ensemble_of(task), X, 1)
    ensemble_of(make_task(X, np.digitize(z, [-1, 1]).astype(np.int32), 3))
    assert len(growing.grow.signatures) <= 2  # one channel, several channels
    kinds = [signature[1].dtype for signature in traversal.predict_rows.signatures]
    assert len(kinds) == len(set(kinds)) <= 3, kinds  # float32, float64, and codes (`deep_trees`)


def test_nothing_is_compiled_at_import() -> None:
    code = (
        "import gpuboost.backends.numba.backend, gpuboost.backends.numba.depth_first.grow as g;"
        "import gpuboost.backends.numba.predict.traversal as p;"
        "import gpuboost.backends.numba.binning as b;"
        "assert not any(f.signatures for f in (g.grow, p.predict_rows, b.code_rows))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_only_a_few_trees_wait_for_the_consumer() -> None:
    """Trees are not grown far ahead of the consumer, so memory is bounded."""
    X, z = synth(200, 3)
    task = make_task(X, z, n_trees=60, n_threads=2)
    begun: list[int] = []

    def rows_of(tree: int) -> Any:
        begun.append(tree)
        return task.rows_of(tree)

    growing_trees = NumbaBackend().grow(dataclasses.replace(task, rows_of=rows_of))
    assert next(growing_trees)[0] == 0
    growing_trees.close()
    assert len(begun) <= 6


def test_an_error_in_a_worker_reaches_the_caller() -> None:
    X, z = synth(100, 2)
    task = make_task(X, z, n_trees=8, n_threads=2)

    def rows_of(tree: int) -> Any:
        if tree == 5:
            raise MemoryError("no room for tree 5")
        return task.rows_of(tree)

    with pytest.raises(MemoryError, match="tree 5"):
        list(NumbaBackend().grow(dataclasses.replace(task, rows_of=rows_of)))


# ---- threads -----------------------------------------------------------------------------------


def test_a_tree_has_the_plugins_that_another_thread_sets_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Threads that begin their first trees together find no plugins, and each may set them."""
    task = make_task(*synth(100, 3))
    grower, other = (tree_grower.DepthFirstGrower(task) for _ in range(2))
    other.grow_tree(0)
    write, begin, begun = tree_grower.by_reference, tree_grower.grow, []

    def written(record: Any) -> Any:
        found = write(record)
        if isinstance(record, Problem):  # here the other thread gets its turn
            grower._plugins = other._plugins
        return found

    def grow(problem: Any, *others: Any) -> bool:
        begun.append(problem.kept[1][Problem._fields.index("plugins")])
        assert begun[-1] is not NO_PLUGINS  # the addresses of these are 0
        return begin(problem, *others)

    monkeypatch.setattr(tree_grower, "by_reference", written)
    monkeypatch.setattr(tree_grower, "grow", grow)
    grower.grow_tree(0)
    assert len(begun) == 1
