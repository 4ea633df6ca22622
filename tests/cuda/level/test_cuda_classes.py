"""Histograms of more than two classes on the device: sums over segments of sorted rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuboost.backends.cuda.data.matrix import upload_matrix
from gpuboost.backends.cuda.growth import subtrees as small
from gpuboost.backends.cuda.level import histograms, policy
from gpuboost.backends.cuda.level.histograms import (
    FeatureLists,
    HistogramBuilder,
    capacity_for_cells,
    cell_words,
    choose_tile,
)
from gpuboost.backends.cuda.level.records import Search
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.backends.cuda.sampling.rows import DeviceRows
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.data.binning import bin_columns
from gpuboost.engine.criteria import ENTROPY, VARIANCE
from gpuboost.engine.task import GrowTask
from tests import cuda_shim
from tests.binning import fit_bin_mapper
from tests.cuda.lock_step import LockStepBackend
from tests.cuda.shim_runtime import ShimBackend, ShimRuntime
from tests.engine.harness import Problem, grow

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)

SHORT = constant("histogram/histogram_classes.cu", "SHORT")
TURING = 64 << 10  # shared memory of a block on the oldest GPUs


# Histograms -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sums:
    """Input of the histogram kernel: rows of nodes, sorted by class within each node."""

    codes: np.ndarray  # (F, n)
    rows: DeviceRows
    node: np.ndarray  # node of each row, ascending
    n_classes: int
    listed: np.ndarray  # features of each node, padded with -1; or one list for all
    counted: bool = True
    piece: int = 1 << 14

    def found(self, runtime: ShimRuntime, max_bins: int) -> np.ndarray:
        """Histograms computed by the kernel."""
        X = self.codes.T.astype(np.float64)
        categorical = np.zeros(len(self.codes), dtype=bool)
        matrix = bin_columns(X, fit_bin_mapper(X, categorical, max_bins))
        matrix = replace(matrix, stored=np.ascontiguousarray(self.codes))
        device = upload_matrix(runtime, matrix, 32)
        lists, count = self.listed.shape
        largest = max(1, int(self.rows.weight.max()))
        by_class = (self.n_classes, True, self.counted, largest, count)
        builder = HistogramBuilder(runtime, device, *by_class)
        n_nodes = int(self.node.max()) + 1
        search = self._search(min(self.piece, builder.rows_per_block(len(self.node))))
        shape = (n_nodes, count, 2 + self.n_classes, device.width)
        histogram = np.full(shape, -7, dtype=np.int64)
        stride = count if lists > 1 else 0
        lists = FeatureLists(self.listed.astype(np.int32), stride, count, np.zeros(1, np.uint64))
        builder.build(self.rows, search, range(n_nodes), lists, histogram)
        return histogram

    def _search(self, most: int) -> Search:
        """Cut the rows of each node into pieces of at most ``most`` rows."""
        pieces = []
        for node in range(int(self.node.max()) + 1):
            first, end = np.searchsorted(self.node, [node, node + 1])
            pieces += [(node, at, min(most, end - at)) for at in range(first, end, most)]
        search = Search.empty(np, int(self.node.max()) + 1, len(pieces) + 3, depth=0, none=False)
        search.sizes[:] = int(self.node.max()) + 1, len(pieces), 0
        work = (search.work.slot, search.work.first, search.work.rows)
        for column, values in zip(work, zip(*pieces, strict=True), strict=True):
            column[: len(pieces)] = values
        return search

    def expected(self, width: int) -> np.ndarray:
        """Histograms computed by NumPy."""
        out = np.zeros(
            (int(self.node.max()) + 1, self.listed.shape[1], 2 + self.n_classes, width),
            dtype=np.int64,
        )
        weight = self.rows.weight.astype(np.int64)
        for place in range(self.listed.shape[1]):
            feature = self.listed[self.node % len(self.listed), place]
            inside = feature >= 0
            node, code = self.node[inside], self.codes[feature[inside], self.rows.row[inside]]
            of_class = self.rows.target[0][inside]
            np.add.at(out[:, place, 0], (node, code), weight[inside])
            np.add.at(out[:, place, 1], (node, code), int(self.counted))
            np.add.at(out[:, place], (node, 2 + of_class, code), weight[inside])
        return out


def sums_of(lengths: list[list[int]], n_features: int, n_codes: int, seed: int = 0) -> Sums:
    """Nodes with the given number of rows of each class, and codes below ``n_codes``."""
    rng = np.random.default_rng(seed)
    n_classes = max(3, max(len(classes) for classes in lengths))
    of_class = [np.repeat(np.arange(len(classes)), classes) for classes in lengths]
    target = np.concatenate(of_class).astype(np.int32)
    node = np.repeat(np.arange(len(lengths)), [len(part) for part in of_class])
    n = len(target)
    codes = rng.integers(0, n_codes, (n_features, n), dtype=np.uint8)
    codes[:, :n_codes] = np.arange(n_codes)  # every code occurs
    weight = rng.integers(0, 4, n).astype(np.uint32)
    row = rng.permutation(n).astype(np.uint32)
    rows = DeviceRows(row, weight, target[None])
    return Sums(codes, rows, node, n_classes, np.arange(n_features)[None])


def assert_exact(asked: Sums, runtime: ShimRuntime) -> None:
    """Assert that the kernel's sums equal NumPy's, in memory that was not zero."""
    n_codes = int(asked.codes.max()) + 1
    found = asked.found(runtime, n_codes)
    expected = asked.expected(found.shape[3])
    inside = np.broadcast_to(
        (asked.listed >= 0)[np.arange(len(found)) % len(asked.listed)][:, :, None, None],
        found.shape,
    )
    np.testing.assert_array_equal(found[inside], expected[inside])


AROUND = [64 // SHORT - 1, 64 // SHORT, 64 // SHORT + 1]  # shortest long segments


@pytest.mark.parametrize("flavour", ["plain", "race", "undefined", "guard"])
def test_short_and_long_segments(flavour: str) -> None:
    lengths = [[*AROUND, 1, 2, 700, 0, 3], [1300], [1] * 9, [5, 600, 4, 4, 4, 90, 12, 530]]
    asked = sums_of(lengths, 3, 63)
    for runtime in (ShimRuntime(flavour=flavour), ShimRuntime(flavour=flavour, order_seed=3)):
        assert_exact(asked, runtime)
        assert_exact(replace(asked, counted=False), runtime)


@pytest.mark.parametrize("piece", [1, 7, 20, 333])
def test_pieces_may_end_inside_a_segment(piece: int) -> None:
    asked = sums_of([[100, 3, 3, 40, 200], [13, 0, 12, 14]], 4, 50)
    assert_exact(replace(asked, piece=piece), ShimRuntime(order_seed=1))


@pytest.mark.parametrize("n_features", [2, 8, 40])
def test_tiles_and_lists(n_features: int) -> None:
    """Each node has its own list of features, and some tiles have no features."""
    rng = np.random.default_rng(1)
    asked = sums_of([[70, 5, 30], [9, 200, 9], [40, 40, 40]], n_features, 30)
    listed = np.argsort(rng.random((3, n_features)), axis=1)
    listed[1, n_features // 2 :] = -1
    listed[2, 1:] = -1
    assert_exact(replace(asked, listed=listed), ShimRuntime(order_seed=2))


def test_heavy_weights_do_not_wrap_around() -> None:
    asked = sums_of([[60, 1, 50]], 2, 5)
    asked.rows.weight[:] = 2**31 - 1 - asked.rows.weight
    assert_exact(asked, ShimRuntime())


LENGTHS = st.one_of(st.integers(0, 60), st.integers(0, 900))


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.lists(LENGTHS, min_size=1, max_size=12).filter(any), min_size=1, max_size=4),
    st.integers(1, 5),
    st.sampled_from([2, 6, 40, 200]),
    st.integers(0, 99),
)
def test_any_segments(lengths: list[list[int]], n_features: int, n_codes: int, seed: int) -> None:
    if sum(map(sum, lengths)) < n_codes:
        lengths = [*lengths, [n_codes]]
    asked = sums_of(lengths, n_features, n_codes, seed)
    assert_exact(replace(asked, counted=bool(seed % 2)), ShimRuntime(order_seed=seed))


class GridRuntime(ShimRuntime):
    """The shim; it logs the grids of `histogram_classes`."""

    def kernel(self, file_name: str, name: str, constants: Mapping[str, int]) -> Any:
        inner = super().kernel(file_name, name, constants)
        if name != "histogram_classes":
            return inner

        def launch(grid: Any, block: Any, args: Any, shared_mem: int = 0) -> None:
            n_pieces, rows = int(args[4][0]), args[7]
            self.grids.append((*grid[1:], int(rows[:n_pieces].sum())))
            inner(grid, block, args, shared_mem)

        return launch

    def __post_init__(self) -> None:
        super().__post_init__()
        self.grids: list[tuple[int, int, int]] = []


def test_a_row_is_read_once_whatever_the_number_of_classes() -> None:
    """Every row is in one piece, and each piece has one block."""
    for n_classes in (3, 30):
        asked = problem(n_classes, n=400, method="all", n_trees=1).with_options(max_depth=3)
        runtime = GridRuntime()
        grow(asked, ShimBackend(runtime))
        assert [blocks[:2] for blocks in runtime.grids] == [(1, 1)] * len(runtime.grids)
        rows = [blocks[2] for blocks in runtime.grids]
        assert rows[0] == 400 and max(rows[1:]) <= 200  # only the smaller siblings


def test_tiles_fit_the_shared_memory_of_the_oldest_gpus() -> None:
    words = cell_words(True, False, False)
    assert 4 * words * 256 * 32 == TURING  # no memory is left
    assert choose_tile(capacity_for_cells(TURING, True), 256, words) == 16
    assert choose_tile(capacity_for_cells(TURING, False), 256, words) == 32
    assert choose_tile(capacity_for_cells(TURING, True), 256, cell_words(True, False, True)) == 16


# Whole trees ------------------------------------------------------------------------------------


def problem(n_classes: int, n: int = 700, **given: Any) -> Problem:
    """Numeric and categorical features, missing values, and classes of very different sizes."""
    rng = np.random.default_rng(n_classes)
    X = rng.standard_normal((n, 5)).astype(np.float32)
    X[:, 3], X[:, 4] = rng.integers(0, 4, n), rng.integers(0, 30, n)
    y = np.floor(n_classes * rng.random(n) ** 2 + np.abs(X[:, 0])).astype(np.int32) % n_classes
    y[:n_classes] = np.arange(n_classes)
    X[rng.random(X.shape) < 0.1] = np.nan
    defaults: dict[str, Any] = {
        "is_categorical": np.array([0, 0, 0, 1, 1], dtype=bool),
        "max_bins": 60,
        "method": "bootstrap",
    }
    return Problem(X, y, True, **{**defaults, **given}).with_options(max_depth=6)


@pytest.fixture
def no_small_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep all nodes in the level loop."""
    monkeypatch.setattr(small, "MAX_SUBTREE_ROWS", 0)


