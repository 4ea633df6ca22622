"""Runs two implementations of the level operations side by side, and compares every step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from gpuboost.backends.cuda.growth.device_task import DeviceTask, no_rounds
from gpuboost.backends.cuda.growth.level_ops import CudaLevelOps
from gpuboost.backends.cuda.level.records import DeviceFrontier, DeviceSplits
from gpuboost.backends.cuda.sampling.batch_inputs import HostInputs
from gpuboost.backends.cuda.sampling.rows import DeviceRows
from gpuboost.backends.numpy.level_ops import NumpyLevelOps
from gpuboost.engine.growth.frontier import Frontier, Splits
from gpuboost.engine.growth.level_loop import grow_levels
from gpuboost.engine.growth.policy import gains
from gpuboost.engine.targets import Target
from gpuboost.engine.task import GrownTree, GrowTask
from tests.cuda.shim_runtime import ShimRuntime
from tests.engine.exact import assert_same, assert_same_fields


def assert_same_frontier(found: DeviceFrontier, expected: Frontier, where: str) -> None:
    """Assert that device and reference have the same nodes in the same order."""
    size = int(found.size[0])
    assert size == len(expected) <= found.capacity, where
    for f in fields(expected):
        if f.name not in ("bounds", "groups", "medians"):
            own = getattr(found, f.name)[:size]
            assert_same(own, getattr(expected, f.name), f"{where}: {f.name}")
    assert_same_bounds(found, expected, where)
    assert (found.medians is None) == (expected.medians is None), where
    if found.medians is not None:
        own = np.stack([found.medians.lower[:size], found.medians.upper[:size]], axis=2)
        assert_same(own.reshape(size, -1).astype(np.int64), expected.medians, f"{where}: medians")


def assert_same_bounds(found: DeviceFrontier, expected: Frontier, where: str) -> None:
    """Assert equal bounds and groups; the device stores bounds only if nodes differ in them."""
    n_groups = expected.groups.shape[1]
    bounded = found.constraints is not None and len(found.constraints.lower) > 0
    if not bounded:
        assert all(len(np.unique(bound)) <= 1 for bound in vars(expected.bounds).values())
    if found.constraints is None:
        assert n_groups == 0
        return
    for name in ("lower", "upper") if bounded else ():
        own = getattr(found.constraints, name)[: len(expected)]
        assert_same(own + 0.0, getattr(expected.bounds, name) + 0.0, f"{where}: {name}")
    words = found.constraints.groups[: len(expected), :, None] >> np.arange(32, dtype=np.uint32)
    bits = (words & np.uint32(1)).reshape(len(expected), 32 * words.shape[1])[:, :n_groups] != 0
    assert_same(bits, expected.groups, f"{where}: groups")


OF_SPLITS = ("feature", "bin", "next_bin", "draw", "missing", "categorical", "mask")


def assert_same_splits(
    found: DeviceSplits, expected: Splits, gain: np.ndarray, accepted: np.ndarray
) -> None:
    """Assert equal splits of all accepted nodes."""
    at = np.flatnonzero(accepted)
    assert_same(found.gain[at], gain[at], "gain")
    for name in (*OF_SPLITS, "left_hessian", "left_gradient"):
        own = getattr(found, name)[at]
        own = own != 0 if name == "categorical" else own
        assert_same(own, getattr(expected, name)[at], f"splits: {name}")


def assert_same_rows(found: Any, expected: Any, frontier: Frontier, target_of: Target) -> None:
    """Assert that device and reference have the same rows in the same order.

    With more than two classes, the device sorts the rows of each node by class.
    """
    n = len(expected.row)
    order = np.arange(n)
    if target_of.n_classes > 2:
        node = np.repeat(np.arange(len(frontier)), frontier.count)
        order = np.lexsort((order, expected.label, node))
    np.testing.assert_array_equal(found.row[:n], expected.row[order], err_msg="rows")
    np.testing.assert_array_equal(found.weight[:n], expected.hessian[order], err_msg="weights")
    target = found.target[: target_of.n_channels, :n].astype(np.int64)
    if expected.label is not None:
        np.testing.assert_array_equal(target[0], expected.label[order], err_msg="labels")
    else:
        weight = 1 if target_of.has_gradients else found.weight[:n].astype(np.int64)
        gradient = target * weight
        np.testing.assert_array_equal(gradient.T, expected.gradient, err_msg="gradients")


def start_on_device(
    runtime: ShimRuntime, task: GrowTask, trees: Sequence[int]
) -> tuple[CudaLevelOps, DeviceRows, DeviceFrontier]:
    """Start a batch of trees on a device: its level operations, rows and root nodes."""
    host = HostInputs.of(task, trees)
    return CudaLevelOps.start(DeviceTask(runtime, task, no_rounds), host, host.to_device(runtime))


class LockStep:
    """`LevelOps` that calls the reference and the device, and asserts equal results.

    Rows, frontiers and all other values are pairs of the reference's and the device's.
    """

    def __init__(self, reference: NumpyLevelOps, device: CudaLevelOps) -> None:
        self.reference, self.device = reference, device

    @classmethod
    def start(
        cls, runtime: ShimRuntime, task: GrowTask, trees: Sequence[int]
    ) -> tuple[LockStep, Any, Any]:
        started = NumpyLevelOps.start(task, trees), start_on_device(runtime, task, trees)
        both, rows, frontier = zip(*started, strict=True)
        ops = cls(*both)
        assert_same_frontier(*frontier[::-1], "roots")
        ops._assert_same_rows(rows, frontier[0])
        return ops, rows, frontier

    def _assert_same_rows(self, rows: Any, frontier: Any) -> None:
        target = self.reference.task.target
        assert_same_rows(rows[1], rows[0], frontier, target)

    def set_median_gradients(self, rows: Any, frontier: Any) -> tuple[Any, Any]:
        expected = self.reference.set_median_gradients(rows[0], frontier[0])
        found = self.device.set_median_gradients(rows[1], frontier[1])
        assert_same_frontier(found[1], expected[1], "aim")
        rows, frontier = zip(expected, found, strict=True)
        self._assert_same_rows(rows, frontier[0])
        return rows, frontier

    def finished(self, frontier: Any) -> bool:
        expected = self.reference.finished(frontier[0])
        if self.device.finished(frontier[1]):
            assert expected, "the device is done and the reference is not"
        return expected

    def candidates(self, rows: Any, frontier: Any, depth: int) -> Any:
        expected = self.reference.candidates(rows[0], frontier[0], depth)
        found = self.device.candidates(rows[1], frontier[1], depth)
        size = len(frontier[0])
        np.testing.assert_array_equal(np.flatnonzero(found.open[:size]), expected.nodes)
        assert found.none <= (len(expected.nodes) == 0) and found.depth == depth
        return expected, found

    def find_splits(self, rows: Any, frontier: Any, candidates: Any) -> Any:
        expected = self.reference.find_splits(rows[0], frontier[0], candidates[0])
        found = self.device.find_splits(rows[1], frontier[1], candidates[1])
        return expected, found

    def accept(self, frontier: Any, splits: Any) -> Any:
        expected = self.reference.accept(frontier[0], splits[0])
        found = self.device.accept(frontier[1], splits[1])
        np.testing.assert_array_equal(found[: len(expected)] != 0, expected, err_msg="accepted")
        gain = gains(self.reference.task.options.criterion, splits[0], frontier[0])
        assert_same_splits(splits[1], splits[0], gain, expected)
        return expected, found

    def limit_to_best_first(self, frontier: Any, splits: Any, accepted: Any) -> Any:
        expected = self.reference.limit_to_best_first(frontier[0], splits[0], accepted[0])
        found = self.device.limit_to_best_first(frontier[1], splits[1], accepted[1])
        np.testing.assert_array_equal(found[: len(expected)] != 0, expected, err_msg="narrow")
        return expected, found

    def leaf_sums(self, rows: Any, frontier: Any, candidates: Any, accepted: Any) -> Any:
        given = zip(rows, frontier, candidates, accepted, strict=True)
        ours, theirs = given
        expected, found = self.reference.leaf_sums(*ours), self.device.leaf_sums(*theirs)
        if found is not None:
            assert_same(found[: len(expected)], expected, "leaf_sums")
        return expected, found

    def partition(
        self, rows: Any, frontier: Any, candidates: Any, *, splits: Any, accepted: Any, sums: Any
    ) -> tuple[Any, Any]:
        ours, theirs = zip(rows, frontier, candidates, strict=True)
        found = {"splits": splits, "accepted": accepted, "sums": sums}
        our_splits, their_splits = ({name: own[i] for name, own in found.items()} for i in (0, 1))
        expected = self.reference.partition(*ours, **our_splits)
        rows, frontier = zip(expected, self.device.partition(*theirs, **their_splits), strict=True)
        if frontier[1].capacity:
            assert_same_frontier(frontier[1], frontier[0], "partition")
            self._assert_same_rows(rows, frontier[0])
        return rows, frontier

    def end_batch(self) -> list[GrownTree]:
        expected, found = self.reference.end_batch(), self.device.end_batch().trees()
        for own, tree in zip(found, expected, strict=True):
            assert_same_fields(own, tree, "tree")
        return expected


@dataclass
class LockStepBackend:
    """Grows all trees of a task in one batch with `LockStep`."""

    runtime: ShimRuntime

    def grow(self, task: GrowTask) -> Iterator[tuple[int, GrownTree]]:
        """Grow the trees of ``task``."""
        ops = grow_levels(partial(LockStep.start, self.runtime, task, task.trees), task)
        yield from zip(task.trees, ops.end_batch(), strict=True)
