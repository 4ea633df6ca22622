"""Prediction in NumPy: in each pass, every row of a chunk moves one level down the tree."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpuboost.engine.ensembles.ensemble import Ensemble

ROWS_PER_CHUNK = 1 << 15


def leaves_of(ensemble: Ensemble, tree: int, X: np.ndarray) -> np.ndarray:
    """Leaf of each row of ``X`` in one tree, numbered within the ensemble: int64 (n,)."""
    node = np.full(len(X), ensemble.offset[tree])
    active = np.arange(len(X))
    while len(active):
        at = node[active]
        inner = ensemble.left[at] != 0
        active, at = active[inner], at[inner]
        x = X[active, ensemble.feature[at]]
        left = x <= ensemble.threshold[at]
        categorical = ensemble.category[at] >= 0
        if categorical.any():
            row = ensemble.mask_offset[tree] + ensemble.category[at[categorical]]
            left[categorical] = in_mask(ensemble.masks[row], x[categorical])
        left = np.where(np.isnan(x), ensemble.missing_left[at], left)
        node[active] = ensemble.offset[tree] + ensemble.left[at] + ~left
    return node


def in_mask(masks: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Whether the bit of each category code is set; False for missing values."""
    code = np.where(np.isnan(x), 0, x).astype(np.int64)
    word = masks[np.arange(len(x)), code >> 5]
    return ((word >> (code & 31).astype(np.uint32)) & np.uint32(1)) == 1


def chunks(n: int) -> Iterator[slice]:
    """Slices of rows."""
    for start in range(0, n, ROWS_PER_CHUNK):
        yield slice(start, start + ROWS_PER_CHUNK)


def predict(ensemble: Ensemble, X: np.ndarray) -> np.ndarray:
    """Sum over trees, in order, of the value of each row's leaf: float64 (n, V)."""
    total = np.zeros((len(X), ensemble.n_values))
    for rows in chunks(len(X)):
        for tree in range(ensemble.n_trees):
            total[rows] += ensemble.value[leaves_of(ensemble, tree, X[rows])]
    return total


def apply(ensemble: Ensemble, X: np.ndarray) -> np.ndarray:
    """Leaf of each row in each tree, numbered within the tree: int32 (n, T)."""
    found = np.empty((len(X), ensemble.n_trees), dtype=np.int32)
    for rows in chunks(len(X)):
        for tree in range(ensemble.n_trees):
            found[rows, tree] = leaves_of(ensemble, tree, X[rows]) - ensemble.offset[tree]
    return found
