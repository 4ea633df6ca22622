"""The nodes of one level of a batch of trees, and their splits."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from gpuboost.engine.growth.constraints import NodeBounds
from gpuboost.engine.task import LEAF

Array = Any  # an array of the backend's module: numpy.ndarray or cupy.ndarray


@dataclass(frozen=True)
class Frontier:
    """Nodes of one depth, ordered by tree, then left to right; CUDA has a class `DeviceFrontier`.

    The rows of node i are the ``count[i]`` rows from position ``start[i]`` of the partitioned rows:

        rows  | node 0 ....... | node 1 ... | node 2 ......... |
                start[0]         start[1]     start[2]

    Attributes
    ----------
    tree : int32 (m,)
        Position of the node's tree in the batch.
    key : uint64 (m,)
        Hash of the root's key and the path (left or right at each split) to the node.
    start, count : int64 (m,)
        First position and number of the node's rows.
    hessian : int64 (m,)
        Sum of the rows' hessians.
    gradient : int64 (m, n_channels)
        Sums of the rows' gradients.
    bounds : NodeBounds
        Bounds on the node's values, which only NEWTON uses.
    groups : bool (m, G)
        Mask of the G interaction groups that contain all features split on above the node; G = 0
        without groups.
    medians : int64 (m, 2 n_channels) or None
        Ranks of the two middle targets of each output; None unless gradients are signs about the
        medians of nodes.
    """

    tree: Array
    key: Array
    start: Array
    count: Array
    hessian: Array
    gradient: Array
    bounds: NodeBounds
    groups: Array
    medians: Array | None = None

    def __len__(self) -> int:
        return len(self.tree)

    def take(self, nodes: Array) -> Frontier:
        """The frontier of the given nodes; rows are not moved."""
        columns = {f.name: getattr(self, f.name) for f in fields(self)}
        return type(self)(**{name: own[nodes] for name, own in columns.items() if own is not None})


@dataclass(frozen=True)
class Splits:
    """The best split of each node of a frontier; ``score`` is negative where there is none.

    Attributes
    ----------
    score : float64 (m,)
        Score of the split; with VARIANCE, this is the gain times the node's hessian.
    rank : uint64 (m,)
        Sort key of the feature in the node's order; of equal scores, the lower rank wins.
    feature : int32 (m,)
        Feature of the split, `LEAF` without one.
    bin, next_bin, draw, missing : int16, int16, float64 and int8 (m,)
        As in `task.GrownTree`.
    left_hessian : int64 (m,)
        Sum of the hessians of the left child.
    left_gradient : int64 (m, n_channels)
        Sums of the gradients of the left child.
    categorical : bool (m,)
        Whether the feature is categorical.
    mask : uint32 (m, 16)
        As in `task.GrownTree.masks`; (m, 0) if no feature is categorical.
    """

    score: Array
    rank: Array
    feature: Array
    bin: Array
    next_bin: Array
    draw: Array
    missing: Array
    left_hessian: Array
    left_gradient: Array
    categorical: Array
    mask: Array

    @classmethod
    def none(cls, m: int, n_channels: int, mask_words: int) -> Splits:
        """The entries of m nodes for which no split has been found yet."""
        return cls(
            score=np.full(m, -1.0),
            rank=np.full(m, 2**64 - 1, dtype=np.uint64),
            feature=np.full(m, LEAF, dtype=np.int32),
            bin=np.zeros(m, dtype=np.int16),
            next_bin=np.zeros(m, dtype=np.int16),
            draw=np.full(m, float("nan")),
            missing=np.zeros(m, dtype=np.int8),
            left_hessian=np.zeros(m, dtype=np.int64),
            left_gradient=np.zeros((m, n_channels), dtype=np.int64),
            categorical=np.zeros(m, dtype=bool),
            mask=np.zeros((m, mask_words), dtype=np.uint32),
        )

    def put(self, nodes: Array, found: Splits, chosen: Array) -> None:
        """Overwrite the splits of ``nodes[chosen]`` with ``found[chosen]``, in place."""
        to = nodes[chosen]
        for f in fields(self):
            getattr(self, f.name)[to] = getattr(found, f.name)[chosen]

    def set_better(self, nodes: Array, found: Splits) -> None:
        """Replace, in place, the splits of ``nodes`` that lose against the splits ``found``.

        The higher score wins; of equal scores, the lower rank.
        """
        score = self.score[nodes]
        tie = (found.score == score) & (found.rank < self.rank[nodes]) & (score >= 0.0)
        self.put(nodes, found, (found.score > score) | tie)
