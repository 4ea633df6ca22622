"""Prediction: an ensemble is packed in the form that is fastest for it and for the number of rows.

    perfect_trees   many shallow trees without categorical splits (`are_perfect_faster`)
    coded_trees     the same, for many rows
    deep_trees      large trees, for many rows
    traversal       all others

An ensemble is packed at the first call for each type of rows (see `backends.packed`).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from gpuboost.backends.compiling import parallel
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
    buffer_bytes,
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
from gpuboost.backends.numba.threads.map import contiguous, row_chunks
from gpuboost.backends.packed import PackedEnsembles
from gpuboost.engine.ensembles.ensemble import Ensemble

# Maximum rows of one task: each tree's nodes are fetched once per task (measured: 110 ns per row
# and tree with 2**11 rows, 31 ns with 2**16). The values of a task's rows, which are copied unless
# they are contiguous, take at most `CHUNK_BYTES` bytes, unless a single row takes more; so do their
# buffers.
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
            plain = partial(packed, ensemble, dtype, n_features, n_threads)
            if is_perfect:
                return make_coded(ensemble, dtype) or plain()
            return make_deep(ensemble, dtype, n_threads, plain) or plain()
        if is_perfect:
            return make_perfect(ensemble, dtype, n_features)
        return pack_forest(ensemble, dtype, n_threads)

    return _forests.of((ensemble,), (dtype.char, n_features, is_large), pack)


def chunks_of(X: np.ndarray, n_threads: int, block: int = 1, row_bytes: int = 0) -> list[slice]:
    """Chunks of whole blocks; with several threads, at least two per thread of enough rows.

    ``row_bytes`` is the size of what is allocated for each row, if that is more than the row's.
    """
    row_bytes = max(row_bytes, X.shape[1] * X.itemsize)
    largest = max(1, min(PREDICTION_CHUNK, CHUNK_BYTES // row_bytes))
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
    run, is_deep = RUNS[forest.kind.record], forest.kind.record is DeepTrees
    block = CODED_BLOCK if is_deep or forest.kind.record is CodedTrees else 1
    chunks = chunks_of(X, n_threads, block, buffer_bytes(forest) if is_deep else 0)
    if len(chunks) == 1:
        run(forest, contiguous(X, X.dtype), total, found)
        return

    def run_chunk(rows: slice) -> None:
        run(forest, contiguous(X[rows], X.dtype), total[rows], found[rows])

    parallel(run_chunk, chunks, n_threads)


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
