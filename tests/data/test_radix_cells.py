"""Radix cells: one set of bins for any division of the rows, close to the bins of all values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import gpuboost
from gpuboost.backends.numba.backend import NumbaBackend
from gpuboost.backends.numba.cells import CompiledColumnCounter
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.data import radix_cells
from gpuboost.data.binning import bin_columns
from gpuboost.data.cell_counters import ColumnCounter, count_cells
from gpuboost.data.quantiles import distinct_values, limit_heavy, quantile_cuts
from gpuboost.data.radix_cells import BinCells, are_distinct, keys_of, values_of
from gpuboost.engine.bins import BinRule
from tests.binning import fit_bin_mapper
from tests.data.parts_counter import PartsCounter
from tests.engine.harness import COLUMN_KINDS, make_columns

DENORMAL = 5e-324
COUNTERS = (ColumnCounter, CompiledColumnCounter)
BIG = 1 << 18  # rows of columns whose cells are not all distinct values
NO_CATEGORIES = np.zeros(1, dtype=bool)

columns = arrays(
    np.float64,
    st.integers(1, 120),
    elements=st.one_of(
        st.sampled_from([0.0, -0.0, 1.0, 1.5, -3.0, 1e308, -1e308, DENORMAL, -DENORMAL, np.nan]),
        st.floats(1.0, 1.001),
        st.floats(-1e3, 1e3),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
)


def found(
    column: np.ndarray, counts: Any, max_bins: int, counter: type = ColumnCounter
) -> BinCells:
    own = counter(len(column), counts)
    own.start(column)
    return count_cells(own, max_bins)


def assert_same(a: BinCells, b: BinCells) -> None:
    for name in ("cells", "first", "last", "low", "high"):
        own, other = getattr(a, name), getattr(b, name)
        np.testing.assert_array_equal(own.view(np.int64), other.view(np.int64))
    assert a.n_cells == b.n_cells


def of_values(column: np.ndarray, counts: Any, max_bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest value of each bin, by the rule for the sorted distinct values."""
    values, cumulative = distinct_values(column.copy(), counts)
    if len(values) <= max_bins:
        return values + 0.0, values + 0.0
    first = np.append(0, quantile_cuts(limit_heavy(cumulative, max_bins), max_bins)[0])
    last = np.append(first[1:], len(values)) - 1
    return values[first] + 0.0, values[last] + 0.0


def narrowed(column: np.ndarray, dtype: Any) -> np.ndarray:
    """The finite and missing values of a column in a type."""
    with np.errstate(over="ignore", under="ignore"):
        column = column.astype(dtype)
    return column[~np.isinf(column)]


@settings(deadline=None, max_examples=150)
@given(
    columns,
    st.integers(2, 255),
    st.sampled_from([np.float32, np.float64]),
    st.booleans(),
    st.sampled_from([(12, 16), (2, 3), (4, 5)]),
    st.sampled_from(COUNTERS),
    st.data(),
)
def test_any_parts_of_the_rows_in_any_order_have_the_same_cells(
    column: np.ndarray,
    max_bins: int,
    dtype: Any,
    weighted: bool,
    limits: tuple[int, int],
    counter: type,
    data: Any,
) -> None:
    column = narrowed(column, dtype)
    n = len(column)
    integers = st.one_of(st.integers(1, 9), st.integers(1, 2**36))
    counts = data.draw(arrays(np.int64, n, elements=integers)) if weighted else None
    order = np.array(data.draw(st.permutations(range(n))), dtype=np.intp)
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=5)))
    rows_of_parts = np.split(order, cuts)

    def parts() -> Iterator[tuple[np.ndarray, Any]]:
        for rows in rows_of_parts:
            yield column[rows], None if counts is None else counts[rows]

    with pytest.MonkeyPatch.context() as patch:  # with low limits, small columns have light cells
        patch.setattr(radix_cells, "_COARSE_BITS", limits[0])
        patch.setattr(radix_cells, "_LIMIT_BITS", limits[1])
        patch.setattr(radix_cells, "MAX_BINS", min(255, 2 ** limits[1]))
        whole = found(column, counts, max_bins)
        assert_same(whole, count_cells(PartsCounter(parts, counter), max_bins))
        assert_same(whole, found(column.astype(np.float64), counts, max_bins, counter))
    assert not np.signbit(whole.low[whole.low == 0]).any()


@settings(deadline=None, max_examples=150)
@given(columns, st.integers(2, 255), st.booleans(), st.sampled_from(COUNTERS), st.data())
def test_small_columns_have_the_bins_of_their_values(
    column: np.ndarray, max_bins: int, weighted: bool, counter: type, data: Any
) -> None:
    integers = st.integers(1, 100)
    counts = data.draw(arrays(np.int64, len(column), elements=integers)) if weighted else None
    assert are_distinct(len(column), counts)
    own = found(column, counts, max_bins, counter)
    low, high = of_values(column, counts, max_bins)
    np.testing.assert_array_equal(own.low, low)
    np.testing.assert_array_equal(own.high, high)


def big_column(kind: str, dtype: Any) -> np.ndarray:
    """A large column whose bins may be hard to find."""
    rng = np.random.default_rng(len(kind))
    z = rng.standard_normal(BIG)
    close = 1 + np.spacing(1.0) * rng.integers(0, 3000, BIG)
    column = {
        "normal": z,
        "wide": np.exp(15 * z),
        "rounded": np.round(z, 2),
        "codes": rng.integers(0, 40, BIG).astype(float),
        "mostly zero": np.where(rng.random(BIG) < 0.999, 0.0, z),
        "half zero": np.where(rng.random(BIG) < 0.5, -0.0, z),
        "heavy": np.round(np.abs(z) * 70),
        "close": close,
        "denormal": 1e-310 * z,
        "times": 1.7e9 + rng.integers(0, 86_400, BIG),
        "rare": np.where(rng.random(BIG) < 2e-5, 1.0 + rng.random(BIG) / 1e4, 1.0),
        "missing": np.where(rng.random(BIG) < 0.3, np.nan, z),
        "nothing": np.full(BIG, np.nan),
    }[kind]
    return column.astype(dtype)


