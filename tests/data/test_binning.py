"""Binning, compared with loops over exact fractions, and properties of every bin mapper."""

import hashlib
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gpuboost.data import binning
from gpuboost.data.binning import bin_columns
from gpuboost.engine.bins import MAX_BINS, BinMapper, round_down_to_float32
from gpuboost.engine.numerics import midpoint
from tests.binning import fit_bin_mapper

DENORMAL = 5e-324


def fit(column, max_bins=MAX_BINS, weights=None, **options) -> BinMapper:
    X = np.asarray(column).reshape(-1, 1)
    return fit_bin_mapper(X, np.zeros(1, bool), max_bins, weights, **options)


def same_bins(a: BinMapper, b: BinMapper) -> bool:
    pairs = [*zip(a.edges, b.edges, strict=True), (a.lowest, b.lowest), (a.highest, b.highest)]
    pairs += [(a.n_bins, b.n_bins), (a.centers, b.centers), (a.is_categorical, b.is_categorical)]
    return all(np.array_equal(x, y) for x, y in pairs)


def naive_midpoint(a: float, b: float) -> float:
    middle = float((Fraction(a) + Fraction(b)) / 2)
    return middle if middle < b else a


def naive_counts(column) -> dict[float, Fraction]:
    """Number of rows of each distinct value, in ascending order."""
    counts: dict[float, Fraction] = {}
    for value in column:
        if not np.isnan(value):
            value = float(value) + 0.0
            counts[value] = counts.get(value, Fraction(0)) + 1
    return dict(sorted(counts.items()))


def naive_shares(counts: list[Fraction], n_shares: int) -> list[int]:
    """Start of every bin but the first, by walking the boundaries between equal shares."""
    total = sum(counts)
    boundaries = [total * j / n_shares for j in range(1, n_shares)]
    cuts, reached = set(), Fraction(0)
    for value, count in enumerate(counts):
        inside = sum(reached <= b < reached + count for b in boundaries)
        cuts |= {max(value, 1)} if inside >= 1 else set()
        cuts |= {value + 1} if inside >= 2 else set()
        reached += count
    return sorted(cuts - {len(counts)})


VALUES = [
    np.array([1.0, 2.0, 3.0]),
    np.array([0.0, -0.0, 1.0]),
    np.array([-1e308, 1e308]),
    np.array([1.7e308, 1.6e308, -1.7e308]),
    np.array([DENORMAL, 0.0, 3 * DENORMAL, -DENORMAL]),
    np.array([1.0, np.nextafter(1.0, 2.0)]),
    np.array([-1.0, np.nextafter(-1.0, 0.0)]),
    np.array([2.0**53, 2.0**53 + 2, np.nan]),
]


@pytest.mark.parametrize("column", VALUES, ids=repr)
def test_few_values_get_a_bin_each(column):
    mapper = fit(column)
    values = list(naive_counts(column))
    expected = [naive_midpoint(a, b) for a, b in pairwise(values)]
    assert mapper.n_bins.tolist() == [len(values)]
    assert mapper.edges[0].tolist() == expected
    assert mapper.lowest.tolist() == mapper.highest.tolist() == values
    assert mapper.centers.tolist() == values
    assert not np.signbit(mapper.lowest[mapper.lowest == 0]).any()


def test_edges_have_no_negative_zero():
    mapper = fit([-2 * DENORMAL, DENORMAL, -1.0, 1.0])
    zeros = mapper.edges[0][mapper.edges[0] == 0]
    assert len(zeros) == 1
    assert not np.signbit(zeros).any()


