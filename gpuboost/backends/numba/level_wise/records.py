"""The arrays of the level-wise grower: rows of all trees of a round, nodes, and work lists.

Trees that grow together share all arrays: tree t has the nodes ``t * capacity ...``, and its rows
the positions from `NODE.start` on. Nodes of depth d have their rows in ``row[d % 2]``: the
partition reads one half and writes the other, and the rows of a leaf stay where they were.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.level_wise.feature_bundles import FeatureBundles
from gpuboost.backends.numba.level_wise.partition import Leaves

NODE_CHUNK = np.dtype(
    [
        ("owner", np.int64),  # the sibling pair or node that the rows belong to
        ("start", np.int64),  # first position, and the end in ``stop``
        ("stop", np.int64),
        ("n_left", np.int64),
        ("to_left", np.int64),  # position of the first row on this side
        ("to_right", np.int64),
    ],
    align=True,
)

SIBLING_PAIR = np.dtype(
    [
        ("tree", np.int64),
        ("summed", np.int64),  # node whose histogram is summed from its rows
        ("other", np.int64),  # its larger sibling, by subtraction; -1 if that is not searched
        ("is_open", np.int64),  # whether ``summed`` itself is searched
        ("summed_histogram", np.int64),  # index of the histogram of ``summed``
        ("other_histogram", np.int64),  # index of the histogram of ``other``, at first its parent's
        ("first_chunk", np.int64),
        ("n_chunks", np.int64),
        ("first_part", np.int64),  # first histogram of its chunks, if it has several
    ],
    align=True,
)


class Samples(NamedTuple):
    """The rows of a round.

    Attributes
    ----------
    codes : uint8 (F, n)
    by_row : uint64 (n, G)
        Codes of the columns, row-major, eight to a word; the last word is padded.
    n_columns : int
    columns : FeatureBundles
        The features of each column.
    word : int64 (T, n)
        For each tree and row, gradient * 2**hessian_bits + hessian.
    hessian_bits : int
    max_gradient, max_hessian : int
        Bounds for the magnitudes of a row's gradient and hessian.
    tile : int
        Columns whose histograms are summed together.
    """

    codes: np.ndarray
    by_row: np.ndarray
    n_columns: int
    columns: FeatureBundles
    word: np.ndarray
    hessian_bits: int
    max_gradient: int
    max_hessian: int
    tile: int


class GrowState(NamedTuple):
    """The state of the growing trees, and the positions of their rows.

    Attributes
    ----------
    nodes : NODE (T * capacity,)
    n_nodes : int64 (T,)
    slot : int32 (T * capacity,)
        Index in `LevelWork.found` of a node on the last searched level; -1 if it was not searched.
    histogram_slot : int32 (T * capacity,)
        Index of a node's histogram.
    spare : int64 (t,)
        Indices of the histograms that are not in use.
    n_spare : int64 (1,)
    waiting : int32 (T, capacity)
        In best-first growth, a heap of the nodes that may be split, numbered within their tree; for
        grown trees, all nodes breadth-first.
    number : int32 (T * capacity,)
        Number of a node in the grown tree.
    n_waiting, n_leaves : int64 (T,)
    masks : uint32 (T * capacity, 16)
        Categories of a node's split; (0, 16) if no feature is categorical.
    open : int64 (m,)
        The nodes that are searched next, by tree, then left to right.
    row : uint32 (2, T * n)
    goes_left : uint8 (T * n,)
        Whether the row at each position goes left.
    features : int32 (T, F)
        Features of each tree, ascending; the first ``n_features`` int64 (T,) of a row are used.
    groups : uint64 (T * capacity, W)
        Interaction groups that are open at a node; W is 0 without interactions.
    small : int64 (m,)
        Small nodes; one thread grows all descendants of each.
    n_small : int64 (1,)
    n_splits : int64 (T,)
        Number of split nodes of a tree, used while small nodes are grown.
    min_category : int64 (T,)
        Smallest hessian of a category that is not rare, see `common.records.Problem`.
    """

    nodes: np.ndarray
    n_nodes: np.ndarray
    slot: np.ndarray
    histogram_slot: np.ndarray
    spare: np.ndarray
    n_spare: np.ndarray
    waiting: np.ndarray
    number: np.ndarray
    n_waiting: np.ndarray
    n_leaves: np.ndarray
    masks: np.ndarray
    open: np.ndarray
    row: np.ndarray
    goes_left: np.ndarray
    features: np.ndarray
    n_features: np.ndarray
    groups: np.ndarray
    small: np.ndarray
    n_small: np.ndarray
    n_splits: np.ndarray
    min_category: np.ndarray


class LevelWork(NamedTuple):
    """The work lists of a level, and the histograms.

    Attributes
    ----------
    pairs : SIBLING_PAIR (m,)
    chunks : NODE_CHUNK (c,)
    histograms : int64 (t + p, fields, C * 256)
        Histograms of t nodes, then of p chunks of nodes that have several; the fields are gradient,
        hessian and count.
    first_part : int
        Index of the first histogram of a chunk.
    feature_status : uint8 (slots, F) or (T, F)
        Status of each feature for a searched node, or for a tree; see `feature_sampling`.
    node_sampling : True or None
        True if ``feature_status`` is by node. None otherwise (not False), so that the code for
        sampling by node is not compiled.
    found : SPLIT (slots, tiles)
        Best split of a node by the columns of a tile.
    found_mask : uint32 (slots, tiles, 16)
        Categories of that split.
    """

    pairs: np.ndarray
    chunks: np.ndarray
    histograms: np.ndarray
    first_part: int
    feature_status: np.ndarray
    node_sampling: bool | None
    found: np.ndarray
    found_mask: np.ndarray


class SharedArrays(NamedTuple):
    """The arguments shared by the threads that grow the trees of a round.

    Attributes
    ----------
    samples : Samples
    state : GrowState
    work : LevelWork
    leaves : Leaves
    roots : int64 (T, 4)
        First position, number of rows, gradient, hessian.
    keys : uint64 (T,)
        Keys of the roots.
    level : int64 (3,)
        Numbers of open nodes, sibling pairs and chunks, see `grow`.
    capacities : int64 (4,)
        Limits of sizes, see `policy`.
    """

    samples: Samples
    state: GrowState
    work: LevelWork
    leaves: Leaves
    roots: np.ndarray
    keys: np.ndarray
    level: np.ndarray
    capacities: np.ndarray
