"""Functions of the engine, compared with naive versions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuboost.engine import criteria, numerics, randomness
from gpuboost.engine.criteria import ENTROPY, MISCLASSIFICATION, VARIANCE
from gpuboost.engine.fixed_point import (
    SUM_BITS,
    WeightFacts,
    exact_mean,
    planes_to_float,
    sum_bits,
    two_planes,
)
from gpuboost.engine.growth.best_first import reached
from gpuboost.engine.growth.tree import levels, sum_children
from gpuboost.engine.quantise import EXACT_BITS, value_target
from gpuboost.engine.sampling import RowSampler, draw_features, scale_weights, smallest
from gpuboost.engine.sparse_rows import DenseRows
from gpuboost.engine.task import TreeOptions

FINITE = st.floats(allow_nan=False, allow_infinity=False)
WORDS = np.array([0, 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1], dtype=np.uint64)
NO_LIMITS = ((0.0, 0.0), (-np.inf, np.inf))  # bounds on leaf values, used by NEWTON only


def words(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate([WORDS, rng.integers(0, 2**64, n, dtype=np.uint64)])


def test_hash_is_splitmix64() -> None:
    # The first outputs of SplitMix64 with seed 0. Its counter is one step ahead of the index.
    known = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    found = randomness.hash_index(np.zeros(3, np.uint64), np.arange(3, dtype=np.uint64))
    assert [int(x) for x in found] == known


def test_multiply_high_is_the_high_half_of_the_product() -> None:
    a, b = words(500, 1), words(500, 2)[::-1]
    found = randomness.multiply_high(a, b)
    assert [int(x) for x in found] == [(int(x) * int(y)) >> 64 for x, y in zip(a, b, strict=True)]


def test_feature_ranks_order_features_uniformly() -> None:
    keys = words(20000, 3)[:, None]
    ranks = randomness.feature_rank(keys, np.arange(5, dtype=np.uint64))
    first = np.bincount(ranks.argmin(axis=1), minlength=5) / len(keys)
    assert np.abs(first - 0.2).max() < 0.015


def test_log_is_within_two_units_in_the_last_place() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([np.ldexp(rng.uniform(0.5, 1, 20000), rng.integers(-900, 900, 20000)),
                        1 + rng.uniform(-1e-6, 1e-6, 1000), 2.0 ** np.arange(-50, 50)])  # fmt: skip
    expected = np.array([math.log(v) for v in x])
    assert (np.abs(numerics.log(x) - expected) <= 2 * np.spacing(np.abs(expected))).all()
    assert numerics.log(np.ones(1))[0] == 0.0


def test_binary_log_of_shares() -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(0, 1, 20000), 2.0 ** rng.uniform(-60, 0, 2000),
                        1 - 10.0 ** rng.uniform(-15, -1, 2000)])  # fmt: skip
    expected = np.array([math.log2(v) for v in x])
    assert (np.abs(numerics.log2(x) - expected) <= 2 * np.spacing(np.abs(expected))).all()
    powers = np.arange(-1022, 1024)
    np.testing.assert_array_equal(numerics.log2(2.0**powers), powers)


def test_entropy_uses_no_logarithm_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logarithms of different libraries differ in the last bit."""
    for name in ("log", "log2", "log10", "log1p"):
        monkeypatch.delattr(np, name)
    shares = np.array([[0.5, 0.5], [1.0, 0.0], [0.25, 0.75]])
    found = criteria.entropy(shares, DenseRows(shares))
    assert found[:2].tolist() == [1.0, 0.0]
    assert found[2] == pytest.approx(2 - 0.75 * math.log2(3), rel=1e-15)


@given(FINITE, FINITE)
def test_midpoint_lies_between(a: float, b: float) -> None:
    if a == b:
        return
    low, high = min(a, b), max(a, b)
    middle = numerics.midpoint(np.array([low]), np.array([high]))[0]
    assert low <= middle < high


def naive_gain(criterion: int, left: list[int], node: list[int]) -> float:
    """Gain of a split by the definition of the criterion."""

    def impurity(g: list[int]) -> float:
        h = sum(g)
        if criterion == criteria.VARIANCE:
            return sum(x * x for x in g) / h
        if criterion == criteria.ENTROPY:
            return sum(x * math.log(x) for x in g if x) - h * math.log(h)
        return max(g)

    right = [n - x for n, x in zip(node, left, strict=True)]
    return impurity(left) + impurity(right) - impurity(node)


@given(st.lists(st.tuples(st.integers(0, 900), st.integers(0, 900)), min_size=2, max_size=5),
       st.sampled_from([VARIANCE, ENTROPY, MISCLASSIFICATION]))  # fmt: skip