@pytest.mark.parametrize("column", [[np.nan] * 4, [7.5] * 4, [7.5, np.nan], [np.nan]])
def test_constant_and_missing_columns_have_one_bin(column):
    mapper = fit(column)
    binned = bin_columns(np.array(column).reshape(-1, 1), mapper)
    assert mapper.n_bins.tolist() == [1]
    assert mapper.edges[0].size == 0
    assert (mapper.missing_code, mapper.width) == (1, 2)
    assert mapper.edge_table().shape == (1, 0)
    assert binned.codes[0].tolist() == np.isnan(column).astype(int).tolist()
    assert binned.n_missing.tolist() == [np.isnan(column).sum()]


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite, finite)
def test_midpoint_lies_between_and_is_rounded_once(a, b):
    if a == b:
        return
    a, b = min(a, b), max(a, b)
    middle = float(midpoint(a, b))
    assert a <= middle < b
    assert middle == naive_midpoint(a, b)


@given(finite)
def test_rounding_down_keeps_comparisons(edge):
    down = round_down_to_float32(np.array([edge]))[0]
    with np.errstate(over="ignore", under="ignore"):
        up = np.nextafter(down, np.float32(np.inf))
    assert float(down) <= edge
    assert float(up) > edge


# Skewed, tied, denormal, huge and missing values: a few atoms and a continuous part.
columns = arrays(
    np.float64,
    st.integers(1, 80),
    elements=st.one_of(
        st.sampled_from([0.0, -0.0, 1.0, 1.5, -3.0, 1e308, -1e308, DENORMAL, np.nan]),
        st.floats(-1e3, 1e3),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
)


@given(columns, st.integers(2, 20), st.booleans())
def test_codes_agree_with_edges_and_bins_with_values(column, max_bins, narrow):
    if narrow:
        with np.errstate(over="ignore", under="ignore"):
            column = column.astype(np.float32)
        column = column[~np.isinf(column)]
        if not len(column):
            return
    mapper = fit(column, max_bins)
    edges, n_bins = mapper.edges[0], int(mapper.n_bins[0])
    codes = bin_columns(column.reshape(-1, 1), mapper).codes[0]
    distinct = len(naive_counts(column))
    assert len(edges) == n_bins - 1 and np.all(np.diff(edges) > 0)
    assert min(distinct, 2) <= n_bins <= max_bins or distinct == 0
    if distinct <= max_bins:
        assert n_bins == max(distinct, 1)
    for x, code in zip(column, codes.astype(int), strict=True):
        if np.isnan(x):
            assert code == mapper.missing_code
            continue
        assert code == sum(float(x) > e for e in edges)
        assert mapper.lowest[code] <= x <= mapper.highest[code]
        for b, edge in enumerate(mapper.edge_table(np.float32)[0] if narrow else edges):
            assert (code <= b) == (x <= edge)
    if distinct:
        assert set(codes[~np.isnan(column)]) == set(range(n_bins))


@given(columns, st.integers(2, 20))
def test_bins_of_several_values_are_light(column, max_bins):
    counts = naive_counts(column)
    mapper = fit(column, max_bins)
    total = sum(counts.values())
    for low, high in zip(mapper.lowest, mapper.highest, strict=True):
        if low < high:
            weight = sum(c for value, c in counts.items() if low <= value <= high)
            assert weight < Fraction(2 * total, max_bins)


@settings(deadline=None)
@given(st.lists(st.integers(1, 6), min_size=9, max_size=60), st.integers(2, 8))
def test_quantiles_equal_a_naive_walk(counts, max_bins):
    column = np.repeat(np.arange(len(counts), dtype=np.float64), counts)
    if max(counts) * max_bins > 2 * sum(counts):  # no value is heavy in this test
        return
    weights = [Fraction(c) for c in counts]
    starts = fit(column, max_bins).lowest[1:].astype(int).tolist()
    expected = naive_shares(weights, max_bins)
    if len(expected) == max_bins - 1:
        assert starts == expected
    else:  # The number of shares is found by a search, so it must be one of these numbers.
        assert len(expected) <= len(starts) < max_bins
        assert any(starts == naive_shares(weights, b) for b in range(max_bins, 300))


def test_a_heavy_value_takes_one_bin_and_the_rest_share_the_others():
    rng = np.random.default_rng(0)
    column = np.where(rng.random(20_000) < 0.9, 0.0, rng.normal(size=20_000))
    mapper = fit(column)
    sizes = np.bincount(bin_columns(column.reshape(-1, 1), mapper).codes[0])
    assert mapper.n_bins[0] == MAX_BINS
    assert np.sort(sizes)[-1] == np.count_nonzero(column == 0)
    n_light = np.count_nonzero(column)
    assert np.sort(sizes)[-2] <= 2 * n_light / (MAX_BINS - 3)


def test_many_adjacent_heavy_values_leave_bins_to_the_light_ones():
    heavy, light = np.repeat(np.arange(100.0), 1000), 200 + np.arange(5000) / 5000
    mapper = fit(np.append(heavy, light))
    assert mapper.n_bins[0] >= MAX_BINS - 2
    assert np.count_nonzero(mapper.lowest < 150) == 100


@given(columns, st.integers(2, 20), st.data())
def test_integer_weights_equal_repeated_rows_in_binning(column, max_bins, data):
    times = data.draw(arrays(np.int64, len(column), elements=st.integers(0, 5)))
    if not times.any():
        return
    repeated = np.repeat(column, times)
    weighted = fit(column, max_bins, weights=times.astype(float))
    assert same_bins(weighted, fit(repeated, max_bins))
    assert same_bins(weighted, fit(column, max_bins, weights=times * 2.0**-30))


def test_weights_over_nine_orders_of_magnitude():
    rng = np.random.default_rng(1)
    column = rng.normal(size=5000)
    weights = 10.0 ** rng.uniform(-9, 0, size=5000)
    mapper = fit(column, weights=weights)
    codes = bin_columns(column.reshape(-1, 1), mapper).codes[0]
    inside = np.bincount(codes, weights)
    several = mapper.lowest < mapper.highest
    assert mapper.n_bins[0] == MAX_BINS
    assert inside[several].max() < 2.001 * weights.sum() / MAX_BINS


@given(columns, st.integers(2, 20), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(column, max_bins, random):
    order = list(range(len(column)))
    random.shuffle(order)
    weights = np.linspace(1e-9, 3.0, len(column))
    assert same_bins(fit(column, max_bins), fit(column[order], max_bins))
    assert same_bins(fit(column, max_bins, weights), fit(column[order], max_bins, weights[order]))


def mixed_matrix(n_samples=3000):
    """Features of every kind in float32; the last two are categorical."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n_samples, 9))
    X[:, 1] = np.round(X[:, 1] * 3)
    X[:, 2] = np.exp(20 * X[:, 2])
    X[:, 3] = np.where(rng.random(n_samples) < 0.8, 0.0, X[:, 3])
    X[rng.random(n_samples) < 0.3, 4] = np.nan
    X[:, 5] = 1e-40 * X[:, 5]
    X[:, 6] = 2000 + rng.integers(0, 60, n_samples)
    X[:, 7] = rng.integers(0, 5, n_samples)
    X[:, 8] = rng.integers(0, 255, n_samples)
    X[rng.random(n_samples) < 0.1, 8] = np.nan
    return X.astype(np.float32), np.arange(9) >= 7


@pytest.mark.parametrize("weights", [None, np.linspace(0, 2, 3000)], ids=["plain", "weighted"])
def test_float32_strides_and_threads_give_the_same(weights):
    X, categorical = mixed_matrix()
    mapper = fit_bin_mapper(X, categorical, weights=weights)
    binned = bin_columns(X, mapper)
    wide = np.full((6000, 18), np.inf, dtype=np.float64)
    wide[::-2, ::2] = X
    variants = [X.astype(np.float64), np.asfortranarray(X), wide[::-2, ::2]]
    for other in variants:
        for n_threads in (1, 3):
            twin = fit_bin_mapper(other, categorical, MAX_BINS, weights, n_threads)
            assert same_bins(mapper, twin)
            coded = bin_columns(other, mapper, n_threads)
            assert np.array_equal(coded.codes, binned.codes)
            assert np.array_equal(coded.n_missing, binned.n_missing)
    assert binned.codes.flags.c_contiguous


def test_input_arrays_are_not_changed():
    for order in "CF":
        X, categorical = mixed_matrix()
        X = np.array(X, order=order)
        before = X.copy()
        bin_columns(X, fit_bin_mapper(X, categorical))
        assert np.array_equal(X, before, equal_nan=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bucket_coder_equals_binary_search(monkeypatch, dtype):
    X, categorical = mixed_matrix(20_000)
    X = X.astype(dtype)
    X[:4, 0] = [0.0, -0.0, np.finfo(dtype).max, -np.finfo(dtype).max]
    if dtype == np.float64:  # out of float32's range, where buckets saturate
        X[:, 2] = np.sign(X[:, 0]) * 10.0 ** np.linspace(-320, 308, len(X))
    mapper = fit_bin_mapper(X, categorical)
    by_buckets = bin_columns(X, mapper)
    monkeypatch.setattr(binning, "_MIN_ROWS", len(X) + 1)
    assert np.array_equal(by_buckets.codes, bin_columns(X, mapper).codes)
    for feature in range(7):
        column = X[:, feature].astype(np.float64)
        expected = np.searchsorted(mapper.edges[feature], column)
        expected[np.isnan(column)] = mapper.missing_code
        assert np.array_equal(by_buckets.codes[feature], expected)


def test_categories_are_their_own_codes():
    X = np.array([[2.0, 0], [np.nan, 1], [0, 2], [2, 3]])
    mapper = fit_bin_mapper(X, np.array([True, False]))
    assert mapper.n_bins.tolist() == [3, 4]
    assert mapper.edges[0].size == 0
    assert mapper.lowest[:3].tolist() == mapper.highest[:3].tolist() == [0, 1, 2]
    assert bin_columns(X, mapper).codes[0].tolist() == [2, 4, 0, 2]
    # An unseen category has no bin and gets the code of missing values.
    assert bin_columns(np.array([[3.0, 0]]), mapper).codes.tolist() == [[4], [0]]


def test_edge_table_pads_with_infinity():
    X, categorical = mixed_matrix()
    mapper = fit_bin_mapper(X, categorical, max_bins=16)
    table, narrow = mapper.edge_table(), mapper.edge_table(np.float32)
    assert table.shape == narrow.shape == (9, mapper.width - 2)
    for feature, edges in enumerate(mapper.edges):
        assert table[feature, : len(edges)].tolist() == edges.tolist()
        assert np.isinf(table[feature, len(edges) :]).all()
        assert np.isinf(narrow[feature, len(edges) :]).all()
    assert mapper.edge_table() is table
    assert not table.flags.writeable


def test_hash_covers_what_decides_a_code():
    def digest(mapper):
        sha = hashlib.sha256()
        mapper.update_hash(sha)
        return sha.hexdigest()

    X, categorical = mixed_matrix()
    base = fit_bin_mapper(X, categorical)
    assert digest(base) == digest(fit_bin_mapper(X.astype(float), categorical))
    moved = X.copy()
    moved[0, 1] += 1000
    assert digest(base) != digest(fit_bin_mapper(moved, categorical))
    assert digest(base) != digest(fit_bin_mapper(X, np.arange(9) >= 6))
    assert digest(base) != digest(fit_bin_mapper(X, categorical, 32))


@settings(max_examples=20)
@given(st.integers(256, 4000), st.integers(2, MAX_BINS))
def test_distinct_values_fill_every_bin(n, max_bins):
    mapper = fit(np.random.default_rng(n).permutation(n).astype(float), max_bins)
    sizes = np.diff(np.append(mapper.lowest, n))
    assert mapper.n_bins[0] == max_bins
    assert sizes.max() - sizes.min() <= 1
