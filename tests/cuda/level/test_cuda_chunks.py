"""Levels of many nodes and pieces, whose prefix sums are computed by several blocks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from gpuboost.backends.cuda.growth import subtrees as small
from gpuboost.backends.cuda.level import policy
from gpuboost.backends.cuda.level.policy import Policy
from gpuboost.backends.cuda.level.records import DeviceFrontier, DeviceSplits, Left, Pieces, Places
from gpuboost.backends.cuda.runtime import grid as chunks
from gpuboost.backends.cuda.runtime import launch, signatures, source
from gpuboost.backends.cuda.runtime.arrays import empty
from gpuboost.backends.cuda.runtime.source import file_text
from gpuboost.backends.numpy.backend import NumpyBackend
from tests import cuda_shim
from tests.cuda import shim_runtime
from tests.cuda.lock_step import LockStepBackend, start_on_device
from tests.cuda.shim_runtime import ShimRuntime
from tests.cuda.shim_trees import assert_equal_trees, problem
from tests.engine.harness import grow

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)

THREADS = 64
POLICY_KERNELS = {
    *("cut_roots", "count_open", "open_nodes", "count_children", "place_rows", "place_nodes"),
    *("place_pieces", "make_children"),
}


def few_threads(monkeypatch: pytest.MonkeyPatch, few_tiles: int = 1, max_chunks: int = 3) -> None:
    """Use tiles of two warps, so that small levels have many, and no small nodes."""

    def text(name: str) -> str:
        return file_text(name).replace("CHUNK_THREADS = 1024", f"CHUNK_THREADS = {THREADS}")

    monkeypatch.setattr(source, "file_text", text)
    monkeypatch.setattr(shim_runtime, "file_text", text)
    monkeypatch.setattr(chunks, "threads_of_chunks", lambda: THREADS)
    monkeypatch.setattr(signatures, "_product", signatures._product.__wrapped__)
    monkeypatch.setattr(launch, "_bindings", {})
    monkeypatch.setattr(chunks, "FEW_TILES", few_tiles)
    monkeypatch.setattr(chunks, "MAX_CHUNKS", max_chunks)
    monkeypatch.setattr(chunks, "MAX_BLOCKS", 2 * max_chunks)
    monkeypatch.setattr(small, "MAX_SUBTREE_ROWS", 0)


# A level, and the expected results ----------------------------------------------------------


@dataclass(frozen=True)
class Level:
    """A level of random nodes, some with many rows, with spare capacity for nodes and pieces."""

    policy: Policy
    frontier: DeviceFrontier
    splits: DeviceSplits
    left: Left
    n_nodes: int
    n_pieces: int


def cut(start: np.ndarray, count: np.ndarray, most: int) -> tuple[np.ndarray, ...]:
    """Cut rows into pieces: owner, first row and number of rows of each piece."""
    pieces = -(-count // most)
    owner = np.repeat(np.arange(len(count)), pieces)
    offset = (np.arange(len(owner)) - np.repeat(np.cumsum(pieces) - pieces, pieces)) * most
    return owner, start[owner] + offset, np.minimum(most, count[owner] - offset)


def put(array: np.ndarray, values: np.ndarray) -> None:
    array[: len(values)] = values


def policy_of_two_classes() -> Policy:
    asked = problem("two classes", n=20)
    _, matrix, sampler, target = asked.prepare()
    ops, _, _ = start_on_device(ShimRuntime(), asked.task(matrix, sampler, target), [0])
    return ops._policy


def random_level(
    runtime: ShimRuntime, n_nodes: int, spare: int, piece_rows: int, heavy: float = 0.05
) -> Level:
    rng = np.random.default_rng(n_nodes + spare)
    count = rng.integers(1, 3 * piece_rows, n_nodes)
    count = np.where(rng.random(n_nodes) < heavy, count * 40, count)
    start, n_rows = np.cumsum(count) - count, int(count.sum())
    known = policy_of_two_classes()
    made = replace(
        known,
        runtime=runtime,
        options=replace(known.options, max_depth=50, min_samples_split=4),
        min_hessian=rng.integers(1, 9, 3),
        n_rows=n_rows,
        small_rows=piece_rows // 2,
    )
    owner, first, rows = cut(start, count, piece_rows)
    most = n_nodes + spare
    pieces = made.empty_pieces(np.array([len(owner)], np.int32), most)
    for array, values in ((pieces.slot, owner), (pieces.first, first), (pieces.rows, rows)):
        put(array, values)
    size = np.array([n_nodes], np.int32)
    frontier = empty(DeviceFrontier, np, {"size": size, "pieces": pieces}, n=most, n_channels=1)
    hessian = count * rng.integers(1, 4, n_nodes)
    parent = np.repeat(rng.integers(-1, 7, -(-n_nodes // 2)), 2)[:n_nodes]
    columns: dict[str, Any] = {
        "tree": rng.integers(0, 3, n_nodes),
        "key": rng.integers(0, 2**63, n_nodes),
        "start": start,
        "count": count,
        "hessian": hessian,
        "parent": parent if n_nodes % 2 == 0 else np.full(n_nodes, -1),
    }
    for name, values in columns.items():
        put(getattr(frontier, name), values)
    frontier.gradient[:n_nodes, 0] = rng.integers(0, hessian + 1)
    splits = empty(DeviceSplits, np, {}, n=most, n_channels=1, mask_words=0)
    splits.accepted[:n_nodes] = (rng.random(n_nodes) < 0.6) & (count > 1)
    splits.left_hessian[:n_nodes] = rng.integers(0, hessian + 1)
    splits.left_gradient[:n_nodes, 0] = rng.integers(0, hessian + 1)
    of_piece = np.full(pieces.capacity, 10**12)  # leaves are not written
    moved = splits.accepted[owner] != 0
    of_piece[: len(owner)][moved] = rng.integers(0, rows[moved] + 1)
    of_node = np.zeros(most, np.int64)
    np.add.at(of_node, owner[moved], of_piece[: len(owner)][moved])
    left = Left(np.empty((0, 32), np.uint32), of_piece, of_node)
    return Level(made, frontier, splits, left, n_nodes, len(owner))


def of_nodes(level: Level, name: str) -> np.ndarray:
    return getattr(level.frontier, name)[: level.n_nodes].copy()


def expect_pieces(found: Pieces, expected: tuple[np.ndarray, ...]) -> None:
    n = int(found.n_pieces[0])
    for own, other in zip((found.slot, found.first, found.rows), expected, strict=True):
        np.testing.assert_array_equal(own[:n], other)


def check_search(level: Level) -> None:
    """Compare slots, sources, small nodes and work lists with NumPy's."""
    made, n = level.policy, level.n_nodes
    found = made.search(level.frontier, None, 3, rows_per_piece=11)
    count, hessian, parent = (of_nodes(level, name) for name in ("count", "hessian", "parent"))
    gradient = level.frontier.gradient[:n, 0]
    opens = (gradient > 0) & (gradient < hessian) & (count > max(made.small_rows, 3))
    opens &= hessian >= 2 * made.min_hessian[of_nodes(level, "tree")]
    sibling, known = np.minimum(np.arange(n) ^ 1, n - 1), parent >= 0
    right = np.arange(n) % 2 == 1
    larger = known & np.where(right, count >= count[sibling], count > count[sibling])
    needs = opens | (known & ~larger & opens[sibling])
    slot = np.where(needs, np.cumsum(needs) - 1, -1)
    np.testing.assert_array_equal(found.open[:n] != 0, opens)
    np.testing.assert_array_equal(found.slot[:n], slot)
    np.testing.assert_array_equal(found.node_of_slot[: needs.sum()], np.flatnonzero(needs))
    np.testing.assert_array_equal(found.source[:n], np.where(opens & larger, parent, -1))
    left_over = np.flatnonzero(~opens & (count <= made.small_rows))
    summed = np.where(needs & ~(opens & larger), count, 0)
    owner, first, rows = cut(of_nodes(level, "start"), summed, 11)
    assert found.sizes.tolist() == [int(needs.sum()), len(owner), len(left_over)]
    np.testing.assert_array_equal(found.small[: len(left_over)], left_over)
    expect_pieces(found.work, (slot[owner], first, rows))


