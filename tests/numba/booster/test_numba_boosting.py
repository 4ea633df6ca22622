"""Boosting rounds in Numba: packed gradients, interaction groups, levels, monotonic trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuboost.backends.numba.backend import NumbaBackend
from gpuboost.backends.numba.common.packed_words import choose_gradient_packing
from gpuboost.data.binning import bin_columns
from gpuboost.engine import criteria
from gpuboost.engine.growth.tree import levels
from gpuboost.engine.targets import GradientTarget, TreeRows
from gpuboost.engine.task import GrowTask, Regularisation, TreeOptions
from tests.binning import fit_bin_mapper
from tests.numba.numba_cases import assert_same_trees, make_task, synth


@given(st.integers(0, 2**31 - 1), st.integers(1, 2**31 - 1), st.booleans())
def test_a_block_of_the_largest_gradients_fits(gradient: int, weight: int, counted: bool) -> None:
    packing = choose_gradient_packing(gradient, weight, counted)
    shift = packing.gradient_shift
    assert 1 <= packing.block <= packing.max_rows
    assert packing.block * weight <= packing.hessian_mask
    assert packing.hessian_mask == (1 << (shift - packing.count_bits)) - 1
    rows = packing.max_rows
    assert not counted or rows <= packing.count_mask
    for sign in (1, -1):
        word = (sign * rows * gradient << shift) + (packing.hessian_mask << packing.count_bits)
        word += rows if counted else 0
        assert -(2**63) <= word < 2**63
        assert word >> shift == sign * rows * gradient
        assert (word >> packing.count_bits) & packing.hessian_mask == packing.hessian_mask


def test_gradients_beyond_what_a_word_holds_are_refused() -> None:
    with pytest.raises(ValueError, match=r"do not fit a word of 63 bits"):
        choose_gradient_packing(2**40, 2**30, False)


def boosting_task(n: int, n_outputs: int, gradient_bits: int, **options: Any) -> GrowTask:
    """A round with signed gradients of ``gradient_bits`` bits and hessians of 16 bits."""
    X, z = synth(n, 5)
    X[:, 4] = np.floor(np.clip(X[:, 4] * 2, 0, 6))
    X[::7, 1] = np.nan
    rng = np.random.default_rng(n)
    noise = rng.standard_normal((n, n_outputs)) + z[:, None]
    gradient = np.rint(noise / np.abs(noise).max() * 2.0**gradient_bits).astype(np.int32)
    weight = rng.integers(1, 2**16, n).astype(np.int32)
    wide = np.concatenate([gradient, weight[:, None]], axis=1).astype(np.int64)
    rows = TreeRows(weight, None, draws=False, wide=wide, gradient=gradient)
    matrix = bin_columns(X, fit_bin_mapper(X, np.arange(5) == 4))
    limits = TreeOptions(**{"criterion": criteria.NEWTON, **options})
    return GrowTask(matrix, GradientTarget(n_outputs), limits, lambda tree: rows, [0, 1], 7)


@pytest.mark.parametrize("criterion", [criteria.VARIANCE, criteria.NEWTON])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("random_thresholds", [False, True])
@pytest.mark.parametrize("min_samples_leaf", [1, 4])
def test_gradients_beyond_one_word(
    criterion: int, n_outputs: int, random_thresholds: bool, min_samples_leaf: int
) -> None:
    """Large nodes sum fields separately, small ones packed words; with 30 bits, none is small."""
    limits = {"random_thresholds": random_thresholds, "min_samples_leaf": min_samples_leaf}
    assert_same_trees(
        boosting_task(6000, n_outputs, 24, criterion=criterion, max_depth=6, **limits)
    )
    assert_same_trees(boosting_task(500, n_outputs, 30, criterion=criterion, **limits))


@pytest.mark.parametrize("n_groups", [1, 63, 64, 65, 200])
def test_any_number_of_groups(n_groups: int) -> None:
    rng = np.random.default_rng(n_groups)
    groups = tuple(tuple(map(int, rng.integers(0, 5, 2))) for _ in range(n_groups))
    assert_same_trees(boosting_task(2000, 1, 20, interactions=(*groups[:-1], (4,))))


def test_each_of_many_levels_draws_its_own_features() -> None:
    """Without gains, each split separates one row, so there are as many levels as rows."""
    n = 150
    X = np.repeat(np.arange(n, dtype=np.float32)[:, None], 4, axis=1)
    gradient, ones = np.zeros((n, 1), np.int32), np.ones(n, np.int32)
    wide = np.ones((n, 2), np.int64)
    rows = TreeRows(ones, None, draws=False, wide=wide, gradient=gradient)
    matrix = bin_columns(X, fit_bin_mapper(X, np.zeros(4, dtype=bool)))
    limits = TreeOptions(criterion=criteria.NEWTON, level_features=1)
    target = GradientTarget(1)
    task = GrowTask(matrix, target, limits, lambda tree: rows, [0, 1, 2], 7)
    assert_same_trees(task)
    _, grown = next(iter(NumbaBackend().grow(task)))
    assert len(levels(grown.left)) == n
    assert len(np.unique(grown.feature)) == 5


def test_monotonic_trees_of_values_and_of_classes() -> None:
    """NEWTON without regularisation grows the tree of the targets, also with constraints."""
    X, z = synth(3000, 5)
    regular = Regularisation(monotonic=(1, -1, 0, 1, -1))
    for y, n_classes in ((z, 0), ((z > 0).astype(np.int32), 2)):
        task = make_task(X, y, n_classes, criterion=criteria.NEWTON, regularisation=regular)
        assert_same_trees(task)


def test_newton_of_many_classes() -> None:
    X, z = synth(2000, 4)
    y = np.clip(np.round(z + 2), 0, 6).astype(np.int32)
    assert_same_trees(make_task(X, y, 7, criterion=criteria.NEWTON))
