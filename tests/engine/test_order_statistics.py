"""Exact weighted quantiles of groups of rows, and the leaf values computed from them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn._loss.loss import HuberLoss

from gpuboost.backends.numba import references
from gpuboost.backends.numba.boosting import order_statistics as compiled
from gpuboost.backends.numba.boosting.order_statistics import CompiledOrder
from gpuboost.backends.numba.common import order_statistics as selection
from gpuboost.backends.numba.threads.pool import ThreadPool
from gpuboost.engine import order_statistics
from gpuboost.engine.losses import Predicted, make_loss
from gpuboost.engine.losses.regression import OrderStatisticLoss
from gpuboost.engine.order_statistics import (
    GroupedRows,
    Groups,
    all_rows,
    groups_of,
    integer_weights,
    mean_of_clipped,
    weighted_quantiles,
)

PROPERTY = settings(deadline=None, max_examples=60, print_blob=True)
LEVELS = (0.01, 0.25, 0.5, 0.9)


def quantiles(values: np.ndarray, weights: np.ndarray, groups: Groups, level: float) -> np.ndarray:
    return weighted_quantiles(values[groups.rows], weights, groups, level)


def naive_quantile(values: np.ndarray, weights: np.ndarray, level: float) -> float:
    """Midpoint of the values that minimise the pinball loss, by trying all, in exact fractions."""
    distinct = sorted({float(v) for v, w in zip(values, weights, strict=True) if w > 0})
    share = Fraction(level).limit_denominator(1000)

    def pinball(at: float) -> Fraction:
        total = Fraction(0)
        for v, w in zip(values, weights, strict=True):
            left = Fraction(float(v)) - Fraction(at)
            total += int(w) * (share * left if left > 0 else (share - 1) * left)
        return total

    losses = [pinball(v) for v in distinct]
    best = [v for v, loss in zip(distinct, losses, strict=True) if loss == min(losses)]
    assert len(best) <= 2
    return 0.5 * best[0] + 0.5 * best[-1] + 0.0


def sample(seed: int, n: int, n_groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values with ties, integer weights of which some are 0, and the group of each row or -1."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-6, 7, n) / 2.0
    values[rng.random(n) < 0.1] = -0.0
    weights = rng.integers(0, 5, n)
    group = np.append(np.arange(n_groups), rng.integers(-1, n_groups, n - n_groups))
    weights[:n_groups] += 1
    order = rng.permutation(n)
    return values[order], weights[order], group[order]


@PROPERTY
@given(st.integers(0, 2**31), st.integers(1, 6), st.sampled_from(LEVELS))
def test_quantiles_minimise_the_pinball_loss(seed: int, n_groups: int, level: float) -> None:
    values, weights, group = sample(seed, 40, n_groups)
    found = quantiles(values, weights, groups_of(group, n_groups), level)
    members = [group == k for k in range(n_groups)]
    expected = [naive_quantile(values[own], weights[own], level) for own in members]
    np.testing.assert_array_equal(found, expected)
    assert not np.signbit(found[found == 0.0]).any()


@PROPERTY
@given(st.integers(0, 2**31), st.integers(1, 6), st.sampled_from(LEVELS))
def test_order_of_rows_does_not_matter(seed: int, n_groups: int, level: float) -> None:
    values, weights, group = sample(seed, 60, n_groups)
    order = np.random.default_rng(seed).permutation(60)
    a, b = groups_of(group, n_groups), groups_of(group[order], n_groups)
    found = quantiles(values, weights, a, level)
    again = quantiles(values[order], weights[order], b, level)
    np.testing.assert_array_equal(found.view(np.int64), again.view(np.int64))
    rest = mean_of_clipped(values[a.rows], weights, a, found, 1.3)
    again = mean_of_clipped(values[order][b.rows], weights[order], b, found, 1.3)
    np.testing.assert_array_equal(rest.view(np.int64), again.view(np.int64))


def test_repeated_rows_equal_integer_weights() -> None:
    values, weights, group = sample(0, 200, 7)
    rows = np.repeat(np.arange(200), weights)
    for level in LEVELS:
        found = quantiles(values, weights, groups_of(group, 7), level)
        ones, repeated = integer_weights(None, len(rows)), groups_of(group[rows], 7)
        np.testing.assert_array_equal(found, quantiles(values[rows], ones, repeated, level))


def test_quantiles_of_equal_weights_are_those_of_numpy() -> None:
    values = np.random.default_rng(1).normal(size=1001)
    for n in (1, 2, 3, 10, 1000, 1001):
        ones, groups = integer_weights(None, n), groups_of(np.zeros(n, np.int32), 1)
        assert weighted_quantiles(values[:n], ones, groups, 0.5) == np.median(values[:n])
        for level in LEVELS:
            expected = np.quantile(values[:n], level, method="averaged_inverted_cdf")
            assert weighted_quantiles(values[:n], ones, groups, level) == expected


def test_groups_hold_every_row_once() -> None:
    group = np.array([2, -1, 0, 2, 1, 0, -1])
    groups = groups_of(group, 3)
    np.testing.assert_array_equal(groups.starts, [0, 2, 3, 5])
    np.testing.assert_array_equal(groups.rows, [2, 5, 4, 0, 3])
    np.testing.assert_array_equal(groups.spread(np.arange(3)), group[groups.rows])
    np.testing.assert_array_equal(groups.sum(np.ones(5, np.int64)), [2, 1, 2])


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (None, [1, 1, 1]),
        ([2.5, 2.5, 2.5], [1, 1, 1]),
        ([0.0, 7.0, 7.0], [0, 1, 1]),
        ([1.0, 2.0, 0.0], [2**42, 2**43, 0]),
        ([1e-300, 1.0, 0.0], [1, 2**43, 0]),
    ],
)
def test_integer_weights(weights: Any, expected: list[int]) -> None:
    found = integer_weights(None if weights is None else np.array(weights), 3)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, expected)


def test_integer_weights_are_invariant_to_powers_of_two() -> None:
    weights = np.random.default_rng(2).gamma(1.0, 1.0, 500)
    expected = integer_weights(weights, 500)
    for unit in (2.0**-900, 2.0**-3, 2.0**700):
        np.testing.assert_array_equal(integer_weights(weights * unit, 500), expected)
    assert expected.sum() < 2**46 + 500


# ---- compiled ----------------------------------------------------------------------------------


def assert_same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == expected.dtype == np.float64
    np.testing.assert_array_equal(found.view(np.int64), expected.view(np.int64))


@PROPERTY
@given(
    st.integers(0, 2**31),
    st.integers(1, 9),
    st.sampled_from(LEVELS),
    st.integers(1, 3),
    st.sampled_from([1, 30, 1 << 14]),
)
def test_numba_finds_the_same_bits(
    seed: int, n_groups: int, level: float, n_threads: int, table: int
) -> None:
    values, weights, group = sample(seed, 80, n_groups)
    order = CompiledOrder(ThreadPool(n_threads))
    rows = GroupedRows(group, n_groups, values, np.round(values[::-1]))
    with (
        mock.patch.object(compiled, "MIN_SHARED_ROWS", 16),  # so that several threads take part
        mock.patch.object(compiled, "TABLE_SIZE", table),
    ):
        for own in (weights, None):
            integers = integer_weights(None, 80) if own is None else own
            found = order.grouped_quantiles(rows, own, level)
            assert_same_bits(found, order_statistics.grouped_quantiles(rows, integers, level))
            for limit in (0.0, 0.7, 100.0):
                means = order.grouped_clipped_means(rows, own, found, limit)
                assert_same_bits(
                    means, order_statistics.grouped_clipped_means(rows, integers, found, limit)
                )


def assert_equal_quantile(
    order: CompiledOrder, values: np.ndarray, weights: Any, level: float
) -> None:
    rows = all_rows(values)
    integers = integer_weights(None, len(values)) if weights is None else weights
    expected = order_statistics.grouped_quantiles(rows, integers, level)
    assert_same_bits(order.grouped_quantiles(rows, weights, level), expected)


def test_a_quantile_can_be_far_from_the_next_larger_value() -> None:
    """Buckets between the two values have rows, all of weight 0."""
    order = CompiledOrder(ThreadPool(1))
    values, weights = np.arange(4096.0), np.zeros(4096, np.int64)
    order.grouped_quantiles(all_rows(np.full(4096, -9.0)), None, 0.5)  # fills the buffers
    weights[[0, -1]] = 1
    assert_equal_quantile(order, values, weights, 0.5)


@pytest.mark.parametrize("level", [0.25, 0.9])
def test_differences_from_the_range_can_overflow(level: float) -> None:
    """The sample holds one value, from which the others have an infinite distance."""
    values = np.where(np.arange(4096) % 32 <= 8, 1e308, -1e308)
    assert_equal_quantile(CompiledOrder(ThreadPool(1)), values, None, level)


@pytest.mark.parametrize("level", LEVELS)
def test_few_differences_are_copied(level: float, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []  # the arguments of the compiled pass

    def by_reference(record: Any) -> Any:
        seen.append(record)
        return references.by_reference(record)

    monkeypatch.setattr(compiled, "by_reference", by_reference)
    rng, n = np.random.default_rng(8), 20_000
    group = rng.integers(0, 4, n).astype(np.int32)
    rows = GroupedRows(group, 4, rng.normal(size=n) * (1 + group), np.zeros(n))
    CompiledOrder(ThreadPool(1)).grouped_quantiles(rows, None, level)
    assert 4 <= seen[-1].groups[-1]["start"] < n / 20


@pytest.mark.parametrize("shape", ["random", "sorted", "reversed", "organ pipe", "equal", "zeros"])
def test_numba_selects_from_any_order(shape: str) -> None:
    n, rng = 5001, np.random.default_rng(4)
    values = {
        "random": rng.normal(size=n) * 10.0 ** rng.uniform(-200, 200, n),
        "sorted": np.arange(n) * 1.5,
        "reversed": -np.arange(n) * 1.5,
        "organ pipe": np.abs(np.arange(n) - n / 2),
        "equal": np.full(n, 3.25),
        "zeros": rng.choice([0.0, -0.0], n),
    }[shape]
    order, rows = CompiledOrder(ThreadPool(2)), all_rows(values)
    for weights in (None, rng.gamma(1.0, 1.0, n), 10.0 ** rng.uniform(-30, 0, n)):
        integers = order.integer_weights(weights, n)
        expected_weights = integer_weights(weights, n)
        np.testing.assert_array_equal(1 if integers is None else integers, expected_weights)
        for level in (1e-6, *LEVELS, 1.0 - 1e-6):
            expected = order_statistics.grouped_quantiles(rows, expected_weights, level)
            assert_same_bits(order.grouped_quantiles(rows, integers, level), expected)


class CountedValues:
    """Values that count how often they are read."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.size, self.n_reads = values.tolist(), len(values), 0

    def __getitem__(self, place: int) -> float:
        self.n_reads += 1
        return self.values[int(place)]

    def __setitem__(self, place: int, value: float) -> None:
        self.values[int(place)] = value


