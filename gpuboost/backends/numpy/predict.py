"""Prediction in NumPy: in each pass, rows of a chunk that are not in a leaf move down a level."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.tree import goes_left

ROWS_PER_CHUNK = 1 << 15


def leaves_of(ensemble: Ensemble, tree: int, X: np.ndarray) -> np.ndarray:
    """Leaf of each row of ``X`` in one tree, numbered within the ensemble: int64 (n,)."""
    node = np.full(len(X), ensemble.offset[tree])
    active, masks = np.arange(len(X)), ensemble.masks[ensemble.mask_offset[tree] :]
    while len(active):
        at = node[active]
        inner = ensemble.left[at] != 0
        active, at = active[inner], at[inner]
        x, missing_left = X[active, ensemble.feature[at]], ensemble.missing_left[at]
        split = ensemble.threshold[at], ensemble.category[at], masks
        left = goes_left(x, *split, np.isnan(x), missing_left)
        node[active] = ensemble.offset[tree] + ensemble.left[at] + ~left
    return node


def leaves_in_chunks(ensemble: Ensemble, X: np.ndarray) -> Iterator[tuple[slice, int, np.ndarray]]:
    """Yield a slice of rows, a tree, and the leaves of these rows in it (see `leaves_of`)."""
    for start in range(0, len(X), ROWS_PER_CHUNK):
        rows = slice(start, start + ROWS_PER_CHUNK)
        for tree in range(ensemble.n_trees):
            yield rows, tree, leaves_of(ensemble, tree, X[rows])


def predict(ensemble: Ensemble, X: np.ndarray) -> np.ndarray:
    """Sum over trees, in order, of the value of each row's leaf: float64 (n, n_values)."""
    total = np.zeros((len(X), ensemble.n_values))
    for rows, _, leaves in leaves_in_chunks(ensemble, X):
        total[rows] += ensemble.value[leaves]
    return total


def apply(ensemble: Ensemble, X: np.ndarray) -> np.ndarray:
    """Leaf of each row in each tree, numbered within the tree: int32 (n, n_trees)."""
    found = np.empty((len(X), ensemble.n_trees), dtype=np.int32)
    for rows, tree, leaves in leaves_in_chunks(ensemble, X):
        found[rows, tree] = leaves - ensemble.offset[tree]
    return found
