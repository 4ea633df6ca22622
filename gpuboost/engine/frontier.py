"""The nodes of one level of a batch of trees, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from gpuboost.engine.spec import LEAF, NO_LIMIT, TreeOptions

Array = Any  # an array of the backend's module: numpy.ndarray or cupy.ndarray


@dataclass(frozen=True)
class Frontier:
    """Nodes of one depth, ordered by tree, then left to right.

    Their rows lie one after the other, ``count[i]`` of them from ``start[i]``:

        rows  | node 0 ....... | node 1 ... | node 2 ......... |
                start[0]         start[1]     start[2]

    Attributes
    ----------
    tree : int32 (m,)
        Position of the node's tree in the batch.
    key : uint64 (m,)
        Hash chain of the turns from the root.
    start, count : int64 (m,)
    hessian : int64 (m,)
    gradient : int64 (m, K)
    """

    tree: Array
    key: Array
    start: Array
    count: Array
    hessian: Array
    gradient: Array

    def __len__(self) -> int:
        return len(self.tree)

    def take(self, nodes: Array) -> Frontier:
        """The given nodes; their rows stay where they are."""
        return type(self)(*(getattr(self, f.name)[nodes] for f in fields(self)))


@dataclass(frozen=True)
class Splits:
    """The best split of each node of a frontier; ``gain`` is negative where there is none.

    Attributes
    ----------
    gain : float64 (m,)
        As `scores` give it: SQUARES still times the node's hessian.
    rank : uint64 (m,)
        `randomness.feature_rank` of the feature: of equal gains the smaller wins.
    feature : int32 (m,)
    bin, next_bin : int16 (m,)
    draw : float64 (m,)
    missing : int8 (m,)
    left_hessian : int64 (m,)
    left_gradient : int64 (m, K)
    categorical : bool (m,)
    mask : uint32 (m, 16)
        As `spec.GrownTree.masks`; (m, 0) where no feature is categorical.
    """

    gain: Array
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
    def none(cls, xp: Any, m: int, n_channels: int, mask_words: int) -> Splits:
        """No split yet for each of m nodes."""
        return cls(
            gain=xp.full(m, -1.0),
            rank=xp.full(m, 2**64 - 1, dtype=xp.uint64),
            feature=xp.full(m, LEAF, dtype=xp.int32),
            bin=xp.zeros(m, dtype=xp.int16),
            next_bin=xp.zeros(m, dtype=xp.int16),
            draw=xp.full(m, float("nan")),
            missing=xp.zeros(m, dtype=xp.int8),
            left_hessian=xp.zeros(m, dtype=xp.int64),
            left_gradient=xp.zeros((m, n_channels), dtype=xp.int64),
            categorical=xp.zeros(m, dtype=bool),
            mask=xp.zeros((m, mask_words), dtype=xp.uint32),
        )

    def put(self, nodes: Array, found: Splits, chosen: Array) -> None:
        """Overwrite the splits of ``nodes[chosen]`` by ``found[chosen]``, in place."""
        to = nodes[chosen]
        for f in fields(self):
            getattr(self, f.name)[to] = getattr(found, f.name)[chosen]

    def keep_better(self, nodes: Array, found: Splits) -> None:
        """Let ``found``, splits of ``nodes``, replace what they beat, in place."""
        gain = self.gain[nodes]
        tie = (found.gain == gain) & (found.rank < self.rank[nodes]) & (gain >= 0.0)
        self.put(nodes, found, (found.gain > gain) | tie)

    def dropped(self, xp: Any, accepted: Array) -> Splits:
        """The same splits, none where ``accepted`` is False."""
        return replace(
            self,
            gain=xp.where(accepted, self.gain, 0.0),
            feature=xp.where(accepted, self.feature, LEAF).astype(xp.int32),
            categorical=self.categorical & accepted,
        )


def may_split(frontier: Frontier, depth: int, options: TreeOptions, min_hessian: Array) -> Array:
    """Policy before any search: which nodes are large and shallow enough. bool (m,)."""
    smallest = max(options.min_samples_split, 2 * options.min_samples_leaf)
    large = (frontier.count >= smallest) & (frontier.hessian >= 2 * min_hessian[frontier.tree])
    return large & (depth < options.max_depth if options.max_depth != NO_LIMIT else True)
