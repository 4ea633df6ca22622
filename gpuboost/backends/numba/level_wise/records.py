"""The arrays of the level-wise grower: rows of all trees of a round, nodes, and work lists.

Trees that grow together share all arrays: the nodes of tree t start at ``t * capacity``, and the
rows of a node lie in segments (see `partition`). Nodes of depth d have them in ``row[d % 2]``: the
partition reads one half and writes the other, and the rows of leaves stay in place. Rows that are
not moved to the last children stay in their parent's half, in the same order.

In shapes, T is the number of trees, n of rows and F of features; capacity is that of a tree, in
nodes; slots is the number of slots of a level, of which a sibling pair takes two.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.level_wise.feature_bundles import FeatureBundles
from gpuboost.backends.numba.references import Reference

NODE_CHUNK = np.dtype(
    [
        ("owner", np.int64),  # the sibling pair
        ("start", np.int64),  # first row, counted over all segments of the node
        ("stop", np.int64),  # the one after the last row
    ],
    align=True,
)

SIBLING_PAIR = np.dtype(
    [
        ("tree", np.int64),
        ("summed", np.int64),  # node whose histogram is summed from its rows
        ("other", np.int64),  # its larger sibling, summed by subtraction; -1 if it is not searched
        ("is_open", np.int64),  # whether ``summed`` itself is searched
        ("summed_histogram", np.int64),  # index of the histogram of ``summed``
        ("other_histogram", np.int64),  # index of the histogram of ``other``, at first its parent's
        ("first_chunk", np.int64),
        ("n_chunks", np.int64),
        ("first_part", np.int64),  # index of the first histogram of its chunks, if several
    ],
    align=True,
)


class Samples(NamedTuple):
    """The rows of a round.

    Attributes
    ----------
    codes : uint8 (F, n)
        Bin of each value, feature by feature.
    by_row : uint64 (n, words per row)
        Codes of the columns, row-major, eight to a word; see `row_major` for the padding.
    n_columns : int
        Number of columns: features or feature bundles.
    columns : FeatureBundles
        The features of each column.
    word : int64 (T, n)
        For each tree and row, gradient * 2**hessian_bits + hessian.
    hessian_bits : int
        Number of bits of the hessian field of a word.
    max_gradient, max_hessian : int
        Upper bounds of the magnitudes of a row's gradient and hessian.
    rows_in_word : int
        Number of rows whose sums always fit a word; 0 with several channels. The histogram of a
        node with at most as many rows holds words in the place of gradients; its hessians are not
        set.
    tile : int
        Number of columns whose histograms are summed together.
    summands : int32 (n, s), or (0, 1) with one channel
        With several channels, what each row adds to the s sums of its bins, see `channels`; there
        are then no words.
    """

    codes: np.ndarray
    by_row: np.ndarray
    n_columns: int
    columns: FeatureBundles
    word: np.ndarray
    hessian_bits: int
    max_gradient: int
    max_hessian: int
    rows_in_word: int
    tile: int
    summands: np.ndarray


class GrowState(NamedTuple):
    """The state of the growing trees, and the positions of their rows.

    Attributes
    ----------
    nodes : NODE (T * capacity,)
        Nodes of all trees.
    n_nodes : int64 (T,)
        Number of nodes of each tree.
    slot : int32 (T * capacity,)
        Index in `LevelWork.found` of a node on the last searched level; -1 if it was not searched.
    histogram_slot : int32 (T * capacity,)
        Index of a node's histogram, at first its parent's; -1 if it has none.
    spare : int64 (n_histograms,)
        Indices of the histograms that are not in use.
    n_spare : int64 (1,)
        Number of indices in ``spare``.
    waiting : int32 (T, capacity)
        In best-first growth, a heap of the nodes that can be split, numbered within their tree; for
        grown trees, all nodes breadth-first.
    number : int32 (T * capacity,)
        Number of a node in the grown tree.
    ends : int64 (T * capacity,)
        Once all trees are grown, the nodes from whose rows `leaves` finds leaves, see `list_ends`.
    n_waiting, n_leaves : int64 (T,)
        In best-first growth, the numbers of waiting nodes and of leaves of each tree.
    masks : uint32 (T * capacity, 16)
        Row of `GrownTree.masks` for a node's split; (0, 16) if no feature is categorical.
    open : int64 (max(slots, T) + 2,)
        The open nodes of a level, including leaves and small nodes, which are not searched; once
        splits are accepted, the nodes whose rows are partitioned. Sorted by tree, then from left to
        right.
    row : uint32 (2, T * n)
        Row at each position, for nodes of even and of odd depth.
    segments : int64 (segments, T * capacity, 2)
        First position and number of the rows of each node in each segment. For children to which no
        rows are moved, only the number has a meaning. In subtrees, only the small node, the ends
        and their children have entries.
    features : int32 (T, F)
        Features of each tree, ascending: the first ``n_features[t]`` entries of ``features[t]``.
    n_features : int64 (T,)
        Number of features of each tree.
    groups : uint64 (T * capacity, W)
        Interaction groups that are open at a node (see `common.constraints`), one bit per group in
        W words; W is 0 without interactions.
    small : int64 (T * capacity,), or (1,) if no node can be small
        Small nodes; one thread grows all descendants of each.
    n_small : int64 (1,)
        Number of small nodes.
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
    ends: np.ndarray
    n_waiting: np.ndarray
    n_leaves: np.ndarray
    masks: np.ndarray
    open: np.ndarray
    row: np.ndarray
    segments: np.ndarray
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
    pairs : SIBLING_PAIR (slots,)
        Pairs with at least one searched node.
    chunks : NODE_CHUNK (slots + pieces,)
        Chunks of rows: tasks of the threads.
    histograms : int64 (t + p, fields, n_columns * 256), or (t + p, 1, n_columns * 256 * s)
        Histograms of t nodes, then of p chunks of nodes with several chunks; the fields are
        gradient, hessian and, if it is needed, count (but see `Samples.rows_in_word`). With
        several channels, the s sums of a bin are neighbours instead, see `channels`.
    first_part : int
        Index of the first histogram of a chunk, which is t.
    feature_status : uint8 (slots, F) or (T, F)
        Status of each feature for a searched node, or for a tree; see `feature_sampling`.
    node_sampling : bool
        Whether ``feature_status`` has a row per node.
    found : SPLIT (slots, strips)
        Best split of a node by the columns of a strip; each tile has `STRIPS`.
    found_mask : uint32 (slots, strips, 16)
        Row of `GrownTree.masks` for that split; (0, strips, 16) if no feature is categorical.
    """

    pairs: np.ndarray
    chunks: np.ndarray
    histograms: np.ndarray
    first_part: int
    feature_status: np.ndarray
    node_sampling: bool
    found: np.ndarray
    found_mask: np.ndarray


class ThreadArrays(NamedTuple):
    """The arguments of one thread.

    Attributes
    ----------
    problem : reference to Problem
    channels : reference to Channels, or None with one channel
    partial : int64 (tile * 256,)
        Partial sums of a tile, zero between passes; not used with several channels.
    local : reference to subtrees.Local, or None if no node can be small
    """

    problem: Reference
    channels: Reference | None
    partial: np.ndarray
    local: Reference | None


class SharedArrays(NamedTuple):
    """The arguments shared by the threads that grow the trees of a round.

    Attributes
    ----------
    samples : reference to Samples
        Codes and words of the rows.
    state : reference to GrowState
        Nodes, and positions of their rows.
    work : reference to LevelWork
        Work lists of the current level.
    leaves : reference to leaves.Leaves
        Leaves of the rows, and their sums.
    roots : int64 (T, 4)
        First position, number of rows, gradient and hessian of each root.
    keys : uint64 (T,)
        Keys of the roots.
    level : int64 (4,)
        Numbers of open nodes, sibling pairs, chunks and ends, see `policy`.
    capacities : int64 (4,)
        Limits of nodes, chunks and rows, see `policy`.
    threads : int64 (threads,)
        Addresses of the `ThreadArrays` of all threads.
    first_thread : reference to ThreadArrays
        Those of the calling thread.
    """

    samples: Reference
    state: Reference
    work: Reference
    leaves: Reference
    roots: np.ndarray
    keys: np.ndarray
    level: np.ndarray
    capacities: np.ndarray
    threads: np.ndarray
    first_thread: Reference