@pytest.mark.usefixtures("no_small_nodes")
@pytest.mark.parametrize("criterion", [VARIANCE, ENTROPY])
@pytest.mark.parametrize("n_classes", [3, 7, 30, 100])
def test_every_step_equals_the_reference(n_classes: int, criterion: int) -> None:
    asked = problem(n_classes).with_options(criterion=criterion, max_depth=4)
    fingerprint = grow(asked, LockStepBackend(ShimRuntime(order_seed=n_classes)))[1]
    assert fingerprint == grow(asked, NumpyBackend())[1]


@pytest.mark.usefixtures("no_small_nodes")
@pytest.mark.parametrize(
    "changes",
    [
        {"max_features": 2},
        {"random_thresholds": True},
        {"min_samples_leaf": 5},
        {"max_leaf_nodes": 12},
        {"min_weight_fraction_leaf": 0.02},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_every_option_equals_the_reference(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "PIECE_ROWS", 64)
    monkeypatch.setattr(histograms, "MIN_BLOCK_ROWS", 90)
    weights = np.random.default_rng(0).uniform(0.1, 1, 700)
    for given_weights in (None, weights):
        asked = problem(9, weights=given_weights).with_options(**changes)
        fingerprint = grow(asked, LockStepBackend(ShimRuntime(order_seed=8)))[1]
        assert fingerprint == grow(asked, NumpyBackend())[1]


@pytest.mark.parametrize("n_classes", [7, 30])
@pytest.mark.parametrize("budget", [1, 1 << 20, 1 << 28])
def test_slices_batches_and_small_nodes_do_not_matter(n_classes: int, budget: int) -> None:
    asked = problem(n_classes, balance=True, n_trees=3)
    expected = grow(asked, NumpyBackend())[1]
    assert grow(asked, ShimBackend(), memory_budget=budget)[1] == expected


class WithoutSampler:
    """A backend that draws the rows of trees on the host."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend

    def grow(self, task: GrowTask) -> Any:
        return self.backend.grow(replace(task, sampler=None))


@pytest.mark.usefixtures("no_small_nodes")
def test_rows_made_on_the_host_are_sorted_too() -> None:
    asked = problem(7, weights=np.random.default_rng(0).uniform(0.1, 1, 700))
    expected = grow(asked, WithoutSampler(NumpyBackend()))[1]
    assert grow(asked, WithoutSampler(LockStepBackend(ShimRuntime())))[1] == expected