@pytest.mark.parametrize("level", [0.1, 0.5, 0.99])
def test_selection_reads_few_values_in_any_order(
    level: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With pivots at fixed places, some of these orders take quadratic time."""
    for name in ("_pivot", "_part", "_smallest"):
        monkeypatch.setattr(selection, name, getattr(selection, name).py_func)
    n = 2000
    ascending = np.sort(np.random.default_rng(0).normal(size=n))
    up, down = ascending[::2], ascending[1::2][::-1]
    orders = [
        *(ascending, ascending[::-1], np.append(up, down), np.append(down, up)),
        *(np.roll(ascending, n // 3), np.tile(ascending[::20], 20), np.sin(np.arange(n) / 9)),
        *(np.stack([up, down], axis=1).ravel(), np.zeros(n)),
    ]
    for values in orders:
        counted, weights = CountedValues(values), [1] * n
        with np.errstate(over="ignore"):
            found = selection.select.py_func(counted, weights, level * n, 0)
        expected = np.quantile(values, level, method="averaged_inverted_cdf")
        assert 0.5 * found[0] + 0.5 * found[1] == pytest.approx(expected, rel=1e-12, abs=1e-12)
        assert counted.n_reads < 30 * n, counted.n_reads


def test_buffers_serve_columns_of_any_size() -> None:
    rng, order = np.random.default_rng(5), CompiledOrder(ThreadPool(2))
    for n, n_groups in ((40_000, 3), (100, 40), (70_000, 1), (50_000, 500)):
        group, columns = rng.integers(-1, n_groups, n), rng.normal(size=(2, n))
        rows = GroupedRows(group, n_groups, *columns)
        for weights in (None, rng.gamma(1.0, 1.0, n)):
            integers = order.integer_weights(weights, n)
            assert order.integer_weights(weights, n) is integers
            expected_weights = integer_weights(weights, n)
            found = order.grouped_quantiles(rows, integers, 0.3)
            expected = order_statistics.grouped_quantiles(rows, expected_weights, 0.3)
            assert_same_bits(found, expected)
            expected = order_statistics.grouped_clipped_means(rows, expected_weights, found, 0.8)
            assert_same_bits(order.grouped_clipped_means(rows, integers, found, 0.8), expected)


def test_groups_without_weight_have_value_zero() -> None:
    values, weights = np.array([5.0, 7.0, 2.0, 9.0]), np.array([1, 3, 0, 0])
    rows = GroupedRows(np.array([1, 1, 3, 3]), 5, values, np.zeros(4))
    for order in (order_statistics, CompiledOrder(ThreadPool(1))):
        found = order.grouped_quantiles(rows, weights, 0.25)
        np.testing.assert_array_equal(found, [0.0, 6.0, 0.0, 0.0, 0.0])
        rest = order.grouped_clipped_means(rows, weights, found, 10.0)
        np.testing.assert_array_equal(rest, [0.0, 0.5, 0.0, 0.0, 0.0])


def test_quantiles_of_the_smallest_floats() -> None:
    values = np.array([5e-324, 5e-324, -5e-324, 15e-324])
    for n in (1, 2, 3, 4):
        rows, ones = all_rows(values[:n]), integer_weights(None, n)
        expected = order_statistics.grouped_quantiles(rows, ones, 0.5)
        assert expected == 5e-324
        assert_same_bits(CompiledOrder(ThreadPool(1)).grouped_quantiles(rows, ones, 0.5), expected)


@pytest.mark.parametrize("scale", [0.0, 5e-324, 1e-310, 1e300, 1.7e307])
def test_buckets_of_any_range_give_the_same_quantiles(scale: float) -> None:
    """The sample that chooses the range is of one value, or its range is tiny or overflows."""
    n, order, rng = 4096, CompiledOrder(ThreadPool(1)), np.random.default_rng(6)
    values = rng.normal(size=n)
    values[:: n // compiled.SAMPLE] = scale * rng.integers(-10, 11, compiled.SAMPLE)
    weights = rng.integers(0, 3, n)
    for of_rows in (weights, np.where(np.arange(n) % (n // compiled.SAMPLE), weights, 0)):
        for level in LEVELS:
            expected = order_statistics.grouped_quantiles(all_rows(values), of_rows, level)
            assert_same_bits(order.grouped_quantiles(all_rows(values), of_rows, level), expected)


@pytest.mark.parametrize("name", ["absolute_error", "quantile", "huber"])
def test_losses_give_the_same_bits_with_compiled_functions(name: str) -> None:
    loss, order = order_loss(name), CompiledOrder(ThreadPool(2))
    rows, leaf = residuals()
    own = replace(rows, order=order)
    parameter = loss.round_parameter(rows)
    assert_same_bits(loss.round_parameter(own), parameter)
    expected = loss.leaf_values(rows, leaf, 8, 0, parameter)
    assert_same_bits(loss.leaf_values(own, leaf, 8, 0, parameter), expected)


# ---- leaves ------------------------------------------------------------------------------------


def order_loss(name: str, alpha: Any = 0.8) -> OrderStatisticLoss:
    loss = make_loss(name, alpha=alpha)
    assert isinstance(loss, OrderStatisticLoss) and loss.leaf_rule is loss
    return loss


def residuals(seed: int = 3, n: int = 300, n_leaves: int = 8) -> tuple[Predicted, np.ndarray]:
    """Rows, and the leaf of each row."""
    rng = np.random.default_rng(seed)
    leaf = rng.integers(-1, n_leaves, n)
    y, raw = rng.normal(size=n) * 3, rng.normal(size=(n, 1))
    return Predicted(y, raw, rng.gamma(1.0, 1.0, n)), leaf


def loss_of_leaf(
    loss: OrderStatisticLoss, rows: Predicted, own: np.ndarray, value: float, parameter: np.ndarray
) -> float:
    """Mean loss of the rows of a leaf with ``value`` added to their raw predictions."""
    weights = None if rows.weights is None else rows.weights[own]
    return loss.mean_loss(Predicted(rows.y[own], rows.raw[own] + value, weights), parameter)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["absolute_error", "quantile", "huber"])
def test_leaf_values_minimise_the_loss(name: str, weighted: bool) -> None:
    """Leaf values minimise the loss; for huber, one step of Friedman's comes close."""
    loss = order_loss(name)
    rows, leaf = residuals()
    rows = rows if weighted else replace(rows, weights=None)
    parameter = loss.round_parameter(rows)
    values = loss.leaf_values(rows, leaf, 8, 0, parameter)
    assert values.shape == (8,)
    for k, value in enumerate(values):
        own = np.flatnonzero(leaf == k)
        best = loss_of_leaf(loss, rows, own, value, parameter)
        if name == "huber":
            left = rows.y[own] - rows.raw[own, 0]
            weights = None if rows.weights is None else rows.weights[own]
            oracle = HuberLoss(delta=float(parameter[0]))
            theirs = oracle.fit_intercept_only(left, sample_weight=weights)
            other = loss_of_leaf(loss, rows, own, theirs, parameter)
            assert abs(best - other) < 0.02 * other
            continue
        for move in (-0.5, -1e-3, -1e-9, 1e-9, 1e-3, 0.5):
            moved = loss_of_leaf(loss, rows, own, value + move, parameter)
            assert moved >= best * (1 - 1e-14)


def test_unweighted_huber_leaves_are_those_of_scikit_learn() -> None:
    loss = order_loss("huber")
    rows, leaf = residuals()
    rows = replace(rows, weights=None)
    parameter = loss.round_parameter(rows)
    values = loss.leaf_values(rows, leaf, 8, 0, parameter)
    oracle = HuberLoss(delta=float(parameter[0]))
    for k, value in enumerate(values):
        own = leaf == k
        theirs = oracle.fit_intercept_only(rows.y[own] - rows.raw[own, 0])
        assert value == pytest.approx(theirs, rel=1e-12, abs=1e-13)


def test_quantile_levels_set_leaves_of_their_own_columns() -> None:
    loss = order_loss("quantile", (0.2, 0.7))
    one_column, leaf = residuals()
    raw = np.column_stack([one_column.raw, one_column.raw - 1.0])
    rows = replace(one_column, raw=raw)
    parameter = loss.round_parameter(rows)
    np.testing.assert_array_equal(parameter, loss.leaf_quantile_level)
    for k, level in enumerate((0.2, 0.7)):
        one, own = order_loss("quantile", level), replace(rows, raw=raw[:, [k]])
        expected = one.leaf_values(own, leaf, 8, 0, np.array([level]))
        np.testing.assert_array_equal(loss.leaf_values(rows, leaf, 8, k, parameter), expected)


@pytest.mark.parametrize("name", ["squared_error", "poisson", "gamma", "tweedie"])
def test_newton_leaves_have_no_line_search(name: str) -> None:
    loss = make_loss(name)
    assert loss.leaf_rule is None
