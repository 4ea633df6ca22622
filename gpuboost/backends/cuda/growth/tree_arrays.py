"""Finished trees as arrays on the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.readback import HostCopy, read_later
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.growth.tree import Tree

MASK_WORDS = 8  # 32-bit words of a mask: one bit for each code
_NO_MASKS = np.empty((0, MASK_WORDS), dtype=np.uint32)


# Arrays that are read to traverse a tree; arrays that every tree has; and arrays that exist only if
# any feature is categorical.
_TRAVERSED = ("feature", "threshold", "code", "missing_left", "left", "value")
NAMES = (*_TRAVERSED, "impurity_decrease", "impurity", "weight", "count")
_OF_CATEGORIES = ("category", "masks")


@dataclass(frozen=True)
class Finished:
    """Arrays of the finished trees of a batch, one tree after the other.

    Attributes
    ----------
    table : int64 (3, trees + 1)
        See `gpuboost.backends.cuda.growth.node_buffer.Numbers`.
    columns : dict of str to array
        The arrays of `Tree`, or those read to traverse it (see `of`); ``category`` and ``masks``
        only if any feature is categorical.
    number_of : int32 (places,) or None
        Index in ``columns`` of the node at each place of the node buffer; None if not needed.
    """

    table: Array
    columns: dict[str, Array]
    number_of: Array | None = None

    @classmethod
    def of(cls, runtime: Runtime, trees: Sequence[Tree]) -> Finished:
        """Copy to the device the arrays that are needed to traverse the trees.

        Root weights in the table are zeros, and there are no masks if no split is categorical.
        """
        whole = Ensemble.of(trees)
        table = np.stack([whole.offset, whole.mask_offset, np.zeros_like(whole.offset)])
        kinds = {"code": np.uint8, "missing_left": np.uint8}
        names = _TRAVERSED + _OF_CATEGORIES if len(whole.masks) else _TRAVERSED
        columns = {}
        for name in names:
            column = getattr(whole, name)
            columns[name] = runtime.asarray(column.astype(kinds.get(name, column.dtype)))
        return cls(runtime.asarray(table), columns)

    @property
    def n_trees(self) -> int:
        """Number of trees of the batch."""
        return self.table.shape[1] - 1

    @property
    def has_masks(self) -> bool:
        """Whether the trees have masks of categorical splits."""
        return "masks" in self.columns

    @property
    def of_traversal(self) -> dict[str, Any]:
        """Columns needed to traverse the trees, as arguments of leaves.cu and leaf_quantiles.cu.

        The kernels require features of type int32.
        """
        own, has_masks = self.columns, self.has_masks
        found = {name: own[name] for name in ("feature", "code", "missing_left", "left")}
        # Without masks these are placeholders that kernels do not read.
        category = own["category"] if has_masks else own["left"]
        masks = own["masks"] if has_masks else own["left"].view(np.uint32)
        return {**found, "has_masks": has_masks, "category": category, "masks": masks}

    def read_later(self, runtime: Runtime, n: int, n_masks: int) -> Callable[[], HostCopy]:
        """Start to copy ``n`` nodes and ``n_masks`` masks; the returned function waits for them."""
        used = lengths(self.has_masks, n, n_masks).items()
        return read_later(runtime, {name: self.columns[name][:length] for name, length in used})

    def copy_to_host(self, runtime: Runtime) -> tuple[list[int], list[Tree]]:
        """Return the roots' integer weights and the trees; each array is copied once and sliced."""
        nodes, masks, weights = runtime.to_host(self.table).tolist()
        used = lengths(self.has_masks, nodes[-1], masks[-1]).items()
        whole = {name: runtime.to_host(self.columns[name][:length]) for name, length in used}

        def part(name: str, first: int, end: int) -> np.ndarray:
            return whole[name][first:end]

        cuts = zip(pairwise(nodes), pairwise(masks), strict=True)
        trees = [cut_tree(part, self.has_masks, *bounds) for bounds in cuts]
        return weights[:-1], trees


def lengths(has_masks: bool, n_nodes: int, n_masks: int) -> dict[str, int]:
    """Lengths of the arrays of trees that have ``n_nodes`` nodes and ``n_masks`` masks together."""
    found = dict.fromkeys(NAMES, n_nodes)
    return found | {"category": n_nodes, "masks": n_masks} if has_masks else found


def cut_tree(
    part: Callable[[str, int, int], np.ndarray],
    has_masks: bool,
    nodes: Sequence[int],
    masks: Sequence[int],
) -> Tree:
    """Cut one tree out of the arrays of a batch.

    Parameters
    ----------
    part : callable
        Function of the name of an array, a start and an end that returns this slice of the array.
    has_masks : bool
        Whether the batch has the arrays ``category`` and ``masks``.
    nodes, masks : (int, int)
        First and end index of the tree's nodes, and of its masks.
    """
    first, end = nodes
    own = {name: part(name, first, end) for name in NAMES}
    own["missing_left"] = own["missing_left"].view(np.bool_)
    if has_masks:
        own["category"], own["masks"] = part("category", first, end), part("masks", *masks)
    else:
        own["category"], own["masks"] = np.full(end - first, -1, dtype=np.int32), _NO_MASKS
    return Tree(**own)
