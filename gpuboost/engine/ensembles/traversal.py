"""The leaf of each row of a binned matrix in a tree, for training and evaluation rows."""

from __future__ import annotations

import numpy as np

from gpuboost.engine.bins import BinnedMatrix, SparseCodes
from gpuboost.engine.code_blocks import CodeBlocks
from gpuboost.engine.growth.tree import Tree, goes_left, levels, on_features

N_CODES = 256


def used_codes(tree: Tree, matrix: BinnedMatrix) -> tuple[Tree, np.ndarray]:
    """A tree, and codes with its features in the rows: uint8 (features, n).

    If the matrix is sparse, these are only the features that the tree splits on, which the returned
    tree has renumbered.
    """
    if not isinstance(matrix.stored, SparseCodes):
        return tree, matrix.codes
    used = np.unique(np.maximum(tree.feature, 0))
    return on_features(tree, used), matrix.stored.columns(used)


def leaves_of_codes(tree: Tree, matrix: BinnedMatrix) -> np.ndarray:
    """Index of each row's leaf among the nodes of a tree: int32 (n,)."""
    stored = matrix.stored
    if not isinstance(stored, CodeBlocks):
        return _leaves(*used_codes(tree, matrix), matrix.missing_code)
    used = np.unique(np.maximum(tree.feature, 0))
    tree, found = on_features(tree, used), np.empty(matrix.n_samples, np.int32)
    for rows in stored.row_slices:
        codes = np.stack([stored.column(int(feature), rows) for feature in used])
        found[rows] = _leaves(tree, codes, matrix.missing_code)
    return found


def _leaves(tree: Tree, codes: np.ndarray, missing_code: int) -> np.ndarray:
    """Index of each row's leaf, for rows with the given codes of all features: int32 (n,)."""
    n_samples = codes.shape[1]
    depths = levels(tree.left)
    if len(depths) == 1:
        return np.zeros(n_samples, dtype=np.int32)
    # All rows start at the root, whose feature is one row of the matrix.
    step = _steps(tree, depths[0], missing_code)
    node = step[0, codes[int(tree.feature[0])]]
    left = tree.left
    feature, rows = np.maximum(tree.feature, 0), np.arange(n_samples)
    for nodes in depths[1:-1]:
        if not left[nodes].any():
            break
        step = _steps(tree, nodes, missing_code)
        here = np.maximum(node - np.int32(nodes.start), np.int32(0))
        there = step[here, codes[feature[node], rows]]
        node = np.where(node >= nodes.start, there, node)
    return node


def _steps(tree: Tree, nodes: slice, missing_code: int) -> np.ndarray:
    """Child of each node of one level for each code: int32 (nodes, N_CODES).

    A leaf is its own child.
    """
    own = np.arange(nodes.start, nodes.stop, dtype=np.int32)
    left = tree.left[nodes]
    codes, missing_left = np.arange(N_CODES), tree.missing_left[nodes, None]
    split = tree.code[nodes, None], tree.category[nodes, None], tree.masks
    to_left = goes_left(codes, *split, codes == missing_code, missing_left)
    child = left[:, None] + np.where(to_left, np.int32(0), np.int32(1))
    return np.where((left > 0)[:, None], child, own[:, None]).astype(np.int32)