KINDS = (
    *("normal", "wide", "rounded", "codes", "mostly zero", "half zero", "heavy", "close"),
    *("denormal", "times", "rare", "missing", "nothing"),
)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_edges_of_large_columns_move_little(kind: str, dtype: Any, weighted: bool) -> None:
    """An edge moves by less than 1/250 of the weight of an average bin, and most do not move."""
    column = big_column(kind, dtype)
    counts = np.random.default_rng(1).integers(1, 2**20, BIG) if weighted else None
    own, compiled = (found(column, counts, 255, counter) for counter in COUNTERS)
    assert_same(own, compiled)
    low, high = of_values(column, counts, 255)
    values, cumulative = distinct_values(column.astype(np.float64), counts)
    if len(values) < 255 or kind in ("rounded", "codes", "heavy"):  # few values, or all are heavy
        np.testing.assert_array_equal(own.low, low)
        np.testing.assert_array_equal(own.high, high)
        return
    assert abs(len(own.low) - len(low)) <= 1
    limited = np.append(0, limit_heavy(cumulative, 255))
    before = limited[np.searchsorted(values, low[1:])]
    after = limited[np.searchsorted(values, own.low[1:])]
    moved = np.abs(before[:, None] - after).min(axis=1)
    assert moved.max() < limited[-1] / 255 / 250


def test_a_split_stops_at_light_cells() -> None:
    """Columns need few passes, whatever their size."""
    for kind in KINDS:
        search, counter = radix_cells.find_bin_cells(255), ColumnCounter(BIG)
        counter.start(big_column(kind, np.float64))
        names, needed = [], next(search)
        with pytest.raises(StopIteration):
            while True:
                names.append(needed[0])
                needed = search.send(getattr(counter, needed[0])(*needed[1]))
        assert names.count("split") <= 4, (kind, names)


@pytest.mark.parametrize("counter", COUNTERS)
@pytest.mark.parametrize("is_skewed", [False, True])
def test_later_passes_visit_few_rows(
    is_skewed: bool, counter: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After pass 2, only values in cells that decide the bins are visited."""
    column = np.random.default_rng(0).standard_normal(BIG)
    n_visited: list[int] = []

    def noting(method: Any) -> Any:
        def visit(self: Any, own: Any, *given: Any) -> None:
            n_visited.append(len(own.cell))
            method(self, own, *given)

        return visit

    for name in ("_count_parts", "_find_extremes"):
        monkeypatch.setattr(counter, name, noting(getattr(counter, name)))
    found(np.exp(column) if is_skewed else column, None, 255, counter)
    assert n_visited[0] == BIG and len(n_visited) > 3
    assert max(n_visited[1:]) < BIG / 4, n_visited


@pytest.mark.parametrize("backend", [NumpyBackend(), NumbaBackend()])
@pytest.mark.parametrize("weights", [None, "positive", "some zero"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_by_cells_equal_codes_by_edges(backend: Any, weights: Any, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    X = np.column_stack([big_column(kind, dtype) for kind in KINDS])
    X = np.column_stack([X, rng.integers(0, 255, BIG), np.where(X[:, 0] < 0, np.nan, 7)])
    is_categorical = np.arange(X.shape[1]) >= len(KINDS)
    given_weights = None if weights is None else rng.random(BIG) + (weights == "positive")
    if weights == "some zero":
        given_weights[::3] = 0
    for table in (X, np.asfortranarray(X)):
        mapper = fit_bin_mapper(table, is_categorical, 255, given_weights, 2)
        expected = bin_columns(table, mapper)
        own = backend.fit_bins(table, BinRule(is_categorical, 255, given_weights), 3)
        for a, b in zip(mapper.edges, own.mapper.edges, strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(own.codes, expected.codes)
        np.testing.assert_array_equal(own.n_missing, expected.n_missing)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_counters_agree_on_every_kind_of_column(dtype: Any) -> None:
    rng = np.random.default_rng(5)
    X = make_columns(rng, 900, list(COLUMN_KINDS), dtype)
    for column in np.ascontiguousarray(X.T):
        for counts in (None, rng.integers(1, 2**30, len(column))):
            assert_same(*(found(column, counts, 40, counter) for counter in COUNTERS))


def test_keys_are_in_the_order_of_the_values() -> None:
    values = np.array([-1e308, -2.5, -DENORMAL, -0.0, 0.0, DENORMAL, 1e-45, 7.0, 1e308, np.nan])
    keys = keys_of(values)
    assert keys[3] == keys[4] and (np.diff(keys.astype(object)) >= 0).all()
    assert (np.diff(keys.astype(object)) == 0).sum() == 1
    np.testing.assert_array_equal(values_of(keys[:-1]), values[:-1])
    assert keys[-1] == radix_cells.MISSING_KEY == keys_of(np.array([-np.nan]))[0]


@pytest.mark.parametrize("infinite", [np.inf, -np.inf])
def test_infinities_are_refused(infinite: float) -> None:
    X = np.append(np.arange(9.0), infinite).reshape(-1, 1)
    with pytest.raises(ValueError, match="contains infinity"):
        gpuboost.Dataset(X)
