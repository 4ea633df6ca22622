"""The arguments of compiled functions: named tuples of arrays, and the records of nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.common.constraints import BOUNDS, FeatureConstraints
from gpuboost.backends.numba.common.packed_words import Packing

LANES = 8  # bins of a block whose scores are computed together
SLOTS = 256 + LANES  # all bins, in whole blocks
HESSIAN, COUNT, GRADIENT = 0, 1, 2  # rows of `Scratch.sums`; channel p has row GRADIENT + p

NODE = np.dtype(
    [
        ("start", np.int64),  # its rows are start ... start + count of the tree's rows
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
    n_bins : int64 (F,)
        Number of value bins.
    center : float64 (F, width - 1)
    has_missing, is_categorical : bool (F,)
    missing_code : int
    """

    codes: np.ndarray
    n_bins: np.ndarray
    center: np.ndarray
    has_missing: np.ndarray
    is_categorical: np.ndarray
    missing_code: int
    any_categorical: bool


class Limits(NamedTuple):
    """`engine.task.TreeOptions` of one tree, with the limits that depend on its rows.

    ``by_median``: gradients are signs about the medians of the node. ``has_weightless``: some rows
    of the tree have weight 0. ``l1``, ``l2`` and ``max_value`` are for NEWTON.
    """

    criterion: int
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
    """Rows of a tree and their words, contiguous for each node, and buffers to move them."""

    row: np.ndarray
    word: np.ndarray
    spare_row: np.ndarray
    spare_word: np.ndarray


class Scratch(NamedTuple):
    """Buffers of one thread, reused for all features, nodes and trees.

    ``sums``, ``per_bin``, ``wide`` and ``missing`` have one row per field, see
    `splits/histograms.py`. Histograms are zero between features. ``terms`` (3, SLOTS) are those of
    the criterion. ``scores`` is filled in whole blocks of `LANES`; ``patterns`` is the same memory
    as int64. ``level_depth`` and ``level_last``: depths of the levels whose features are cached,
    and the rank of the last feature of each. ``chosen``: 1 for the features that the node may split
    on, used if these are not all. ``own`` and ``own_weights``: targets and weights of a node whose
    medians are selected. ``rare``: codes of categories that go where missing values go. ``bundle``:
    cells of a column whose features are taken out one by one.
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
    ranks: np.ndarray
    likely: np.ndarray
    chosen: np.ndarray
    level_depth: np.ndarray
    level_last: np.ndarray
    mask: np.ndarray
    split: np.ndarray
    own: np.ndarray
    own_weights: np.ndarray


class Problem(NamedTuple):
    """The arguments that stay the same while a tree grows.

    ``features`` are the features of the tree, int32; ``min_category`` is the smallest hessian of a
    category that is not rare.
    """

    matrix: Matrix
    features: np.ndarray
    limits: Limits
    constraints: FeatureConstraints
    packing: Packing
    scratch: Scratch
    min_category: int


class Members(NamedTuple):
    """One node: its `NODE` record, and its contiguous rows and words.

    ``is_wide``: the sums of the node may not fit one word.
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
    inside : bool (n,), or empty
        Whether a row is in the tree; if empty, rows of positive weight are.
    classes : int32 (n,), or empty
    values : int32 (n, K), or (0, 0)
    gradient : int32 (n, K), or (0, 0)
    ranks : int32 (n, K), or (0, 0)
        Ranks of the values whose medians split; then ``classes`` and ``values`` are empty.
    median_weight : int64 (n,), or empty
        Weights of rows in medians; empty for ``weight``, with one output.
    wide : int64 (n, P), or (0, 0)
        Columns of the leaf sums; (0, 0) if these are class weights.
    n_classes : int
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