def test_scores_match_their_definition(sides: list[tuple[int, int]], criterion: int) -> None:
    left, right = [a for a, _ in sides], [b for _, b in sides]
    if not sum(left) or not sum(right):
        return
    node = [a + b for a, b in sides]
    hl, h = np.array([float(sum(left))]), np.array([float(sum(node))])
    gl = [np.array([float(x)]) for x in left]
    g = [np.array([float(x)]) for x in node]
    row, sums = criteria.CRITERIA[criterion], (np.zeros(1),) * 3
    for x, y in zip(gl, g, strict=True):
        sums = row.add(sums, x, y, hl, h, NO_LIMITS)
    found = criteria.gain_of(criterion, row.score(sums, hl, h), h)
    assert found[0] == pytest.approx(max(naive_gain(criterion, left, node), 0), rel=1e-9, abs=1e-7)


@given(st.lists(st.tuples(st.integers(0, 900), st.integers(0, 900)), min_size=2, max_size=5))
def test_twoing_is_the_best_gini_of_two_sets_of_classes(sides: list[tuple[int, int]]) -> None:
    """Theorem 4.10 of Breiman and others (1984)."""
    left, right = [a for a, _ in sides], [b for _, b in sides]
    if not sum(left) or not sum(right):
        return
    hl, h = float(sum(left)), float(sum(left) + sum(right))
    sums: Any = (0.0, 0.0, 0.0)
    for a, b in sides:
        sums = criteria.add_twoing(sums, float(a), float(a + b), hl, h, NO_LIMITS)
    best = 0.0
    for bits in range(2 ** len(sides)):
        chosen = [k for k in range(len(sides)) if bits >> k & 1]
        a, b = sum(left[k] for k in chosen), sum(right[k] for k in chosen)
        merged = [a, sum(left) - a], [a + b, sum(left) + sum(right) - a - b]
        best = max(best, naive_gain(criteria.VARIANCE, *merged))
    unit = criteria.CRITERIA[criteria.TWOING].class_unit
    assert unit * criteria.twoing_score(sums, hl, h) == pytest.approx(best, rel=1e-9, abs=1e-7)


@given(st.integers(1, 2**40), st.integers(-(2**47), 2**47), st.integers(2, 50))
def test_equal_means_have_a_gain_of_exactly_zero(h: int, g: int, times: int) -> None:
    """Holds while sums are below 2**53 and so exact in float64: equal products round equally."""
    gl, hl = np.array([float(g)]), np.array([float(h)])
    whole = criteria.variance_term(
        gl, np.array([float(g * times)]), hl, np.array([float(h * times)])
    )
    assert whole[0] == 0.0


@pytest.mark.parametrize("n", [10, 1000, 10**6, 10**8])
@pytest.mark.parametrize("largest", [1.0, 20.0, 65536.0])
def test_sums_of_targets_are_float64_values(n: int, largest: float) -> None:
    total = n * largest
    y = np.array([[-1.0], [1.0]])
    values = value_target(y, WeightFacts(total, largest)).values
    assert values is not None
    if total <= 2.0**41:
        assert np.abs(values).max() * total <= 2.0**EXACT_BITS
    assert np.abs(values).max() >= 2**11


def test_rows_of_zero_weight_do_not_change_the_target() -> None:
    rng = np.random.default_rng(0)
    y, weights = rng.standard_normal((50, 1)), rng.random(50)
    weights[[0, 7]] = 0.0
    found = []
    for wild in (1e13, -1e300):
        y[0] = wild
        target = value_target(y, RowSampler("all", 50, 50, 0, weights).weight_facts)
        found.append((target.mean, target.value_exponent, target.values, target.wide))
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other)


def test_equal_weights_equal_no_weights() -> None:
    sampler = RowSampler("all", 5, 5, 0, np.full(5, 0.1))
    rows = sampler.rows(0)
    assert rows.weight.tolist() == [1] * 5
    assert rows.unit == 0.1
    assert sampler.weight_facts.real is None


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=60))
def test_two_planes_hold_columns_exactly_enough(values: list[float]) -> None:
    x = np.array(values)[:, None]
    planes, exponents = two_planes(x, SUM_BITS - sum_bits(len(x)))
    assert np.abs(planes).max() <= 2**SUM_BITS // len(x) or len(x) == 1
    back = planes_to_float(planes, exponents)
    assert np.abs(back - x).max() <= np.abs(x).max() * 2.0**-52


def test_exact_mean_does_not_depend_on_the_order() -> None:
    y = np.random.default_rng(0).lognormal(0, 9, (5000, 2))
    assert np.array_equal(exact_mean(y), exact_mean(y[::-1]))
    assert exact_mean(y) == pytest.approx(y.mean(axis=0), rel=1e-12)


def test_equal_targets_stay_equal() -> None:
    y = np.repeat(np.random.default_rng(0).lognormal(0, 3, 50), 7)[:, None]
    target = value_target(y, WeightFacts(float(len(y)), 1.0))
    assert target.values is not None
    assert len(np.unique(target.values)) <= 50
    assert (target.values.reshape(-1, 7) == target.values[::7]).all()


def test_rounded_weights_are_unbiased_over_nine_orders_of_magnitude() -> None:
    rng = np.random.default_rng(0)
    weights = 10.0 ** rng.uniform(-9, 0, 20000)
    small = weights < 1e-5
    sampler = RowSampler("all", len(weights), 0, 7, weights)
    totals = [sampler.rows(t).weight[small].sum() for t in range(40)]
    assert np.mean(totals) == pytest.approx(scale_weights(weights)[small].sum(), rel=0.05)


