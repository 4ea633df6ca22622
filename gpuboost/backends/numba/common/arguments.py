"""The arguments of compiled functions: conversion of the task of a fit, and buffers of threads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuboost.backends.numba.common.records import (
    LANES,
    SLOTS,
    SPLIT,
    Limits,
    Matrix,
    Rows,
    Scratch,
)
from gpuboost.backends.numba.intrinsics import COUNTED
from gpuboost.backends.numba.threads.map import contiguous
from gpuboost.engine.bins import BinMapper, BinnedMatrix, SparseCodes
from gpuboost.engine.code_blocks import CodeBlocks
from gpuboost.engine.criteria import CRITERIA
from gpuboost.engine.growth.policy import smallest_hessian
from gpuboost.engine.targets import Target, TreeRows
from gpuboost.engine.task import TreeOptions

_NO_CENTERS = np.zeros((0, COUNTED)), np.zeros(0, np.int64)
# The fields of `Matrix` for the entries of a dense matrix.
_NO_ENTRIES: dict[str, np.ndarray] = {
    "first_entry": np.zeros(0, np.int64),
    "entry_row": np.zeros(0, np.uint32),
    "entry_code": np.zeros(0, np.uint8),
    "zero_code": np.zeros(0, np.uint8),
    "first_of_row": np.zeros(0, np.int64),
    "features_by_row": np.zeros(0, np.uint32),
    "codes_by_row": np.zeros(0, np.uint8),
}


def matrix_of(
    binned: BinnedMatrix,
    as_stored: bool = False,
    entries_by_row: bool = False,
    with_centers: bool = False,
) -> Matrix:
    """The `Matrix` of a binned matrix; it can be sparse only if ``as_stored``.

    ``entries_by_row`` is whether the entries of a sparse matrix are needed row by row, too.
    Random thresholds require ``with_centers``; this is not checked.
    """
    mapper, stored = binned.mapper, binned.stored
    if isinstance(stored, CodeBlocks) or (
        isinstance(stored, SparseCodes) and not (as_stored and binned.grows_sparse)
    ):
        stored = binned.codes
    entries = _NO_ENTRIES
    if isinstance(stored, SparseCodes):
        entries = _entries_of(stored, entries_by_row)
        stored = np.zeros((0, stored.n_samples), np.uint8)
    codes = contiguous(stored, np.uint8)
    centers, first_center = _centers_of(mapper) if with_centers else _NO_CENTERS
    return Matrix(
        codes=codes,
        by_column=codes.reshape(-1),
        by_row=np.zeros(0, np.uint8),
        row_width=0,
        **entries,
        n_bins=contiguous(mapper.n_bins, np.int64),
        centers=centers,
        first_center=first_center,
        has_missing=contiguous(binned.n_missing > 0, np.bool_),
        is_categorical=contiguous(mapper.is_categorical, np.bool_),
        missing_code=int(mapper.missing_code),
        any_categorical=bool(mapper.is_categorical.any()),
    )


def _centers_of(mapper: BinMapper) -> tuple[np.ndarray, np.ndarray]:
    """The fields `Matrix.centers` and `Matrix.first_center`."""
    n_groups = -(-mapper.n_bins.astype(np.int64) // COUNTED)
    first = np.append(0, np.cumsum(n_groups + 1))
    centers = np.full((first[-1], COUNTED), np.inf)
    shift = np.repeat((first[:-1] + 1) * COUNTED - mapper.first[:-1], mapper.n_bins)
    centers.reshape(-1)[np.arange(len(shift)) + shift] = mapper.centers
    leading = np.full((len(n_groups), COUNTED), np.inf)
    leading[np.arange(COUNTED) < n_groups[:, None]] = np.delete(centers[:, 0], first[:-1])
    centers[first[:-1]] = leading
    return centers, first


def with_codes(matrix: Matrix, codes: np.ndarray) -> Matrix:
    """The matrix with other dense codes."""
    return matrix._replace(codes=codes, by_column=codes.reshape(-1))


def _entries_of(codes: SparseCodes, entries_by_row: bool) -> dict[str, np.ndarray]:
    """The fields of `Matrix` for the entries of a sparse matrix."""
    entries = _NO_ENTRIES | {
        "first_entry": codes.start,
        "entry_row": codes.row,
        "entry_code": codes.code,
        "zero_code": codes.zero_code,
    }
    if not entries_by_row:
        return entries
    first, features, codes_by_row = codes.by_row()
    return entries | {
        "first_of_row": first,
        "features_by_row": features,
        "codes_by_row": codes_by_row,
    }


@dataclass(frozen=True)
class Weights:
    """Properties of the row weights of a tree, on which the limits of the tree depend.

    Attributes
    ----------
    root_hessian : int
        Sum of the weights.
    are_ones : bool
        Whether every row of the tree has weight 1, so that the hessian of a node counts its rows.
    some_are_zero : bool
        Whether rows of the tree can have weight 0.
    """

    root_hessian: int
    are_ones: bool
    some_are_zero: bool

    @classmethod
    def of(cls, rows: TreeRows) -> Weights:
        """The properties of the weights of ``rows``."""
        some_are_zero = rows.inside is not None
        are_ones = not some_are_zero and bool(rows.weight.max() <= 1)
        return cls(int(rows.weight.sum(dtype=np.int64)), are_ones, some_are_zero)


def limits_of(options: TreeOptions, target: Target, weights: Weights) -> Limits:
    """The `Limits` of one tree."""
    fraction, root_hessian = options.min_weight_fraction_leaf, np.int64(weights.root_hessian)
    min_hessian = int(smallest_hessian(np, fraction, root_hessian, options.min_hessian))
    min_samples_leaf = int(options.min_samples_leaf)
    if weights.are_ones:
        min_hessian, min_samples_leaf = max(min_hessian, min_samples_leaf), 1
    return Limits(
        criterion=int(options.criterion),
        both_classes=CRITERIA[options.criterion].both_classes,
        scored_together=target.scored_together,
        is_regression=not target.by_class,
        has_gradients=target.has_gradients,
        by_median=target.by_median,
        has_weightless=weights.some_are_zero,
        random_thresholds=bool(options.random_thresholds),
        max_depth=int(options.max_depth),
        min_samples_split=int(options.min_samples_split),
        min_samples_leaf=min_samples_leaf,
        min_hessian=min_hessian,
        max_features=int(options.max_features),
        level_features=int(options.level_features),
        has_interactions=options.interactions is not None,
        hashed_order=bool(options.hashed_order),
        needs_gain=bool(options.needs_gain),
        max_leaf_nodes=int(options.max_leaf_nodes),
        min_impurity_decrease=float(options.min_impurity_decrease),
        gain_unit=target.gain_unit(options.criterion),
        root_hessian=float(weights.root_hessian),
        l1=float(options.regularisation.l1),
        l2=float(options.regularisation.l2),
        max_value=float(options.regularisation.max_value),
    )


def min_category(options: TreeOptions, root_hessian: int) -> int:
    """Smallest hessian of a category that is not rare, in one tree."""
    return int(smallest_hessian(np, options.min_category_fraction, np.int64(root_hessian), 0))


def make_scratch(
    n_samples: int,
    n_features: int,
    n_channels: int = 1,
    selects: bool = False,
    is_sparse: bool = False,
    n_entries: int = 0,
) -> Scratch:
    """Zeroed buffers of one thread; ``selects`` is whether medians are found by selection.

    ``n_entries`` is the number of entries of a node that are sorted by feature.

    ``n_samples`` can be 0 if the matrix is dense, and neither random thresholds nor medians need
    buffers for rows.
    """
    scores, fields = np.zeros(SLOTS), n_channels + 2
    return Scratch(
        totals=np.zeros(256, np.int64),
        occupied=np.zeros(4, np.uint64),
        bins=np.zeros(SLOTS, np.int64),
        prefix=np.zeros(SLOTS, np.int64),
        terms=np.zeros((3, SLOTS)),
        scores=scores,
        patterns=scores.view(np.int64),
        wide=np.zeros((fields, 256), np.int64),
        sums=np.zeros((fields, SLOTS), np.int64),
        bundle=np.zeros((fields, 256), np.int64),
        missing=np.zeros(fields, np.int64),
        per_bin=np.zeros((fields, 256), np.int64),
        keys=np.zeros(256),
        order=np.zeros(256, np.int64),
        rare=np.zeros(256, np.int64),
        codes=np.zeros(n_samples, np.uint8),
        **_sparse_buffers(n_samples if is_sparse else 0, n_features, n_entries),
        ranks=np.zeros(n_features, np.int64),
        collected=np.zeros(n_features + LANES, np.int64),
        sorted_ranks=np.zeros(n_features + LANES, np.int64),
        bucket_end=np.zeros(n_features, np.int64),
        chosen=np.zeros(n_features, np.int32),
        features=np.arange(n_features, dtype=np.int32),
        of_tree=np.array([n_features, 0]),
        mask=np.zeros(16, np.uint32),
        split=np.zeros(1, SPLIT),
        own=np.zeros(n_samples if selects else 0),
        own_weights=np.zeros(n_samples if selects else 0, np.int64),
    )


def _sparse_buffers(n_samples: int, n_features: int, n_entries: int) -> dict[str, np.ndarray]:
    """The fields of `Scratch` for sparse matrices; ``n_samples`` is 0 for a dense one."""
    return {
        "column": np.zeros(n_samples, np.uint8),
        "position": np.zeros(n_samples, np.uint32),
        "node_word": np.zeros(1, np.int64),
        "entry_starts": np.zeros(n_features + 2 if n_entries else 0, np.int64),
        "entry_codes": np.zeros(n_entries, np.uint8),
        "entry_words": np.zeros(n_entries, np.int64),
        "candidates": np.zeros((SLOTS if n_entries else 0, 3), np.int64),
    }


def make_rows(n_samples: int) -> Rows:
    """Uninitialised buffers for the rows of a tree or subtree that a thread grows."""
    return Rows(
        row=np.empty(n_samples, np.uint32),
        word=np.empty(n_samples, np.int64),
        spare_row=np.empty(n_samples, np.uint32),
        spare_word=np.empty(n_samples, np.int64),
    )
