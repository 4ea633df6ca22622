"""Histograms of values and of two classes, summed by the kernel, equal sums over the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from gpuboost.backends.cuda.data.matrix import upload_matrix
from gpuboost.backends.cuda.level.histograms import FeatureLists, HistogramBuilder, cell_words
from gpuboost.backends.cuda.level.records import Search
from gpuboost.backends.cuda.runtime.compile_flags import CompileFlags
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.backends.cuda.sampling.rows import DeviceRows
from gpuboost.data.binning import bin_columns
from tests import cuda_shim
from tests.binning import fit_bin_mapper
from tests.cuda.shim_runtime import ShimRuntime

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)

GRADIENTS, TWO_CLASSES, VALUES = "gradients", "two classes", "values"
FLAGS = {
    GRADIENTS: CompileFlags(gradients=True),
    TWO_CLASSES: CompileFlags(binary_targets=True),
    VALUES: CompileFlags(),
}
MAX_ROWS = constant("histogram/shared_histogram.cuh", "MAX_PIECE_ROWS")


@dataclass(frozen=True)
class Level:
    """The rows of a level, in order of their nodes."""

    kind: str
    codes: np.ndarray  # uint8 (F, n)
    rows: DeviceRows
    node: np.ndarray  # of each row
    listed: np.ndarray  # features of each node, padded with -1; or one list of all features
    counted: bool = True
    tile: int = 32

    def found(self, runtime: ShimRuntime) -> np.ndarray:
        """Histograms computed by the kernel, in memory that was not zero."""
        n_codes = int(self.codes.max()) + 2
        X = np.arange(n_codes, dtype=np.float64)[:, None].repeat(len(self.codes), axis=1)
        matrix = bin_columns(X, fit_bin_mapper(X, np.zeros(len(self.codes), bool), n_codes))
        device = upload_matrix(runtime, replace(matrix, stored=self.codes), self.tile)
        heaviest, n_channels = int(self.rows.weight.max()), len(self.rows.target)
        lists, count = self.listed.shape
        own = (False, self.counted, heaviest, count, FLAGS[self.kind])
        builder = HistogramBuilder(runtime, device, n_channels, *own)
        search = self._search(builder.rows_per_block(len(self.node)))
        n_nodes = int(self.node.max()) + 1
        histogram = np.full((n_nodes, count, 2 + n_channels, device.width), -7, np.int64)
        stride = count if lists > 1 else 0
        given = FeatureLists(self.listed.astype(np.int32), stride, count, np.zeros(1, np.uint64))
        builder.build(self.rows, search, range(n_nodes), given, histogram)
        return histogram

    def _search(self, most: int) -> Search:
        """Cut the rows of each node into pieces of at most ``most`` rows."""
        ends = np.append(0, np.cumsum(np.bincount(self.node)))
        pieces = [
            (node, at, min(most, ends[node + 1] - at))
            for node in range(len(ends) - 1)
            for at in range(ends[node], ends[node + 1], most)
        ]
        search = Search.empty(np, len(ends) - 1, len(pieces) + 3, depth=0, none=False)
        search.sizes[:] = len(ends) - 1, len(pieces), 0
        columns = (search.work.slot, search.work.first, search.work.rows)
        for column, values in zip(columns, zip(*pieces, strict=True), strict=True):
            column[: len(pieces)] = values
        return search

    def expected(self, shape: tuple[int, ...]) -> np.ndarray:
        """Sums over the rows in Python integers."""
        out = np.zeros(shape, dtype=object)
        weight, target = self.rows.weight.astype(object), self.rows.target.astype(object)
        value = target if self.kind == GRADIENTS else target * weight
        for place in range(shape[1]):
            feature = self.listed[self.node % len(self.listed), place]
            inside = feature >= 0
            at = self.node[inside], self.codes[feature[inside], self.rows.row[inside]]
            np.add.at(out[:, place, 0], at, weight[inside])
            np.add.at(out[:, place, 1], at, int(self.counted))
            for k, own in enumerate(value):
                np.add.at(out[:, place, 2 + k], at, own[inside])
        return out


def level(
    kind: str, n_features: int, listed: bool = False, n: int = 700, n_channels: int = 1
) -> Level:
    """Three nodes, the second of which has 5 rows."""
    rng = np.random.default_rng(n_features)
    node = np.sort(rng.choice([0, 2], n))
    node = np.sort(np.append(node[5:], [1] * 5))
    target = rng.integers(-(2**31), 2**31, (n_channels, n)).astype(np.int32)
    if kind == TWO_CLASSES:
        target = target & 1
    rows = DeviceRows(
        row=rng.permutation(n).astype(np.uint32),
        weight=rng.integers(0, 2**16, n).astype(np.uint32),
        target=target,
    )
    codes = rng.integers(0, 37, (n_features, n)).astype(np.uint8)
    lists = np.arange(n_features)[None]
    if listed:
        lists = rng.permuted(lists.repeat(3, axis=0), axis=1)[:, : n_features // 2 + 1]
        lists[1, 1:] = -1
    return Level(kind, codes, rows, node, lists)


def assert_exact(asked: Level, runtime: ShimRuntime) -> None:
    found = asked.found(runtime)
    expected = asked.expected(found.shape)
    lists = asked.listed[np.arange(len(found)) % len(asked.listed)]
    assert (found.astype(object) == expected)[lists >= 0].all()


@pytest.mark.parametrize("kind", FLAGS)
@pytest.mark.parametrize(
    ("n_features", "tile", "listed"),
    [(1, 32, 0), (3, 32, 0), (4, 16, 0), (5, 32, 1), (13, 32, 0), (33, 16, 0), (33, 32, 1)],
)
def test_sums_are_exact(kind: str, n_features: int, tile: int, listed: int) -> None:
    asked = replace(level(kind, n_features, bool(listed)), tile=tile)
    assert_exact(asked, ShimRuntime(order_seed=n_features))


@pytest.mark.parametrize("kind", FLAGS)
def test_any_number_of_rows(kind: str) -> None:
    """Pieces end inside the rows that a lane reads ahead."""
    for n in (11, 63, 64, 65, 511, 513, 2100):
        asked = level(kind, 6, n=n)
        assert_exact(asked, ShimRuntime(n_multiprocessors=1))
        assert_exact(replace(asked, counted=False), ShimRuntime(n_multiprocessors=1))


@pytest.mark.parametrize("kind", [GRADIENTS, VALUES])
def test_only_the_first_channel_has_weights(kind: str) -> None:
    assert_exact(level(kind, 18, n_channels=3), ShimRuntime(order_seed=2))


@pytest.mark.parametrize("flavour", ["race", "guard", "undefined"])
@pytest.mark.parametrize(("kind", "listed"), [(GRADIENTS, 0), (TWO_CLASSES, 1), (VALUES, 0)])
def test_under_sanitizers(flavour: str, kind: str, listed: int) -> None:
    assert_exact(level(kind, 9, bool(listed)), ShimRuntime(flavour, order_seed=1))


@pytest.mark.parametrize("value", [-(2**31), 2**31 - 1, -1, 2**16 - 1])
@pytest.mark.parametrize("kind", FLAGS)
def test_the_most_rows_of_a_piece_do_not_wrap_around(kind: str, value: int) -> None:
    """As many rows as a piece may have, in one bin, with extreme values and weights."""
    n, heaviest = MAX_ROWS, (2**32 - 1) // MAX_ROWS
    rows = DeviceRows(
        row=np.arange(n, dtype=np.uint32),
        weight=np.full(n, heaviest, np.uint32),
        target=np.full((1, n), value % 2 if kind == TWO_CLASSES else value, np.int32),
    )
    codes = np.zeros((4, n), np.uint8)
    asked = Level(kind, codes, rows, np.zeros(n, np.int64), np.arange(4)[None])
    runtime = ShimRuntime(n_multiprocessors=1)
    found = asked.found(runtime)
    total = n * int(rows.target[0, 0]) * (1 if kind == GRADIENTS else heaviest)
    assert (found[0, :, :, 0] == [n * heaviest, n, total]).all() and not found[..., 1:].any()


def test_heavy_weights_have_small_pieces() -> None:
    """Sums of weights near 2**31 exceed 32 bits after two rows."""
    asked = level(VALUES, 7, n=100, n_channels=2)
    asked.rows.weight[:] = 2**31 - 1 - asked.rows.weight
    asked.rows.target[:] //= 8  # the largest target of a regression is 2**28
    assert_exact(asked, ShimRuntime(n_multiprocessors=1))


class LoggingRuntime(ShimRuntime):
    """The shim; it logs the bytes of shared memory of `histogram_values`."""

    taken: list[int]

    def kernel(self, file_name: str, name: str, constants: Mapping[str, int]) -> Any:
        """A kernel that logs its shared memory before it runs."""
        launch = super().kernel(file_name, name, constants)
        if name != "histogram_values":
            return launch

        def logged(grid: Any, block: Any, args: Any, shared_mem: int = 0) -> None:
            self.taken.append(shared_mem)
            launch(grid, block, args, shared_mem)

        return logged


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("kind", FLAGS)
def test_launches_take_the_memory_that_tiles_are_chosen_for(kind: str, counted: bool) -> None:
    runtime = LoggingRuntime()
    runtime.taken = []
    width = replace(level(kind, 20), counted=counted).found(runtime).shape[3]
    words = cell_words(False, FLAGS[kind].binary_targets, counted)
    assert runtime.taken == [4 * words * width * 32]
