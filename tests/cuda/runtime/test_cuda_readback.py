"""Readbacks of a batch in one copy, and the trees that are cut from the copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpuboost.backends.cuda.boosting.boosted_round import BoostedRound, read_round
from gpuboost.backends.cuda.growth.pending_round import CopiedTrees
from gpuboost.backends.cuda.runtime.readback import HostCopy, Readback
from gpuboost.engine.ensembles.boosting_task import RoundLosses
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.tree import TREE_TYPES, Tree
from tests.cuda.shim_runtime import ShimRuntime
from tests.engine.exact import assert_same_fields

COLUMNS: dict[str, Any] = {
    "losses": (np.int64, (2, 3)),
    "flags": (np.uint8, (5,)),
    "none": (np.float64, (0,)),
    "value": (np.float64, (5, 2)),
}


class Apart:
    """An array module in which every array has its own memory."""

    separate = True
    uint8 = np.uint8
    empty = staticmethod(np.empty)


class Counting(ShimRuntime):
    """Counts the reads."""

    reads = 0

    def read_later(self, array: np.ndarray) -> Callable[[], np.ndarray]:
        self.reads += 1
        return super().read_later(array)


class Pinned(ShimRuntime):
    """Returns the memory that was copied to, without another copy, as on a GPU."""

    memory: np.ndarray

    def read_later(self, array: np.ndarray) -> Callable[[], np.ndarray]:
        self.memory = array.copy()
        return lambda: self.memory


@pytest.mark.parametrize("xp", [np, Apart])
def test_arrays_are_copied_as_they_were(xp: Any) -> None:
    runtime, rng = Counting(), np.random.default_rng(0)
    readback = Readback(xp, COLUMNS)
    for array in readback.arrays.values():
        array[...] = rng.integers(0, 100, array.shape)
    before = {name: array.copy() for name, array in readback.arrays.items()}
    read = readback.read_later(runtime)
    for array in readback.arrays.values():
        array[...] = 0
    found = read()
    assert runtime.reads == (1 if xp is np else len(COLUMNS))
    for name, array in before.items():
        np.testing.assert_array_equal(found.part(name, 0, len(array)), array)
        half = len(array) // 2
        np.testing.assert_array_equal(found.part(name, half, len(array)), array[half:])
    few = found.kept({"value": 2, "flags": 3})
    assert "value" in few.names and few.kept({}) is few
    np.testing.assert_array_equal(few.part("value", 0, 2), before["value"][:2])
    np.testing.assert_array_equal(few.part("flags", 0, 3), before["flags"][:3])


def stumps(rng: np.random.Generator, categorical: bool) -> list[Tree]:
    """Two trees with arrays of random values."""
    sizes: list[tuple[int, int]] = [(3, 1), (1, 0)] if categorical else [(3, 0), (1, 0)]
    trees = []
    for n_nodes, n_masks in sizes:
        own: dict[str, Any] = {}
        own |= {name: rng.integers(0, 2, n_nodes).astype(kind) for name, kind in TREE_TYPES.items()}
        own["value"] = rng.normal(size=(n_nodes, 2))
        own["masks"] = rng.integers(0, 99, (n_masks, 8)).astype(np.uint32)
        if not categorical:
            own["category"] = np.full(n_nodes, -1, dtype=np.int32)
        trees.append(Tree(**own))
    return trees


@pytest.mark.parametrize("spare", [0, 1, 1000])
@pytest.mark.parametrize("categorical", [False, True])
def test_trees_are_cut_on_demand(categorical: bool, spare: int) -> None:
    """Trees are copies of the nodes, and do not refer to the memory that was read."""
    trees = stumps(np.random.default_rng(1), categorical)
    whole, columns, arrays = Ensemble.of(trees), dict[str, Any](), {}
    kinds = {**TREE_TYPES, "code": np.uint8, "missing_left": np.uint8, "count": np.uint32}
    if not categorical:
        del kinds["category"], kinds["masks"]
    for name, kind in kinds.items():
        own = getattr(whole, name).astype(kind)
        own = np.concatenate([own, np.zeros((spare, *own.shape[1:]), kind)])
        arrays[name], columns[name] = own, (kind, own.shape)
    arrays["table"] = np.array([whole.offset, whole.mask_offset, [7, 9, 0]])
    readback, used = Readback(np, {"table": (np.int64, (3, 3)), **columns}), 0
    for name, array in readback.arrays.items():
        array[...] = arrays[name]
    runtime = Pinned()
    copy = readback.read_later(runtime)()
    nodes, masks, weights = copy.part("table", 0, 3).tolist()
    found = CopiedTrees(copy, nodes, masks)
    runtime.memory.fill(0xA5)  # the memory is used again
    for name in kinds:
        n_bytes = getattr(whole, name).astype(kinds[name]).nbytes
        used += -(-n_bytes // 8) * 8
    assert weights == [7, 9, 0]
    for number, tree in enumerate(trees):
        asked = found.tree(number)
        assert_same_fields(Ensemble.of([asked]).trees[0], tree, "tree")
        held: Any = asked.value
        while getattr(held, "base", None) is not None:
            held = held.base
        assert len(held) == (used if spare == 1000 else readback.n_bytes)


def test_a_cut_is_a_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cutting trees makes one view of each array."""
    calls: list[str] = []
    whole = Ensemble.of(stumps(np.random.default_rng(2), categorical=True))

    part = HostCopy.part

    def told(self: HostCopy, name: str, first: int, end: int) -> np.ndarray:
        calls.append(name)
        return part(self, name, first, end)

    monkeypatch.setattr(HostCopy, "part", told)
    arrays = {name: getattr(whole, name) for name in TREE_TYPES}
    arrays["table"] = np.array([whole.offset, whole.mask_offset, [1, 1, 0]])
    arrays["losses"] = np.zeros((1, 12), np.int64)
    losses = RoundLosses(0.0, None, ())
    _, read_trees = read_round(lambda: HostCopy.of(arrays), losses, ValueError)
    assert calls == ["table"]
    read_trees()
    assert sorted(calls[1:]) == sorted([*TREE_TYPES] * whole.n_trees)


def test_a_round_without_rows_raises_every_time() -> None:
    arrays = {"losses": np.zeros((1, 2), np.int64), "table": np.zeros((3, 2), np.int64)}
    losses = RoundLosses(0.0, None, ())
    given = (lambda: HostCopy.of(arrays), losses, lambda: ValueError("no weight"))
    late = BoostedRound(lambda: read_round(*given))
    for _ in range(2):
        with pytest.raises(ValueError, match="no weight"):
            late.results()
        with pytest.raises(ValueError, match="no weight"):
            late.read()
