"""Best-first growth on the device: the launches of best_first.cu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.filling import full, zeros
from gpuboost.backends.cuda.level import allocate
from gpuboost.backends.cuda.source import constant
from gpuboost.engine.spec import NO_LIMIT

if TYPE_CHECKING:
    from gpuboost.backends.cuda.level import Columns, DeviceFrontier, DeviceSplits
    from gpuboost.backends.cuda.runtime import Runtime
    from gpuboost.engine.frontier import Array
    from gpuboost.engine.spec import TreeOptions


@dataclass(frozen=True)
class Ends:
    """What became of the nodes of all levels, by their numbers.

    Attributes
    ----------
    leaf : int32 (m,)
        The leaf that a node lies in, most often itself.
    inner : uint8 (m,)
        0 of leaves.
    """

    leaf: Array
    inner: Array


class SplitQueue:
    """The queues of the trees of a batch: which splits ``max_leaf_nodes`` takes.

    Parameters
    ----------
    runtime : Runtime
    options : TreeOptions
    n_trees, n_rows : int
        Trees of the batch, and rows of all of them.
    n_numbers : int
        Nodes that all levels have room for, if `ends` will be asked for; else 0.
    """

    def __init__(
        self, runtime: Runtime, options: TreeOptions, n_trees: int, n_rows: int, n_numbers: int
    ) -> None:
        self._runtime, self._n_trees, self._n_numbers = runtime, n_trees, n_numbers
        self._most = max(1, min(options.max_leaf_nodes - 1, n_rows))
        shape = (n_trees, self._most)
        types = {"rise": np.float64, "key": np.uint64, "node": np.int32}
        order: Columns = {name: (dtype, shape) for name, dtype in types.items()}
        self._before, self._after = (allocate(runtime.xp, order) for _ in range(2))
        self._turn = runtime.xp.empty(shape, dtype=np.int32)
        self._length = zeros(runtime, n_trees, np.int32)
        none = constant("best_first.cu", "NO_NODE")
        self._parent = full(runtime, max(1, n_numbers), none, np.int32)
        self._next = 0  # number of the first node of the next level

    @classmethod
    def of(cls, runtime: Runtime, options: TreeOptions, *sizes: int) -> SplitQueue | None:
        """Those of a batch; None where trees do not grow best first. ``sizes``: the others."""
        if options.max_leaf_nodes == NO_LIMIT:
            return None
        return cls(runtime, options, *sizes)

    def narrow(self, frontier: DeviceFrontier, splits: DeviceSplits) -> Array:
        """Let ``splits.accepted`` be the splits that are taken as far as nodes are known."""
        slot, place = (self._runtime.xp.empty(frontier.most, dtype=np.int32) for _ in range(2))
        args = (
            *(frontier.size, frontier.tree, frontier.key, splits.rise, splits.accepted),
            *(np.int32(self._next), np.int32(self._most), self._length),
            *(*self._before.values(), *self._after.values(), self._turn, slot, place),
            *(np.int32(self._n_numbers > 0), self._parent),
        )
        self._launch("take_splits", self._n_trees, args)
        self._before, self._after = self._after, self._before
        self._next += frontier.most
        return splits.accepted

    def ends(self, left: Array | None = None, sums: Array | None = None) -> Ends:
        """What became of all nodes, when the last level is grown.

        Parameters
        ----------
        left : int32 (m,), optional
            Left children, by numbers: 0 is written for leaves.
        sums : int64 (m, P), optional
            Of the rows that stopped in each node: those of leaves get all.
        """
        runtime, n = self._runtime, self._n_numbers
        is_split = zeros(runtime, n, np.uint8)
        order = self._before["node"]
        self._launch(
            "mark_splits", self._n_trees, (self._length, order, np.int32(self._most), is_split)
        )
        found = Ends(runtime.xp.empty(n, dtype=np.int32), runtime.xp.empty(n, dtype=np.uint8))
        n_sums = np.int32(0 if sums is None else sums.shape[1])
        out = (found.leaf, found.inner, self._parent if left is None else left)
        args = (np.int32(n), self._parent, is_split, np.int32(left is not None), n_sums, *out)
        added = self._before["key"].view(np.int64) if sums is None else sums
        self._over_numbers("find_ends", (*args, added))
        return found

    def hand_values(self, ends: Ends, value: Array) -> None:
        """Give nodes the values of their leaves: float64 (m, K)."""
        sizes = np.int32(self._n_numbers), np.int32(value.shape[1])
        self._over_numbers("hand_values", (sizes[0], ends.leaf, sizes[1], value))

    def _over_numbers(self, name: str, args: tuple[Any, ...]) -> None:
        threads = constant("best_first.cu", "QUEUE_THREADS")
        self._launch(name, -(-self._n_numbers // threads), args)

    def _launch(self, name: str, n_blocks: int, args: tuple[Any, ...]) -> None:
        threads = constant("best_first.cu", "QUEUE_THREADS")
        self._runtime.kernel("best_first.cu", name, {})((n_blocks,), (threads,), args)
