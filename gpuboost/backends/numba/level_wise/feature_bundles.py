"""Features of few values share a column of the row-major codes.

Up to 256 combinations of values fit one code, so eight features of two values each take one
addition a row instead of eight. The histogram of a column then is that of the combinations, and
that of a feature comes from it by sums over the other features, once a node:

    codes of a row    f0 in 0..2, f1 in 0..1      column  f0 + 3 * f1
    histogram         [f1][f0]  0 1 2 | 3 4 5     f1: 0+1+2, 3+4+5     f0: 0+3, 1+4, 2+5

All sums are integers, so splits are those of features of their own. What is missing counts as one
more value. Of half of 54 columns two-valued, 31 are left. Without bundles, boosting of 100k x 54
with 44 columns of two values takes 54% longer.
"""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.common.records import Matrix
from gpuboost.backends.numba.compiler import helper

BINS = 256  # cells of a column
MAX_VALUES = 16  # of a feature that shares a column: two of them fit


class FeatureBundles(NamedTuple):
    """Where the features are.

    Attributes
    ----------
    order : int64 (F,)
        Features by column, those that change slowest first.
    first : int64 (C + 1,)
        Where the features of each column start in ``order``.
    stride, values : int64 (F,)
        Of each feature, by how much its value raises the code of the column, and the number of
        its values; 0 values: the column is its own, missing values having the last code.
    """

    order: np.ndarray
    first: np.ndarray
    stride: np.ndarray
    values: np.ndarray


def plan_bundles(matrix: Matrix) -> FeatureBundles:
    """Put features of few values together, the fewest first, until a column is full."""
    n_values = np.maximum(matrix.n_bins + matrix.has_missing, 1)
    few = np.flatnonzero(n_values <= MAX_VALUES)
    columns: list[list[int]] = []
    stride, values = np.ones_like(n_values), np.zeros_like(n_values)
    full = 1
    for feature in few[np.argsort(n_values[few], kind="stable")].tolist():
        if not columns or full * n_values[feature] > BINS:
            columns.append([])
            full = 1
        columns[-1].append(feature)
        stride[feature], values[feature] = full, n_values[feature]
        full *= n_values[feature]
    columns = [column[::-1] for column in columns]
    for column in columns:
        if len(column) == 1:
            values[column] = 0
    columns += [[feature] for feature in np.flatnonzero(n_values > MAX_VALUES).tolist()]
    columns.sort(key=min)  # nearly as the features are
    first = np.cumsum([0, *(len(column) for column in columns)])
    order = np.array([feature for column in columns for feature in column], np.int64)
    return FeatureBundles(order, first.astype(np.int64), stride, values)


def bundle_codes(matrix: Matrix, columns: FeatureBundles) -> np.ndarray:
    """Codes of all columns, from those of features: uint8 (C, n)."""
    if len(columns.first) == len(columns.order) + 1:
        return matrix.codes
    joined = np.zeros((len(columns.first) - 1, matrix.codes.shape[1]), np.uint8)
    for column, codes in enumerate(joined):
        for feature in columns.order[columns.first[column] : columns.first[column + 1]]:
            own = matrix.codes[feature]
            if columns.values[feature]:
                value = np.where(own == matrix.missing_code, matrix.n_bins[feature], own)
                own = (value * columns.stride[feature]).astype(np.uint8)
            codes += own
    return joined


@helper
def take_out(bundle, stride, values, sums):
    """Sums by the values of the feature that changes slowest, which is then summed out.

    ``bundle`` (256,) has ``stride * values`` cells in use, and ``stride`` afterwards.
    """
    for value in range(values):
        total = np.int64(0)
        for low in range(stride):
            total += bundle[value * stride + low]
        sums[value] = total
    for value in range(1, values):
        for low in range(stride):
            bundle[low] += bundle[value * stride + low]
