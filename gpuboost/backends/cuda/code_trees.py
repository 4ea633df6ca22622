"""Trees of a round on the device, walked by rows of codes: launches of leaves.cu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.source import constant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuboost.backends.cuda.row_sets import DeviceRowSet
    from gpuboost.backends.cuda.runtime import Runtime
    from gpuboost.engine.frontier import Array
    from gpuboost.engine.tree import Tree


@dataclass(frozen=True, eq=False)
class CodeTrees:
    """The trees of a round, node by node.

    Attributes
    ----------
    offset : int64 (T + 1,)
    feature, code, left, mask_row : int32 (m,)
    missing_left : uint8 (m,)
    masks : uint32 (c, 8)
        One row, which means nothing, if no split is categorical.
    n_trees : int
    """

    offset: Array
    feature: Array
    code: Array
    left: Array
    mask_row: Array
    missing_left: Array
    masks: Array
    n_trees: int

    @classmethod
    def of(cls, runtime: Runtime, trees: Sequence[Tree]) -> CodeTrees:
        """Copy trees to the device."""
        sizes = np.cumsum([0, *(tree.node_count for tree in trees)])
        n_masks = np.cumsum([0, *(len(tree.masks) for tree in trees)])
        mask_row = [
            np.where(tree.category >= 0, tree.category + first, -1)
            for tree, first in zip(trees, n_masks, strict=False)
        ]
        masks = np.concatenate([tree.masks for tree in trees])

        def copied(parts: list[np.ndarray], dtype: Any) -> Array:
            return runtime.asarray(np.concatenate(parts).astype(dtype))

        return cls(
            offset=runtime.asarray(sizes.astype(np.int64)),
            feature=copied([tree.feature for tree in trees], np.int32),
            code=copied([tree.code for tree in trees], np.int32),
            left=copied([tree.left for tree in trees], np.int32),
            mask_row=copied(mask_row, np.int32),
            missing_left=copied([tree.missing_left for tree in trees], np.uint8),
            masks=runtime.asarray(masks if len(masks) else np.zeros((1, 8), np.uint32)),
            n_trees=len(trees),
        )

    def leaves(self, runtime: Runtime, codes: Array, missing_code: int) -> Array:
        """The leaf of each row in each tree, by its number there: int32 (T, n)."""
        n = codes.shape[1]
        leaf = runtime.xp.empty((self.n_trees, n), dtype=np.int32)
        matrix = (codes, np.int64(n), np.int32(missing_code))
        nodes = (self.feature, self.code, self.left, self.mask_row, self.missing_left, self.masks)
        self._launch(runtime, "find_code_leaves", n, (*matrix, self.offset, *nodes, leaf))
        return leaf

    def add(self, runtime: Runtime, leaf: Array, trees: Sequence[Tree], rows: DeviceRowSet) -> None:
        """Add the values of leaves to the raw predictions, tree after tree to the next columns."""
        value = np.concatenate([tree.value for tree in trees])
        given = (leaf, self.offset, runtime.asarray(value))
        sizes = (np.int64(rows.n), np.int32(value.shape[1]))
        self._launch(runtime, "add_leaves", rows.n, (*given, *sizes, rows.raw))

    def _launch(self, runtime: Runtime, name: str, n: int, args: tuple[Any, ...]) -> None:
        threads = constant("rounds.cuh", "BOOST_THREADS")
        grid = (-(-n // threads), self.n_trees)
        runtime.kernel("leaves.cu", name, {})(grid, (threads,), args)
