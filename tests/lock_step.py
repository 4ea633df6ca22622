"""Two implementations of the level operations grown side by side, compared at every step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from gpuboost.backends.cuda import CudaLevelOps
from gpuboost.backends.numpy.level_ops import NumpyLevelOps
from gpuboost.engine.frontier import Frontier, Splits
from gpuboost.engine.level_loop import grow_levels
from gpuboost.engine.spec import GrownTree, GrowTask
from tests.shim_runtime import ShimRuntime


def assert_same(found: Any, expected: Any, where: str) -> None:
    """Equal arrays of one dtype, to the last bit (NaN equals NaN)."""
    assert found.dtype == expected.dtype, f"{where}: {found.dtype} is not {expected.dtype}"
    np.testing.assert_array_equal(found, expected, err_msg=where)
    if found.dtype == np.float64:
        known = ~np.isnan(found)
        bits = [np.ascontiguousarray(a[known]).view(np.uint64) for a in (found, expected)]
        np.testing.assert_array_equal(*bits, err_msg=where)


def assert_same_fields(found: Any, expected: Any, where: str) -> None:
    """Equal arrays in every field of two dataclasses."""
    for f in fields(expected):
        assert_same(getattr(found, f.name), getattr(expected, f.name), f"{where}: {f.name}")


def assert_same_rows(found: Any, expected: Any) -> None:
    """The device's rows and the reference's: the same, in the same order."""
    np.testing.assert_array_equal(found.row, expected.row, err_msg="rows")
    np.testing.assert_array_equal(found.weight, expected.hessian, err_msg="weights")
    if expected.label is not None:
        np.testing.assert_array_equal(found.target[0], expected.label, err_msg="labels")
    else:
        gradient = found.target.astype(np.int64) * found.weight.astype(np.int64)
        np.testing.assert_array_equal(gradient.T, expected.gradient, err_msg="gradients")


class LockStep:
    """`LevelOps` that asks the reference and the device, and demands equal answers."""

    xp = np

    def __init__(self, runtime: ShimRuntime, task: GrowTask) -> None:
        self.reference = NumpyLevelOps(task)
        self.device = CudaLevelOps(runtime, task)

    def to_host(self, array: np.ndarray) -> np.ndarray:
        return array

    def roots(self, trees: Sequence[int]) -> tuple[Any, Frontier]:
        expected, frontier = self.reference.roots(trees)
        found, other = self.device.roots(trees)
        assert_same_fields(other, frontier, "roots")
        assert_same_rows(found, expected)
        return (expected, found), frontier

    def is_pure(self, rows: Any, frontier: Frontier) -> np.ndarray:
        expected = self.reference.is_pure(rows[0], frontier)
        assert_same(self.device.is_pure(rows[1], frontier), expected, "is_pure")
        return expected

    def find_splits(self, rows: Any, frontier: Frontier, open_nodes: np.ndarray) -> Splits:
        expected = self.reference.find_splits(rows[0], frontier, open_nodes)
        found = self.device.find_splits(rows[1], frontier, open_nodes)
        assert_same_fields(found, expected, "find_splits")
        return expected

    def leaf_sums(self, rows: Any, frontier: Frontier, leaves: np.ndarray) -> np.ndarray:
        expected = self.reference.leaf_sums(rows[0], frontier, leaves)
        assert_same(self.device.leaf_sums(rows[1], frontier, leaves), expected, "leaf_sums")
        return expected

    def partition(
        self, rows: Any, frontier: Frontier, splits: Splits, accepted: np.ndarray
    ) -> tuple[Any, Frontier]:
        expected, children = self.reference.partition(rows[0], frontier, splits, accepted)
        found, other = self.device.partition(rows[1], frontier, splits, accepted)
        assert_same_fields(other, children, "partition")
        assert_same_rows(found, expected)
        return (expected, found), children


@dataclass
class LockStepBackend:
    """Grows all trees of a task in one batch, comparing the two implementations all the way."""

    runtime: ShimRuntime

    def grow(self, task: GrowTask) -> Iterator[tuple[int, GrownTree]]:
        """Grow the trees of ``task``."""
        grown = grow_levels(LockStep(self.runtime, task), task, task.trees)
        yield from zip(task.trees, grown, strict=True)