def check_places(level: Level) -> Places:
    """Compare ranks of nodes and positions of pieces with NumPy's."""
    found = level.policy.place(level.frontier, level.splits, level.left)
    accepted = level.splits.accepted[: level.n_nodes] != 0
    count, start = of_nodes(level, "count"), of_nodes(level, "start")
    moving = np.where(accepted, count, 0)
    to = np.cumsum(moving) - moving
    np.testing.assert_array_equal(
        found.rank[: level.n_nodes][accepted], np.arange(accepted.sum(), dtype=np.int32)
    )
    np.testing.assert_array_equal(found.to[: level.n_nodes][accepted], to[accepted])
    assert found.next_size.tolist() == [2 * accepted.sum()]
    owner = level.frontier.pieces.slot[: level.n_pieces]
    moves = accepted[owner]
    owner = owner[moves]
    left = level.left.left[: level.n_pieces][moves]
    before = np.cumsum(left) - left
    first_of_node = np.flatnonzero(np.diff(owner, prepend=-1))
    before -= np.repeat(before[first_of_node], np.diff(first_of_node, append=len(owner)))
    rows_before = level.frontier.pieces.first[: level.n_pieces][moves] - start[owner]
    right_at = to[owner] + level.left.n_left[owner] + rows_before - before
    np.testing.assert_array_equal(found.left_at[: level.n_pieces][moves], to[owner] + before)
    np.testing.assert_array_equal(found.right_at[: level.n_pieces][moves], right_at)
    return found


