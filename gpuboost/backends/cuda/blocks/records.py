"""What launches of kernels/blocks read: rows of trees, and nodes of a level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuboost.engine.growth.frontier import Array


@dataclass(frozen=True)
class BlockRows:
    """The rows of a batch of trees on a device; strides are 0 for arrays that trees share.

    Attributes
    ----------
    node : int32 (trees, n)
    weight : uint32 (trees or 1, n)
    value : int32 (trees or 1, n, values)
        As in kernels/blocks/block_rows.cu.
    """

    node: Array
    weight: Array
    value: Array

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return self.node.shape[1]

    @property
    def weight_stride(self) -> int:
        """Number of weights of a tree, or 0."""
        return tree_stride(self.weight)

    @property
    def value_stride(self) -> int:
        """Number of values of a tree, or 0."""
        return tree_stride(self.value)


@dataclass(frozen=True)
class SearchedNodes:
    """The nodes of a level that get histograms, on a device.

    Attributes
    ----------
    place : int32 (m,)
        Number of each node among those of its tree, -1 for none.
    slot : int32 (trees, n_places)
        Histograms of these nodes, -1 at the end of trees with fewer nodes.
    """

    place: Array
    slot: Array

    @property
    def n_places(self) -> int:
        """Largest number of such nodes of a tree."""
        return self.slot.shape[1]


@dataclass(frozen=True)
class Routing:
    """The splits of the last level on a device.

    Attributes
    ----------
    used : int64 (u,)
        Features of the splits, ascending, on the host.
    feature, column : int32 (m,)
        Feature of each node's split, and its index in ``used``; -1 for none.
    step : int32 (m, N_CODES)
        As in `numpy.blocks.sums.Pending`.
    count : int64 (children,)
        Number of rows of each child so far.
    """

    used: np.ndarray
    feature: Array
    column: Array
    step: Array
    count: Array


def tree_stride(array: Array) -> int:
    """Number of items from one tree to the next, 0 if all trees share them."""
    return array.size // len(array) if len(array) > 1 else 0
