"""Nodes of trees by their places: of leaves.cu and placed.cuh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.level import allocate
from gpuboost.backends.cuda.source import constant

if TYPE_CHECKING:
    from gpuboost.backends.cuda.rounds import LevelSplits
    from gpuboost.backends.cuda.runtime import Runtime
    from gpuboost.data.bins import BinMapper
    from gpuboost.engine.frontier import Array
    from gpuboost.engine.tree import Tree


@dataclass(frozen=True)
class PlacedNodes:
    """The nodes of all levels, by their places; see ``keep_nodes`` of leaves.cu.

    Attributes
    ----------
    feature, code, left : int32 (m,)
        ``left`` is a place, 0 in leaves.
    missing_left : uint8 (m,)
    mask : uint32 (m, 8)
        Of categorical splits; (m, 0) where no feature is categorical.
    threshold : float64 (m,)
        (1,) where no rows walk by their values.
    """

    feature: Array
    code: Array
    left: Array
    missing_left: Array
    mask: Array
    threshold: Array

    @classmethod
    def room(cls, xp: Any, n: int, mask_words: int, by_value: bool) -> PlacedNodes:
        """Room for n nodes."""
        columns: dict[str, tuple[Any, tuple[int, ...]]] = {
            **dict.fromkeys(("feature", "code", "left"), (np.int32, (n,))),
            "missing_left": (np.uint8, (n,)),
            "mask": (np.uint32, (n, mask_words)),
            "threshold": (np.float64, (n if by_value else 1,)),
        }
        return cls(**allocate(xp, columns))

    @classmethod
    def of_tree(cls, runtime: Runtime, tree: Tree) -> PlacedNodes:
        """A finished tree, copied to the device, for rows that walk by their codes."""
        categorical = tree.category >= 0
        mask = np.zeros((tree.node_count, tree.masks.shape[1] * bool(categorical.any())), np.uint32)
        if categorical.any():
            mask[categorical] = tree.masks[tree.category[categorical]]
        code = np.where(categorical, -1, tree.code).astype(np.int32)
        missing_left = tree.missing_left.astype(np.uint8)
        columns = (tree.feature, code, tree.left, missing_left, mask, np.zeros(1))
        return cls(*map(runtime.asarray, columns))

    @property
    def by_code(self) -> tuple[Any, ...]:
        """As kernels take it whose rows are codes."""
        has_masks = np.int32(self.mask.shape[1] > 0)
        return has_masks, self.feature, self.code, self.left, self.missing_left, self.mask


class NodeKeeper:
    """Keeps how the nodes of levels were split.

    Parameters
    ----------
    runtime : Runtime
    mapper : BinMapper
    n_nodes : int
        Room for nodes; 0 where none are kept.
    by_value : bool
        Whether rows walk by their values too.

    Attributes
    ----------
    nodes : PlacedNodes
    mask_words : int
        Words of a split's mask; 0 if no feature is categorical.
    """

    def __init__(self, runtime: Runtime, mapper: BinMapper, n_nodes: int, by_value: bool) -> None:
        self._runtime, self._by_value = runtime, np.int32(by_value)
        self._has_masks = bool(mapper.is_categorical.any())
        self.mask_words = constant("common.cuh", "MASK_WORDS") * self._has_masks
        words = constant("common.cuh", "CODE_WORDS") * self._has_masks
        self.nodes = PlacedNodes.room(runtime.xp, n_nodes, words, by_value)
        bins = (mapper.center, mapper.low, mapper.high)
        self._bins = tuple(runtime.asarray(np.ascontiguousarray(each)) for each in bins)

    def keep(self, level: LevelSplits, first: int, following: int) -> None:
        """Keep those of a level, from number ``first`` on; children begin at ``following``."""
        frontier, splits = level.frontier, level.splits
        split = (splits.feature, splits.bin, splits.next_bin, splits.draw, splits.missing)
        kinds = (splits.categorical, splits.mask, np.int32(self._has_masks))
        places = (np.int32(self._bins[0].shape[1]), np.int32(first), np.int32(following))
        args = (
            *(frontier.size, splits.accepted, frontier.count, level.n_left, level.rank),
            *(*split, *kinds),
            *(*self._bins, *places, *vars(self.nodes).values(), self._by_value),
        )
        threads = constant("rounds.cuh", "BOOST_THREADS")
        kernel = self._runtime.kernel("leaves.cu", "keep_nodes", {})
        kernel((-(-frontier.most // threads),), (threads,), args)
