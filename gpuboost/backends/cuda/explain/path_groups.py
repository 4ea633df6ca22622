"""Edges of trees on the device, as the kernels of explain/ read them: groups of `PathTree`.

The tables of a group are several records; each kernel needs some of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.backends.packed import PackedEnsembles
from gpuboost.engine.explanations.additive import AdditiveModel
from gpuboost.engine.explanations.path_trees import PathTree, bytes_per_edge
from gpuboost.engine.explanations.quadrature import shapley_weights
from gpuboost.engine.growth.frontier import Array

GROUP_BYTES = 1 << 26  # of the edges that are on the device together, unless one tree has more
# Flags of an edge; see paths.cuh.
_TO_LEFT_CHILD, _SENDS_MISSING_LEFT, _SPLITS_CATEGORIES = 1, 2, 4


@dataclass(frozen=True, eq=False)
class PathGroup:
    """The E edges of T trees, which are consecutive.

    Attributes
    ----------
    offset : int32 (T + 1,)
        First edge of each tree, then the end of the last tree.
    first_output : int32 (T,)
    edges : uint32 (E, 8)
        Records; see paths.cuh.
    masks : uint32 (c, 8)
        Sets of codes that go left; one unused row if no split is categorical.
    value : float64 (E, n_values)
    max_depth : int
    """

    offset: Array
    first_output: Array
    edges: Array
    masks: Array
    value: Array
    max_depth: int

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.first_output)

    @property
    def n_values(self) -> int:
        """Number of values of a leaf."""
        return self.value.shape[1]

    @classmethod
    def of(cls, runtime: Runtime, trees: list[PathTree], n_points: int) -> PathGroup:
        """Copy to the device."""
        masks = _join(trees, "masks")
        return cls(
            offset=runtime.asarray(_starts([tree.n_edges for tree in trees]).astype(np.int32)),
            first_output=runtime.asarray(np.array([t.first_output for t in trees], np.int32)),
            edges=runtime.asarray(_records(trees)),
            masks=runtime.asarray(masks if len(masks) else np.zeros((1, 8), np.uint32)),
            value=runtime.asarray(_join(trees, "value")),
            max_depth=max(tree.max_depth for tree in trees),
        )


@dataclass(frozen=True, eq=False)
class PathFactors:
    """`PathTree.ratio` and `PathTree.step` of a group: float64 (E, N_CODES, n_points)."""

    ratio: Array
    step: Array

    @classmethod
    def of(cls, runtime: Runtime, trees: list[PathTree], n_points: int) -> PathFactors:
        """Copy to the device, filled up with zeros to ``n_points`` points."""
        found = (_points_last(trees, name, n_points) for name in ("ratio", "step"))
        return cls(*map(runtime.asarray, found))


@dataclass(frozen=True, eq=False)
class PathPairs:
    """What interactions need of a group.

    Attributes
    ----------
    marginal : float64 (E, 2, n_points)
    last : int32 (E, n_last)
        The last edges of each feature on the path to an edge, and the edge itself; then -1.
    """

    marginal: Array
    last: Array

    @property
    def n_last(self) -> int:
        """Largest number of features on a path."""
        return self.last.shape[1]

    @classmethod
    def of(cls, runtime: Runtime, trees: list[PathTree], n_points: int) -> PathPairs:
        """Copy to the device, filled up with zeros to ``n_points`` points."""
        marginal = _points_last(trees, "marginal", n_points)
        return cls(runtime.asarray(marginal), runtime.asarray(_last_edges(trees)))


@dataclass(frozen=True, eq=False)
class PathWeights:
    """What interventional values need of a group: `PathTree.stop`, `shapley_weights`."""

    stop: Array
    weights: Array

    @property
    def pitch(self) -> int:
        """Length of a row of the weights."""
        return self.weights.shape[1]

    @classmethod
    def of(cls, runtime: Runtime, trees: list[PathTree], n_points: int) -> PathWeights:
        """Copy to the device."""
        weights = shapley_weights(2 * max(tree.n_points for tree in trees))
        return cls(runtime.asarray(_stops(trees)), runtime.asarray(weights))


_groups: PackedEnsembles[list[tuple[int, list[Any]]]] = PackedEnsembles()


def device_groups(
    runtime: Runtime, model: AdditiveModel, *tables: type[Any]
) -> Iterable[tuple[int, list[Any]]]:
    """The trees of a model on the device, in groups.

    If the model keeps its trees, the groups stay on the device until the model or the runtime is
    freed. Other threads can use them on streams that do not wait for the current one, so they are
    complete before they are stored.

    Parameters
    ----------
    runtime : Runtime
    model : AdditiveModel
    *tables : classes of this module
        The records besides `PathGroup`.

    Returns
    -------
    iterable of (n_points, records)
        The number of points of the records, 0 without `PathFactors`; and the records of a group.
    """

    kinds: tuple[type[Any], ...] = (PathGroup, *tables)

    def load() -> Iterator[tuple[int, list[Any]]]:
        for n_points, trees in tree_groups(model, PathFactors in tables):
            yield n_points, [kind.of(runtime, trees, n_points) for kind in kinds]

    def pack() -> list[tuple[int, list[Any]]]:
        found = list(load())
        for _, records in found[-1:]:
            runtime.to_host(records[0].offset)  # waits for all earlier work of this stream
        return found

    return _groups.of((runtime, model), tables, pack) if model.keeps_trees else load()


def tree_groups(model: AdditiveModel, by_points: bool) -> Iterator[tuple[int, list[PathTree]]]:
    """Yield groups of trees of at most `GROUP_BYTES`, unless a single tree has more.

    Trees without edges are left out. With ``by_points``, all trees of a group have about the same
    number of points, which is rounded up to that of the group; otherwise, this number is 0.
    """
    groups: dict[int, list[PathTree]] = {}
    n_bytes: dict[int, int] = {}
    for number in range(model.ensemble.n_trees):
        tree = model.path_tree(number)
        if tree.n_edges == 0:
            continue
        n_points = _rounded_up(tree.n_points) if by_points else 0
        added = tree.n_edges * bytes_per_edge(2 * tree.n_points, tree.value.shape[1])
        if n_points in groups and n_bytes[n_points] + added > GROUP_BYTES:
            yield n_points, groups.pop(n_points)
        n_bytes[n_points] = added + (n_bytes[n_points] if n_points in groups else 0)
        groups.setdefault(n_points, []).append(tree)
    yield from groups.items()


def _rounded_up(n_points: int) -> int:
    """A number of points that kernels are compiled for: 1, 2, 3, 4, 6, 8, 12, 16, 24, ..."""
    unit = 1 << max(0, n_points.bit_length() - 2)
    return -(-n_points // unit) * unit


def _join(trees: list[PathTree], name: str) -> np.ndarray:
    return np.concatenate([getattr(tree, name) for tree in trees])


def _starts(lengths: list[int]) -> np.ndarray:
    """Sums of the lengths before each item, and of all."""
    return np.cumsum([0, *lengths])


def _stops(trees: list[PathTree]) -> np.ndarray:
    """`PathTree.stop`, numbered in the group: int32 (E,)."""
    starts = _starts([tree.n_edges for tree in trees])[:-1]
    stops = [tree.stop + start for tree, start in zip(trees, starts, strict=True)]
    return np.concatenate(stops).astype(np.int32)


def _edges_above(trees: list[PathTree]) -> np.ndarray:
    """The edge to the parent of each edge, numbered in the group; unspecified at depth 1: (E,)."""
    left = np.flatnonzero(_join(trees, "is_left"))
    above = np.empty(sum(tree.n_edges for tree in trees), dtype=np.int32)
    above[left] = above[_stops(trees)[left]] = left - 1  # a right child follows its sibling's edges
    return above


def _records(trees: list[PathTree]) -> np.ndarray:
    """Records of all edges: uint32 (E, 8)."""
    column, depth, previous, feature, n_closed, category = (
        _join(trees, name)
        for name in ("column", "depth", "previous", "feature", "n_closed", "category")
    )
    flags = np.where(_join(trees, "is_left"), _TO_LEFT_CHILD, 0)
    flags |= np.where(_join(trees, "missing_left"), _SENDS_MISSING_LEFT, 0)
    flags |= np.where(category >= 0, _SPLITS_CATEGORIES, 0)
    word = flags | n_closed << constant("explain/paths.cuh", "EDGE_FLAG_BITS")
    found = np.empty((len(depth), constant("explain/paths.cuh", "EDGE_WORDS")), np.uint32)
    found[:, :2] = _join(trees, "threshold").view(np.uint32).reshape(-1, 2)
    found[:, 2:] = np.stack([column, depth, previous, word, feature, _edges_above(trees)], axis=1)
    first_mask = _starts([len(tree.masks) for tree in trees])[:-1]
    mask = category + np.repeat(first_mask, [tree.n_edges for tree in trees])
    found[category >= 0, 0] = mask[category >= 0]
    return found


def _points_last(trees: list[PathTree], name: str, n_points: int) -> np.ndarray:
    """A table of the trees with the points as its last axis, filled up with zeros."""
    tables = [getattr(tree, name).swapaxes(1, 2) for tree in trees]
    found = np.zeros((sum(map(len, tables)), tables[0].shape[1], n_points))
    start = 0
    for table in tables:
        found[start : start + len(table), :, : table.shape[2]] = table
        start += len(table)
    return found


def _last_edges(trees: list[PathTree]) -> np.ndarray:
    """`PathPairs.last`, made level by level."""
    depth, previous, above = _join(trees, "depth"), _join(trees, "previous"), _edges_above(trees)
    width = min(int(depth.max()), 2 * max(tree.n_points for tree in trees))
    last = np.full((len(depth), width), -1, dtype=np.int32)
    for level in range(1, int(depth.max()) + 1):
        own = np.flatnonzero(depth == level)
        if level > 1:
            last[own] = last[above[own]]
        is_there = last[own] >= 0
        is_same = is_there & (depth[last[own]] == previous[own, None])  # the same feature
        n_there = is_there.sum(axis=1)
        last[own, np.where(previous[own] > 0, is_same.argmax(axis=1), n_there)] = own
    return last