def test_integer_weights_are_exact() -> None:
    weights = np.array([1.0, 0.0, 65536.0, 3.0])
    assert RowSampler("all", 4, 0, 0, weights).rows(0).weight.tolist() == [1, 0, 65536, 3]


def test_a_bootstrap_leaves_out_about_one_row_in_e() -> None:
    sampler = RowSampler("bootstrap", 20000, 20000, 1)
    counts = sampler.draw_counts(0)
    assert counts.sum() == 20000
    assert (counts == 0).mean() == pytest.approx(math.exp(-1), abs=0.01)
    assert not np.array_equal(counts, sampler.draw_counts(1))


def test_rows_are_drawn_in_proportion_to_their_weights() -> None:
    weights = np.array([0.0, 1.0, 2.0, 5.0])
    draws = RowSampler("bootstrap", 4, 80000, 1, weights).draw_counts(0)
    assert draws[0] == 0
    assert draws / 80000 == pytest.approx(weights / 8, abs=0.01)


def test_without_replacement_every_row_comes_once() -> None:
    counts = RowSampler("subset", 1000, 300, 1).draw_counts(0)
    assert counts.max() == 1
    assert counts.sum() == 300
    weights = np.r_[np.zeros(500), np.ones(400), np.full(100, 50.0)]
    heavy = RowSampler("subset", 1000, 100, 1, weights).draw_counts(0)
    assert heavy.sum() == 100
    assert heavy[:500].sum() == 0
    assert heavy[900:].sum() > 50


def test_balanced_subsample_gives_classes_equal_weight() -> None:
    codes = np.repeat([0, 1, 2], [800, 150, 50]).astype(np.int32)
    rows = RowSampler("bootstrap", 1000, 1000, 3, None, codes).rows(0)
    assert rows.wide is not None
    totals = [int(rows.wide[codes == k, 0].sum()) for k in range(3)]
    assert max(totals) / min(totals) == pytest.approx(1, rel=1e-6)


def test_draw_features_with_and_without_replacement() -> None:
    kept = draw_features(0, 3, 10, 4, replace=False)
    assert len(np.unique(kept)) == 4
    assert draw_features(0, 3, 10, 30, replace=True).max() < 10


def test_smallest_breaks_ties_by_position() -> None:
    order = np.array([3, 1, 2, 1, 2, 2])
    assert smallest(order, 4).tolist() == [False, True, True, True, True, False]


def random_tree(rng: np.random.Generator, inner: int) -> tuple[np.ndarray, np.ndarray]:
    """A random breadth-first tree: left children, and gains (-1 in some leaves)."""
    left = np.zeros(2 * inner + 1, dtype=np.int64)
    size, node = 1, 0
    while size < len(left):
        if rng.random() < 0.7 or node == size - 1:
            left[node], size = size, size + 2
        node += 1
    gain = rng.integers(0, 6, len(left)).astype(float)
    gain[(left == 0) & (rng.random(len(left)) < 0.5)] = -1
    return left, gain


@settings(max_examples=200)
@given(st.integers(0, 10**6), st.integers(2, 30))
def test_best_first_growth_by_levels_keeps_all_final_splits(seed: int, max_leaf_nodes: int) -> None:
    rng = np.random.default_rng(seed)
    left, gain = random_tree(rng, 25)
    key = rng.permutation(len(left)).astype(np.uint64)
    whole = reached(left, gain, key, max_leaf_nodes)
    known = np.zeros(len(left), dtype=bool)
    for nodes in levels(left):
        known[nodes] = True
        partly = np.where(known & (left < nodes.stop), left, 0)
        part = reached(partly, np.where(known, gain, -1.0), key, max_leaf_nodes)
        assert part[whole & known].all()  # no level drops a node that the final tree splits


@pytest.mark.parametrize("max_leaf_nodes", [2, 3, 5, 31, 64, 100])
def test_max_splits_of_a_level_of_best_first_growth(max_leaf_nodes: int) -> None:
    """The bound on the splits of a level holds, and is close to the true maximum."""
    options = TreeOptions(criteria.VARIANCE, max_leaf_nodes=max_leaf_nodes)
    for depth in range(max_leaf_nodes + 2):
        levels_above = 2.0 ** np.arange(depth + 1)
        splits = np.arange(1, min(2**depth, max_leaf_nodes) + 1)
        needed = np.ceil(splits[:, None] / levels_above).sum(axis=1)
        most = np.count_nonzero(needed <= max_leaf_nodes - 1)
        bound = options.max_splits(depth)
        assert most <= bound and min(bound, 2**depth) <= most + max_leaf_nodes.bit_length() // 2


def test_sums_of_children() -> None:
    left = np.array([1, 3, 0, 0, 0])
    sums = np.array([0, 0, 5, 2, 3])[:, None]
    sum_children(left, sums)
    assert sums[:, 0].tolist() == [10, 5, 5, 2, 3]
