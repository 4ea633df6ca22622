"""The arguments of compiled functions: named tuples of arrays, and the records of nodes and splits.

In shapes, n is the number of rows, F of features, K of channels, and P of terms of a row in the
leaf sums.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.common.constraints import BOUNDS
from gpuboost.backends.numba.references import Reference

LINE = 64  # bytes of a cache line
LANES = 8  # number of bins of a block; their scores are computed together
SLOTS = 256 + LANES  # number of slots: one for each bin, and a spare block
HESSIAN, COUNT, GRADIENT = 0, 1, 2  # rows of `Scratch.sums`; channel p has row GRADIENT + p

NODE = np.dtype(
    [
        ("start", np.int64),  # first row in `Rows`; 0 for nodes that are grown by levels
        ("count", np.int64),
        ("gradient", np.int64),
        ("hessian", np.int64),
        ("key", np.uint64),
        ("gain", np.float64),
        ("draw", np.float64),
        ("left_gradient", np.int64),
        ("left_hessian", np.int64),
        *BOUNDS,
        ("feature", np.int32),
        ("left", np.int32),
        ("category", np.int32),
        ("depth", np.int32),
        ("bin", np.int16),
        ("next_bin", np.int16),
        ("missing", np.int8),
    ],
    align=True,
)

SPLIT = np.dtype(
    [
        ("score", np.float64),
        ("rank", np.int64),
        ("draw", np.float64),
        ("left_gradient", np.int64),
        ("left_hessian", np.int64),
        ("feature", np.int64),
        ("bin", np.int64),
        ("next_bin", np.int64),
        ("missing", np.int64),
        ("categorical", np.int64),
        ("found_at", np.int64),  # see `level_wise.feature_sampling`: FOUND, BEYOND or NONE
    ],
    align=True,
)


class Matrix(NamedTuple):
    """The binned matrix.

    Attributes
    ----------
    codes : uint8 (F, n)
        Bin of each value, feature by feature; (0, n) if the matrix is sparse.
    by_column, by_row : uint8 (F * n,), uint8 (n * row_width,) or (0,)
        The memory of ``codes`` (see `arguments.with_codes`), and a row-major copy if small nodes
        read it (`feature_codes`).
    row_width : int
        Codes of a row in ``by_row``, or 0.
    first_entry, entry_row, entry_code, zero_code : int64, uint32, uint8 and uint8 arrays
        The fields ``start``, ``row``, ``code`` and ``zero_code`` of `SparseCodes`; empty if the
        matrix is dense.
    first_of_row, features_by_row, codes_by_row : int64 (n + 1,), uint32 (z,), uint8 (z,)
        The same entries row by row: the first of each row, then z; their features and codes. Empty
        unless `sparse_search` needs them.
    n_bins : int64 (F,)
        Number of value bins.
    centers, first_center : float64 (R, 16), int64 (F + 1,), or empty
        Only for random thresholds, the centres of each feature's bins in groups of 16, padded with
        +inf. A feature's first row holds the first centre of each of its groups.
    has_missing, is_categorical : bool (F,)
        Whether each feature has missing values, and whether it is categorical.
    missing_code : int
        Code of missing values.
    any_categorical : bool
        Whether any feature is categorical.
    """

    codes: np.ndarray
    by_column: np.ndarray
    by_row: np.ndarray
    row_width: int
    first_entry: np.ndarray
    entry_row: np.ndarray
    entry_code: np.ndarray
    zero_code: np.ndarray
    first_of_row: np.ndarray
    features_by_row: np.ndarray
    codes_by_row: np.ndarray
    n_bins: np.ndarray
    centers: np.ndarray
    first_center: np.ndarray
    has_missing: np.ndarray
    is_categorical: np.ndarray
    missing_code: int
    any_categorical: bool


class Limits(NamedTuple):
    """The `engine.task.TreeOptions` of one tree, with facts about its target and its rows.

    ``both_classes``: see `engine.criteria.Criterion`. ``scored_together``: see `engine.targets`.
    ``is_regression``: the target is not a `ClassTarget`. ``has_gradients``: the rows have gradients
    (boosting). ``by_median``: gradients are signs about the medians of the node, times weights.
    ``has_weightless``: rows of the tree can have weight 0. ``min_hessian`` includes
    min_weight_fraction_leaf; if all weights are 1, it also includes min_samples_leaf, and
    ``min_samples_leaf`` is 1. ``gain_unit``: see `Target.gain_unit`. ``root_hessian`` is the sum of
    the weights. ``l1``, ``l2`` and ``max_value`` are for NEWTON.
    """

    criterion: int
    both_classes: bool
    scored_together: int
    is_regression: bool
    has_gradients: bool
    by_median: bool
    has_weightless: bool
    random_thresholds: bool
    max_depth: int
    min_samples_split: int
    min_samples_leaf: int
    min_hessian: int
    max_features: int
    level_features: int
    has_interactions: bool
    hashed_order: bool
    needs_gain: bool
    max_leaf_nodes: int
    min_impurity_decrease: float
    gain_unit: float
    root_hessian: float
    l1: float
    l2: float
    max_value: float


class Rows(NamedTuple):
    """Rows of a tree, or of the subtree below a small node, contiguous for each node.

    Attributes
    ----------
    row : uint32 (n,)
        Row numbers in `Matrix.codes`.
    word : int64 (n,)
        Packed word of each row.
    spare_row, spare_word : uint32 (n,), int64 (n,)
        Buffers for moving rows and words.
    """

    row: np.ndarray
    word: np.ndarray
    spare_row: np.ndarray
    spare_word: np.ndarray


class Scratch(NamedTuple):
    """Buffers of one thread, reused for all features, nodes and trees.

    The K + 2 fields are explained in `splits/histograms.py`. Histograms (``totals``, ``wide``) are
    zero between features.

    Attributes
    ----------
    totals : int64 (256,)
        Sum of the words in each bin.
    occupied : uint64 (4,)
        Bits of the bins that have rows of the node; zero between features.
    bins : int64 (SLOTS,)
        Codes of the listed bins.
    prefix : int64 (SLOTS,)
        Sums up to each listed bin, as words.
    terms : float64 (3, SLOTS)
        Terms of the criterion for each candidate, with several channels.
    scores, patterns : float64 (SLOTS,), int64 (SLOTS,)
        Scores of candidates (in whole blocks of `LANES` if scored from words), and the same memory
        as int64.
    wide : int64 (K + 2, 256)
        Sums of each bin, by field.
    sums : int64 (K + 2, SLOTS)
        Sums up to each listed bin, by field.
    bundle : int64 (K + 2, 256)
        Histogram of a feature bundle, from which its features are taken out one by one.
    missing : int64 (K + 2,)
        Sums of the missing bin and of the rare categories.
    per_bin : int64 (K + 2, 256)
        Sums of each occupied category.
    keys, order : float64 (256,), int64 (256,)
        Sort keys of categories, and their positions in sorted order.
    rare : int64 (256,)
        Codes of the rare categories, which go where missing values go.
    codes : uint8 (n,), or (0,) in level-wise growth
        Codes of a node's rows for one feature, used for random thresholds.
    column : uint8 (n,), or (0,) if the matrix is dense
        Codes of one feature, by row.
    position : uint32 (n,), or (0,) if the matrix is dense
        See `sparse_columns.position_of`.
    node_word : int64 (1,)
        If the matrix is sparse, the sum of the words of a node.
    entry_starts, entry_codes, entry_words : int64 (F + 2,), uint8 (E,), int64 (E,), or empty
        Entries of a node, sorted by feature (see `sparse_search`).
    candidates : int64 (SLOTS, 3)
        Feature, last bin on the left and first bin on the right of candidates that are scored
        together.
    ranks : int64 (F,)
        Ranks of the candidate features.
    collected, sorted_ranks : int64 (F + LANES,)
        The ranks of the features that are considered next, unsorted and in ascending order.
    bucket_end : int64 (F,)
        The end of each bucket of ranks while these are sorted.
    chosen : int32 (F,)
        1 for features that the node may split on, else 0; used only if `has_excluded_features`.
    features : int32 (F,)
        Features of the tree, ascending: the first ``of_tree[0]`` entries.
    of_tree : int64 (2,)
        For the tree: the number of its features, and the smallest hessian of a category that is
        not rare.
    mask : uint32 (16,)
        Row of `GrownTree.masks` for the best split, if that is categorical.
    split : SPLIT (1,)
        The best split so far.
    own, own_weights : float64 (n,), int64 (n,)
        Ranks and weights of the rows of a node, for finding a median by selection; (0,) if no
        median is found by selection.
    """

    totals: np.ndarray
    occupied: np.ndarray
    bins: np.ndarray
    prefix: np.ndarray
    terms: np.ndarray
    scores: np.ndarray
    patterns: np.ndarray
    wide: np.ndarray
    sums: np.ndarray
    bundle: np.ndarray
    missing: np.ndarray
    per_bin: np.ndarray
    keys: np.ndarray
    order: np.ndarray
    rare: np.ndarray
    codes: np.ndarray
    column: np.ndarray
    position: np.ndarray
    node_word: np.ndarray
    entry_starts: np.ndarray
    entry_codes: np.ndarray
    entry_words: np.ndarray
    candidates: np.ndarray
    ranks: np.ndarray
    collected: np.ndarray
    sorted_ranks: np.ndarray
    bucket_end: np.ndarray
    chosen: np.ndarray
    features: np.ndarray
    of_tree: np.ndarray
    mask: np.ndarray
    split: np.ndarray
    own: np.ndarray
    own_weights: np.ndarray


class Plugins(NamedTuple):
    """Addresses of the compiled functions that only some fits need (`splits.plugins`).

    An address is 0 if the fit does not need the function. ``find_split`` and ``one_*`` are for
    nodes of one channel, which trees of several classes have, too; ``many_*`` are for nodes of
    several channels.
    """

    find_split: int = 0
    scores_of_one: int = 0
    add_terms: int = 0
    scores_of_terms: int = 0
    one_categories: int = 0
    many_categories: int = 0
    many_random: int = 0
    class_moments: int = 0
    terms_of_moments: int = 0
    set_median_gradients: int = 0
    choose_status: int = 0
    next_later: int = 0


class Problem(NamedTuple):
    """The arguments that stay the same while a tree grows.

    They are references to a `Matrix`, `Limits`, `FeatureConstraints`, `Packing`, `Scratch` and
    `Plugins`.
    """

    matrix: Reference
    limits: Reference
    constraints: Reference
    packing: Reference
    scratch: Reference
    plugins: Reference


class Members(NamedTuple):
    """One node: its `NODE` record, and its contiguous rows and words.

    ``is_wide`` is whether the sums of a node of one channel can exceed one word.
    """

    node: np.ndarray
    row: np.ndarray
    word: np.ndarray
    is_wide: bool


class RowTargets(NamedTuple):
    """Targets and weights of the rows of one tree.

    Attributes
    ----------
    weight : int32 (n,)
        Integer weight of each row; of rows outside the tree, 0.
    inside : bool (n,), or empty
        Whether a row is in the tree; if empty, all rows of positive weight are in the tree.
    classes : int32 (n,), or empty
        Encoded class of each row.
    values : int32 (n, K), or (0, 0)
        Quantised targets of regression.
    gradient : int32 (n, K), or (0, 0)
        Quantised gradients of boosting.
    ranks : int32 (n, K), or (0, 0)
        Ranks of the targets for trees of medians; ``classes`` and ``values`` are then empty.
    median_weight : int64 (n,), or empty
        Weights of rows in medians; if empty (one output only), these are ``weight``.
    wide : int64 (n, P), or (0, 0)
        Terms of the leaf sums; (0, 0) if leaf sums are weights of classes.
    n_classes : int
        Number of classes, 1 without classes.
    draws : bool
        Whether ``wide`` is multiplied by the weights.
    """

    weight: np.ndarray
    inside: np.ndarray
    classes: np.ndarray
    values: np.ndarray
    gradient: np.ndarray
    ranks: np.ndarray
    median_weight: np.ndarray
    wide: np.ndarray
    n_classes: int
    draws: bool
