"""Prediction in NumPy: in each pass, rows that are not in a leaf move down a level.

A chunk of rows goes through several trees together, so that few rows take as many passes as the
deepest tree has levels, not as many as all trees have.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.tree import goes_left

ROWS_PER_CHUNK = 1 << 15
PATHS_PER_CHUNK = 1 << 15  # rows of a chunk times the values of trees that it goes through together


def leaves_of(ensemble: Ensemble, trees: slice, X: np.ndarray) -> np.ndarray:
    """Leaf of each row of ``X`` in some trees, numbered within the ensemble: int64 (n, trees)."""
    first = ensemble.offset[:-1][trees]
    n_trees = len(first)
    start, masks = np.tile(first, len(X)), ensemble.mask_offset[:-1][trees]
    node, active = start.copy(), np.flatnonzero(np.tile(ensemble.left[first] != 0, len(X)))
    while len(active):
        at, (row, tree) = node[active], np.divmod(active, n_trees)
        x, missing_left = X[row, ensemble.feature[at]], ensemble.missing_left[at]
        category = ensemble.category[at]
        if len(ensemble.masks):
            category = np.where(category < 0, category, category + masks[tree])
        split = ensemble.threshold[at], category, ensemble.masks
        left = goes_left(x, *split, np.isnan(x), missing_left)
        at = start[active] + ensemble.left[at] + ~left
        node[active] = at
        active = active[ensemble.left[at] != 0]
    return node.reshape(len(X), n_trees)


def leaves_in_chunks(
    ensemble: Ensemble, X: np.ndarray
) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Yield slices of rows and of trees, and the leaves of these rows there (see `leaves_of`)."""
    n_rows = max(1, min(len(X), ROWS_PER_CHUNK))
    size = max(1, PATHS_PER_CHUNK // (n_rows * ensemble.n_values))
    for start in range(0, len(X), ROWS_PER_CHUNK):
        rows = slice(start, start + ROWS_PER_CHUNK)
        for first in range(0, ensemble.n_trees, size):
            trees = slice(first, first + size)
            yield rows, trees, leaves_of(ensemble, trees, X[rows])


def predict(ensemble: Ensemble, X: np.ndarray) -> np.ndarray:
    """Sum over trees, in order, of the value of each row's leaf: float64 (n, n_values)."""
    total = np.zeros((len(X), ensemble.n_values))
    for rows, _, leaves in leaves_in_chunks(ensemble, X):
        parts = np.concatenate([total[None, rows], ensemble.value[leaves.T]])
        total[rows] = np.cumsum(parts, axis=0)[-1]  # summed first to last
    return total


def apply(ensemble: Ensemble, X: np.ndarray) -> np.ndarray:
    """Leaf of each row in each tree, numbered within the tree: int32 (n, n_trees)."""
    found = np.empty((len(X), ensemble.n_trees), dtype=np.int32)
    for rows, trees, leaves in leaves_in_chunks(ensemble, X):
        found[rows, trees] = leaves - ensemble.offset[:-1][trees]
    return found
