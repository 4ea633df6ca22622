"""The attributes of the operator `TreeEnsemble` (`ai.onnx.ml`, opset 5) for an ensemble.

The operator numbers inner nodes and leaves separately, and a leaf adds one number to one target::

    tree 0: split, leaf, split, leaf, leaf      tree 1: leaf (its "node" has it on both sides)
    nodes   0              1                            2
    leaves        2               3     4               5

Runtimes before onnxruntime 1.23 take a root for a leaf if its children are the leaf and the node of
the same number. `UNUSED_LEAVES` prevents this: the number of a leaf is then above that of the nodes
of its tree's root and its child.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.engine.bins import MAX_BINS, round_down_to_float32
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.interchange.export.category_numbers import bits_of_masks, mask_rows

UNUSED_LEAVES = 2
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


@dataclass(frozen=True, eq=False)
class Numbering:
    """The numbers of nodes and leaves in the operator.

    Attributes
    ----------
    rows : int64 (n_nodes,)
        The ensemble's node of each node: inner nodes, and roots that are leaves.
    leaves : int64 (n_leaves,)
        The ensemble's node of each leaf.
    place : int64 (n,)
        Number of each of the ensemble's nodes among ``rows`` or among the leaves of the operator.
    roots : int64 (n_trees,)
        The operator's node of the root of each tree.
    """

    rows: np.ndarray
    leaves: np.ndarray
    place: np.ndarray
    roots: np.ndarray

    @classmethod
    def of(cls, trees: Ensemble) -> Numbering:
        """Number the nodes of an ensemble."""
        is_leaf, first = trees.left == 0, trees.offset[:-1]
        is_row = ~is_leaf
        is_row[first] = True
        numbers = np.cumsum(is_row) - 1
        place = np.where(is_leaf, np.cumsum(is_leaf) - 1 + UNUSED_LEAVES, numbers)
        return cls(np.flatnonzero(is_row), np.flatnonzero(is_leaf), place, numbers[first])


def tree_attributes(
    trees: Ensemble, inputs: SplitInputs, leaf_values: np.ndarray, leaf_targets: np.ndarray
) -> dict[str, Any]:
    """The attributes of the operator, arrays for those that are tensors and lists for the others.

    Parameters
    ----------
    leaf_values, leaf_targets : ndarray of shape (n_leaves,)
        What each leaf adds, and to which target; in the order of the ensemble's nodes.
    """
    numbering = Numbering.of(trees)
    rows, place = numbering.rows, numbering.place
    start = np.repeat(trees.offset[:-1], np.diff(trees.offset))
    left = np.where(trees.left > 0, start + trees.left, np.arange(len(start)))[rows]
    right = left + (trees.left[rows] > 0)
    mask, feature = mask_rows(trees)[rows], np.maximum(trees.feature[rows], 0)
    sets, swap = _member_sets(trees, rows, mask, inputs)
    if_true, if_false = np.where(swap, right, left), np.where(swap, left, right)
    is_leaf, padding = trees.left == 0, np.zeros(UNUSED_LEAVES, dtype=np.int64)
    tracks = trees.missing_left[rows] & (mask < 0)
    attributes: dict[str, Any] = {
        "tree_roots": numbering.roots.tolist(),
        "nodes_modes": np.where(mask >= 0, BRANCH_MEMBER, BRANCH_LEQ).astype(np.uint8),
        "nodes_splits": _thresholds(trees.threshold[rows], inputs.dtype),
        "nodes_featureids": inputs.column[feature].tolist(),
        "nodes_truenodeids": place[if_true].tolist(),
        "nodes_trueleafs": is_leaf[if_true].astype(int).tolist(),
        "nodes_falsenodeids": place[if_false].tolist(),
        "nodes_falseleafs": is_leaf[if_false].astype(int).tolist(),
        "nodes_missing_value_tracks_true": tracks.astype(int).tolist(),
        "leaf_targetids": np.append(padding, leaf_targets).tolist(),
        "leaf_weights": np.append(padding, leaf_values).astype(inputs.dtype),
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
    for place in np.flatnonzero(mask >= 0).tolist():
        codes = np.append(inputs.codes[int(trees.feature[rows[place]])], MISSING_CODE)
        goes_left = to_left[mask[place]][codes]
        goes_left[-1] = trees.missing_left[rows[place]]
        n_left = int(goes_left.sum())
        swap[place] = n_left == 0 or 0 < len(codes) - n_left < n_left
        sets.append(codes[goes_left != swap[place]])
    return sets, swap
