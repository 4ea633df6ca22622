"""What the level-wise grower works on: rows of all trees of a round, nodes, and work lists.

Trees that grow together share all arrays: tree t has the nodes ``t * capacity ...``, and its rows
the positions from `NODE.start` on. Nodes of depth d have their rows in ``row[d % 2]``: the
partition reads one half and writes the other, and the rows of a leaf stay where they were.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.level_wise.feature_bundles import FeatureBundles
from gpuboost.backends.numba.level_wise.partition import Leaves

CHUNK = np.dtype(
    [
        ("owner", np.int64),  # a family, a split or an end: what the rows belong to
        ("start", np.int64),  # positions
        ("stop", np.int64),
        ("n_left", np.int64),
        ("to_left", np.int64),  # where the first row of a side goes
        ("to_right", np.int64),
    ],
    align=True,
)

SIBLING_PAIR = np.dtype(
    [
        ("tree", np.int64),
        ("summed", np.int64),  # node whose histogram is added up from its rows
        ("other", np.int64),  # its larger sibling, by subtraction; -1 if there is none to search
        ("is_open", np.int64),  # whether ``summed`` is searched itself
        ("summed_histogram", np.int64),  # of the histogram of ``summed``
        ("other_histogram", np.int64),  # of that of ``other``: its parent's until then
        ("first_chunk", np.int64),
        ("n_chunks", np.int64),
        ("first_part", np.int64),  # first histogram of its chunks, if they are several
    ],
    align=True,
)


class Samples(NamedTuple):
    """The rows of a round.

    Attributes
    ----------
    codes : uint8 (F, n)
    by_row : uint64 (n, G)
        The codes of a row side by side, eight to a word, the last one filled up; of columns.
    n_columns : int
    columns : Columns
        Which features they are.
    word : int64 (T, n)
        Of each tree, gradient and hessian of a row: gradient * 2**hessian_bits + hessian.
    hessian_bits : int
    max_gradient, max_hessian : int
        Bounds of a row's.
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
    """The trees that grow, and where their rows are.

    Attributes
    ----------
    nodes : NODE (T * room,)
    n_nodes : int64 (T,)
    slot : int32 (T * room,)
        Place of what was found for a node that was searched last; -1: it is not searched.
    histogram_slot : int32 (T * room,)
        Of a node's histogram.
    spare : int64 (tables,)
        Tables that are not in use.
    n_spare : int64 (1,)
    waiting : int32 (T, room)
        Of best-first growth, a heap of the nodes that may be split, numbered in their tree; of
        trees that are grown, all nodes breadth first.
    number : int32 (T * room,)
        Of a node in the grown tree.
    n_waiting, n_leaves : int64 (T,)
    masks : uint32 (T * room, 16)
        Categories of a node's split; (0, 16) where no feature is categorical.
    open : int64 (m,)
        The nodes that are searched next, by tree, then left to right.
    row : uint32 (2, T * n)
    goes_left : uint8 (T * n,)
        Of each position.
    features : int32 (T, F)
        Those of each tree, ascending, as many as ``n_features`` int64 (T,) says.
    groups : uint64 (T * room, W)
        Groups of interactions that are open at a node; (0, W) without interactions.
    small : int64 (m,)
        Nodes that are split no more level by level, each with its descendants a task of one thread.
    n_small : int64 (1,)
    n_splits : int64 (T,)
        Nodes of a tree that are split, while such tasks are done.
    min_category : int64 (T,)
        As `layout.Limits`, whose other limits are those of all trees.
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


class Work(NamedTuple):
    """Work lists of a level, and the histograms.

    Attributes
    ----------
    pairs : SIBLING_PAIR (m,)
    chunks : CHUNK (c,)
    histograms : int64 (t + p, fields, C * 256)
        Histograms of nodes, and of chunks of nodes that have several; fields gradient, hessian,
        count.
    first_part : int
        The first one of a chunk.
    looks : uint8 (slots, F) or (T, F)
        Kinds of features, see `level_choice`: of a node that is searched, or of a tree.
    drawn : True or None
        Whether it is of nodes; None, so that what is for these is compiled for no other fit.
    found : SPLIT (slots, tiles)
        Best split of a node by the columns of a tile.
    found_mask : uint32 (slots, tiles, 16)
    """

    pairs: np.ndarray
    chunks: np.ndarray
    histograms: np.ndarray
    first_part: int
    looks: np.ndarray
    drawn: bool | None
    found: np.ndarray
    found_mask: np.ndarray


class Growth(NamedTuple):
    """What the threads that grow the trees of a round share.

    Attributes
    ----------
    samples : Samples
    state : Grove
    work : Work
    leaves : Leaves
    roots : int64 (T, 4)
        First position, rows, gradient, hessian.
    keys : uint64 (T,)
        Of the roots.
    level : int64 (3,)
        Words of the level, see `level_team`.
    capacities : int64 (4,)
        Sizes, see `level_policy`.
    """

    samples: Samples
    state: GrowState
    work: Work
    leaves: Leaves
    roots: np.ndarray
    keys: np.ndarray
    level: np.ndarray
    capacities: np.ndarray
