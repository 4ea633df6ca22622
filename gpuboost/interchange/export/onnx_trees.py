"""The attributes of the operator `TreeEnsemble` (`ai.onnx.ml`, opset 5) for an ensemble.

The operator numbers inner nodes and leaves separately, and a leaf adds one number to one target::

    tree 0: split, leaf, split, leaf, leaf      tree 1: split, leaf, leaf
    nodes   0              1                            2
    leaves        2               3     4                      5     6

Some versions of onnxruntime take a root for a leaf if the numbers of its two children are equal,
although one is a node and the other one a leaf. `UNUSED_LEAVES` prevents this: the number of a leaf
is then above those of its tree's root and of the root's children. Up to version 1.27, onnxruntime
also reads the wrong value for a tree that is a leaf, so `without_single_leaves` makes it a split.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from gpuboost.engine.bins import MAX_BINS, round_down_to_float32
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.tree import Tree
from gpuboost.interchange.export.category_numbers import bits_of_masks, mask_rows

UNUSED_LEAVES = 2
SUM_OF_LEAVES = 1  # aggregate_function
BRANCH_LEQ, BRANCH_MEMBER = 0, 6  # of nodes_modes
MISSING_CODE = MAX_BINS  # stands for missing values and unknown categories


@dataclass(frozen=True, eq=False)
class SplitInputs:
    """The columns of the matrix that the operator gets, and what they hold.

    Attributes
    ----------
    column : int64 (n_features,)
        The column of each feature.
    codes : dict of int to ndarray
        Codes in the column of each categorical feature, besides `MISSING_CODE`.
    dtype : type
        Type of the matrix, float32 or float64.
    """

    column: np.ndarray
    codes: dict[int, np.ndarray]
    dtype: type


def without_single_leaves(trees: Ensemble) -> Ensemble:
    """The same trees, but those that are a leaf become a split with this leaf on both sides."""
    if (trees.left[trees.offset[:-1]] > 0).all():
        return trees
    return Ensemble.of(tree if tree.node_count > 1 else _stump(tree) for tree in trees.trees)


def _stump(leaf: Tree) -> Tree:
    columns = {f.name: getattr(leaf, f.name) for f in fields(leaf)}
    masks = columns.pop("masks")
    whole = {name: np.repeat(column, 3, axis=0) for name, column in columns.items()}
    whole["left"][0], whole["feature"][0], whole["threshold"][0] = 1, 0, 0.0
    return Tree(masks=masks, **whole)


def tree_attributes(
    trees: Ensemble, inputs: SplitInputs, leaf_values: np.ndarray, leaf_targets: np.ndarray
) -> dict[str, Any]:
    """The attributes of the operator, arrays for those that are tensors and lists for the others.

    Parameters
    ----------
    trees : Ensemble
        Trees that have splits.
    leaf_values, leaf_targets : ndarray of shape (n_leaves,)
        What each leaf adds, and to which target; in the order of the ensemble's nodes.
    """
    is_leaf = trees.left == 0
    rows, unused = np.flatnonzero(~is_leaf), np.zeros(UNUSED_LEAVES, dtype=np.int64)
    # Number of each of the ensemble's nodes among the nodes or leaves of the operator.
    index = np.where(is_leaf, np.cumsum(is_leaf) - 1 + UNUSED_LEAVES, np.cumsum(~is_leaf) - 1)
    left = (np.repeat(trees.offset[:-1], np.diff(trees.offset)) + trees.left)[rows]
    mask = mask_rows(trees)[rows]
    sets, swap = _member_sets(trees, rows, mask, inputs)
    if_true, if_false = left + swap, left + ~swap
    tracks = trees.missing_left[rows] & (mask < 0)
    attributes: dict[str, Any] = {
        "aggregate_function": SUM_OF_LEAVES,
        "tree_roots": index[trees.offset[:-1]].tolist(),
        "nodes_modes": np.where(mask >= 0, BRANCH_MEMBER, BRANCH_LEQ).astype(np.uint8),
        "nodes_splits": _thresholds(trees.threshold[rows], inputs.dtype),
        "nodes_featureids": inputs.column[trees.feature[rows]].tolist(),
        "nodes_truenodeids": index[if_true].tolist(),
        "nodes_trueleafs": is_leaf[if_true].astype(int).tolist(),
        "nodes_falsenodeids": index[if_false].tolist(),
        "nodes_falseleafs": is_leaf[if_false].astype(int).tolist(),
        "nodes_missing_value_tracks_true": tracks.astype(int).tolist(),
        "leaf_targetids": np.append(unused, leaf_targets).tolist(),
        "leaf_weights": np.append(unused, leaf_values).astype(inputs.dtype),
    }
    if sets:
        ends = [np.append(own, np.nan) for own in sets]
        attributes["membership_values"] = np.concatenate(ends).astype(inputs.dtype)
    return attributes


def _thresholds(threshold: np.ndarray, dtype: type) -> np.ndarray:
    """Thresholds of nodes, 0 where there is none.

    For float32, they are rounded down, so that ``x <= threshold`` is exact for every float32 x.
    """
    filled = np.where(np.isnan(threshold), 0.0, threshold)
    return round_down_to_float32(filled) if dtype == np.float32 else filled


def _member_sets(
    trees: Ensemble, rows: np.ndarray, mask: np.ndarray, inputs: SplitInputs
) -> tuple[list[np.ndarray], np.ndarray]:
    """The set of codes of each categorical split, and whether nodes send their set right.

    A set is the smaller one of those that go left and right, or the other one if it is empty.
    """
    to_left, swap = bits_of_masks(trees.masks), np.zeros(len(rows), dtype=bool)
    sets = []
    for index in np.flatnonzero(mask >= 0).tolist():
        codes = np.append(inputs.codes[int(trees.feature[rows[index]])], MISSING_CODE)
        goes_left = to_left[mask[index]][codes]
        goes_left[-1] = trees.missing_left[rows[index]]
        n_left = int(goes_left.sum())
        swap[index] = n_left == 0 or 0 < len(codes) - n_left < n_left
        sets.append(codes[goes_left != swap[index]])
    return sets, swap