def check_children(level: Level, places: Places) -> None:
    """Compare the rows of children and their pieces with NumPy's."""
    splits, n_left = level.splits, level.left.n_left
    slot = np.arange(level.frontier.capacity, dtype=np.int32)
    most = 2 * level.frontier.capacity
    made = level.policy.children(level.frontier, splits, n_left, places, slot, most)
    parents = np.flatnonzero(splits.accepted[: level.n_nodes])
    left, rows = n_left[parents], of_nodes(level, "count")[parents]
    count = np.stack([left, rows - left], axis=1).ravel()
    start = np.cumsum(count) - count
    np.testing.assert_array_equal(made.count[: len(count)], count)
    np.testing.assert_array_equal(made.start[: len(count)], start)
    np.testing.assert_array_equal(made.parent[: len(count)], np.repeat(parents, 2))
    sums = of_nodes(level, "hessian")[parents], splits.left_hessian[parents]
    hessian = np.stack([sums[1], sums[0] - sums[1]], axis=1).ravel()
    np.testing.assert_array_equal(made.hessian[: len(count)], hessian)
    expected = cut(start, count, policy.PIECE_ROWS)
    assert made.pieces.n_pieces.tolist() == [len(expected[0])]
    expect_pieces(made.pieces, expected)


def check_level(level: Level) -> None:
    check_search(level)
    check_children(level, check_places(level))


# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_nodes", [1, 2, 64, 65, 130, 700, 1501])
@pytest.mark.parametrize("spare", [0, 3, 900])
def test_levels_of_any_size(n_nodes: int, spare: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are up to 24 tiles of nodes in 3 chunks, and spare capacity for more."""
    few_threads(monkeypatch)
    monkeypatch.setattr(policy, "PIECE_ROWS", 16)
    check_level(random_level(ShimRuntime(order_seed=n_nodes), n_nodes, spare, 16))


@pytest.mark.parametrize("flavour", ["race", "undefined", "guard"])
def test_chunks_are_sound(flavour: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few_threads(monkeypatch)
    monkeypatch.setattr(policy, "PIECE_ROWS", 16)
    runtime = ShimRuntime(flavour, order_seed=5)
    for n_nodes, spare in ((3, 0), (40, 0), (300, 50)):
        check_level(random_level(runtime, n_nodes, spare, 16))
    assert set(runtime.launches) == POLICY_KERNELS - {"cut_roots"}


def test_levels_with_tiles_of_full_size() -> None:
    """Tiles have the size that they have on a GPU; some nodes have many pieces."""
    runtime = ShimRuntime(order_seed=3)
    check_level(random_level(runtime, 5200, 1000, policy.PIECE_ROWS, heavy=0.0))
    check_level(random_level(runtime, 300, 0, policy.PIECE_ROWS, heavy=0.5))
    assert set(runtime.launches) == POLICY_KERNELS - {"cut_roots", "place_rows"}


@pytest.mark.parametrize("n_roots", [1, 63, 200])
def test_roots_of_many_pieces(n_roots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    few_threads(monkeypatch)
    monkeypatch.setattr(policy, "PIECE_ROWS", 16)
    level = random_level(ShimRuntime(order_seed=2), n_roots, 0, 16, heavy=0.5)
    pieces = level.frontier.pieces
    expected = tuple(array[: level.n_pieces].copy() for array in (pieces.slot, pieces.first))
    rows = pieces.rows[: level.n_pieces].copy()
    for array in (pieces.slot, pieces.first, pieces.rows, pieces.n_pieces):
        array[:] = -1
    level.policy.cut_roots(level.frontier)
    assert pieces.n_pieces.tolist() == [level.n_pieces]
    expect_pieces(pieces, (*expected, rows))


@pytest.mark.parametrize(
    "target",
    [
        "two classes",
        pytest.param("five classes", marks=pytest.mark.slow),
        pytest.param("outputs", marks=pytest.mark.slow),
    ],
)
def test_every_step_of_many_chunks(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few_threads(monkeypatch)
    monkeypatch.setattr(policy, "PIECE_ROWS", 2)
    runtime = ShimRuntime(order_seed=8)
    asked = problem(target, n=290, max_bins=12, n_trees=3)
    assert grow(asked, LockStepBackend(runtime))[1] == grow(asked, NumpyBackend())[1]
    assert set(runtime.launches) >= POLICY_KERNELS - {"place_rows"}


def launches_of_level(runtime: ShimRuntime, level: Level) -> Counter[str]:
    before = len(runtime.launches)
    check_level(level)
    return Counter(runtime.launches[before:])


def test_launches_of_a_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """A level takes three launches, four with many pieces, and six with many nodes."""
    few_threads(monkeypatch, few_tiles=4)
    monkeypatch.setattr(policy, "PIECE_ROWS", 16)
    runtime = ShimRuntime()
    few = launches_of_level(runtime, random_level(runtime, 20, 0, 16))
    pieces = launches_of_level(runtime, random_level(runtime, 200, 0, 16))
    nodes = launches_of_level(runtime, random_level(runtime, 4, 300, 16))
    assert set(few) == {"open_nodes", "place_rows", "make_children"}
    assert set(pieces) == {"open_nodes", "place_nodes", "place_pieces", "make_children"}
    assert set(nodes) == {*pieces, "count_open", "count_children"}
    assert {*few.values(), *pieces.values(), *nodes.values()} == {1}


def test_grids_are_bounded() -> None:
    tile = chunks.threads_of_chunks()
    assert tile == 1024
    assert [chunks.chunks_for(n) for n in (1, 4 * tile, 4 * tile + 1)] == [1, 1, 5]
    assert chunks.chunks_for(10**9) == chunks.MAX_CHUNKS
    assert [chunks.shares_for(n, 1) for n in (0, 1, 5 * tile)] == [1, 1, 5]
    for n_chunks in (1, 7, chunks.MAX_CHUNKS):
        assert chunks.shares_for(10**9, n_chunks) == chunks.MAX_BLOCKS // n_chunks
    assert chunks.blocks_for(513, 256) == 3 and chunks.blocks_for(10**9, 256) == 1024


@pytest.mark.slow
def test_trees_do_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    few_threads(monkeypatch, max_chunks=40)
    monkeypatch.setattr(policy, "PIECE_ROWS", 2)
    asked = problem("values", "real", n=290, max_bins=12, n_trees=2)
    assert_equal_trees(asked, ShimRuntime("race", order_seed=9))
