"""Prediction: an ensemble is packed in the form that is fastest for it and for the number of rows.

    perfect_trees   many shallow trees without categorical splits (`are_perfect_faster`)
    coded_trees     the same, for many rows
    deep_trees      large trees, for many rows
    traversal       all others

An ensemble is packed at the first call for each type of rows (see `backends.packed`).
"""

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.predict.coded_trees import (
    CODED_BLOCK,
    MIN_CODED_ROWS,
    CodedTrees,
    coded_buffers,
    make_coded,
    predict_coded,
)
from gpuboost.backends.numba.predict.deep_trees import (
    LARGE_TREE,
    ROWS_PER_NODE,
    DeepTrees,
    make_deep,
    nodes_per_tree,
    predict_deep,
)
from gpuboost.backends.numba.predict.perfect_trees import (
    PERFECT_BLOCK,
    PerfectTrees,
    are_perfect_faster,
    bits_of_rows,
    make_perfect,
    predict_perfect,
)
from gpuboost.backends.numba.predict.traversal import ForestArrays, pack_forest, traverse_forest
from gpuboost.backends.numba.references import Reference
from gpuboost.backends.numba.threads.map import contiguous, map_in_order, row_chunks
from gpuboost.backends.packed import PackedEnsembles
from gpuboost.engine.ensembles.ensemble import Ensemble

# Maximum rows of one task: each tree's nodes are fetched once per task (measured: 110 ns per row
# and tree with 2**11 rows, 31 ns with 2**16). The values of a task's rows, which are copied unless
# they are contiguous, take at most `CHUNK_BYTES` bytes, unless a single row takes more.
PREDICTION_CHUNK = 1 << 16
CHUNK_BYTES = 1 << 25

_forests: PackedEnsembles[Reference] = PackedEnsembles()


def packed(
    ensemble: Ensemble, dtype: np.dtype, n_features: int, n_threads: int, *, is_large: bool = False
) -> Reference:
    """The ensemble for rows of ``dtype``, packed at the first call.

    `PerfectTrees` or `ForestArrays`; or, for many rows, `CodedTrees` or `DeepTrees` if these are
    faster.
    """

    def pack() -> Reference:
        is_perfect = are_perfect_faster(ensemble, n_features)
        if is_large:
            make = make_coded if is_perfect else make_deep
            coded = make(ensemble, dtype, n_threads)
            return coded or packed(ensemble, dtype, n_features, n_threads)
        if is_perfect:
            return make_perfect(ensemble, dtype, n_features, n_threads)
        return pack_forest(ensemble, dtype, n_threads)

    return _forests.of((ensemble,), (dtype.char, n_features, is_large), pack)


def chunks_of(X: np.ndarray, n_threads: int, block: int = 1) -> list[slice]:
    """Chunks of whole blocks; with several threads, at least two per thread of enough rows."""
    largest = max(1, min(PREDICTION_CHUNK, CHUNK_BYTES // (X.shape[1] * X.itemsize)))
    if n_threads > 1:
        largest = max(1, min(largest, -(-len(X) // (2 * n_threads))))
    return row_chunks(len(X), -(-largest // block) * block)


def predict(ensemble: Ensemble, X: np.ndarray, n_threads: int) -> np.ndarray:
    """Sum over trees of the value of each row's leaf: float64 (n, n_values)."""
    total = np.zeros((len(X), ensemble.n_values))
    _predict(ensemble, X, n_threads, total, np.empty((len(X), 0), np.int32))
    return total


def apply(ensemble: Ensemble, X: np.ndarray, n_threads: int) -> np.ndarray:
    """Leaf of each row in each tree, numbered within the tree: int32 (n, n_trees)."""
    found = np.empty((len(X), ensemble.n_trees), dtype=np.int32)
    _predict(ensemble, X, n_threads, np.zeros((len(X), 0)), found)
    return found


def _predict(
    ensemble: Ensemble, X: np.ndarray, n_threads: int, total: np.ndarray, found: np.ndarray
) -> None:
    """Fill ``total`` with sums of values, or ``found`` with leaves; the other array is empty."""
    n_nodes = nodes_per_tree(ensemble)
    is_large = len(X) >= (MIN_CODED_ROWS if n_nodes <= LARGE_TREE else ROWS_PER_NODE * n_nodes)
    forest = packed(ensemble, X.dtype, X.shape[1], n_threads, is_large=is_large)
    run = RUNS[forest.kind.record]
    if n_threads == 1 and len(X) <= PREDICTION_CHUNK and X.nbytes <= CHUNK_BYTES:
        run(forest, contiguous(X, X.dtype), total, found)
        return

    def run_chunk(rows: slice) -> None:
        run(forest, contiguous(X[rows], X.dtype), total[rows], found[rows])

    block = CODED_BLOCK if forest.kind.record is CodedTrees else 1
    list(map_in_order(run_chunk, chunks_of(X, n_threads, block), n_threads))


def _predict_perfect(trees: Reference, X: np.ndarray, total: np.ndarray, found: np.ndarray) -> None:
    bits = bits_of_rows(X)
    values = np.empty(2 * bits.shape[1] * PERFECT_BLOCK, bits.dtype)
    predict_perfect(trees, bits, total, found, values, np.empty(PERFECT_BLOCK, np.uint32))


def _predict_coded(trees: Reference, X: np.ndarray, total: np.ndarray, found: np.ndarray) -> None:
    predict_coded(trees, X, total, found, coded_buffers(trees, X.dtype))


RUNS = {
    CodedTrees: _predict_coded,
    DeepTrees: predict_deep,
    PerfectTrees: _predict_perfect,
    ForestArrays: traverse_forest,
}
