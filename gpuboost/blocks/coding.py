"""Binning of the columns of a source, a few at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuboost.blocks.sources import ColumnSource
from gpuboost.blocks.spill import SpilledCodes, make_codes, store
from gpuboost.data.frames import FeatureSchema, apply_schema, categorical_mask, fit_schema
from gpuboost.data.validation import check_features
from gpuboost.engine.bins import BinMapper, BinnedMatrix, BinRule

CODED_COLUMNS = 16  # columns that are read and binned together, if the memory allows
BYTES_PER_VALUE = 24  # of a value while it is read and binned
_MISSING_CODE = 255  # until all columns have their bins; codes of values are at most 254

Bin = Callable[[Any, BinRule], BinnedMatrix]
BinAs = Callable[[Any, BinMapper], BinnedMatrix]


def code_columns(
    columns: ColumnSource,
    names: list[str],
    choice: Any,
    rule: tuple[int, NDArray[np.float64] | None],
    fit_bins: Bin,
    memory_limit: int,
) -> tuple[FeatureSchema, BinnedMatrix]:
    """Learn the bins of some columns as `Dataset` does for the whole table, and bin them.

    Parameters
    ----------
    columns : ColumnSource
    names : list of str
        The columns that are features.
    choice : "from_dtype", None, or sequence of str, int or bool
        The categorical features, see `Dataset`.
    rule : (int, ndarray or None)
        Maximum number of bins, and weights of the rows.
    fit_bins : callable
        Learns the bins of a matrix and bins it.
    memory_limit : int
        Bytes; codes that exceed half of them are in blocks.
    """
    (max_bins, weights), chosen = rule, None
    known = np.array(names, dtype=object) if columns.has_names else None
    if choice is not None and not (isinstance(choice, str) and choice == "from_dtype"):
        chosen = categorical_mask(choice, known, len(names)).tolist()
    found: list[tuple[FeatureSchema, BinMapper]] = []

    def read(first: int, group: list[str]) -> BinnedMatrix:
        own = choice if chosen is None else chosen[first : first + len(group)]
        matrix, schema = fit_schema(columns.read(group), own)
        check_features(matrix, schema.names)
        binned = fit_bins(matrix, BinRule(schema.is_categorical, max_bins, weights))
        found.append((schema, binned.mapper))
        return binned

    stored, n_missing = _code_groups(columns, names, memory_limit, read)
    whole = _joined([mapper for _, mapper in found])
    schema = FeatureSchema(
        known,
        len(names),
        whole.is_categorical,
        tuple(
            codes if columns.has_names or codes else None for own, _ in found for codes in own.codes
        ),
        isinstance(choice, str),
    )
    return schema, _finished(stored, whole, n_missing)


def _joined(mappers: list[BinMapper]) -> BinMapper:
    """The bins of the features of all mappers."""
    names = "n_bins", "lowest", "highest", "is_categorical"
    return BinMapper(*(np.concatenate([getattr(own, name) for own in mappers]) for name in names))


def code_columns_as(
    columns: ColumnSource,
    names: list[str],
    schema: FeatureSchema,
    mapper: BinMapper,
    bin_matrix: BinAs,
    memory_limit: int,
) -> BinnedMatrix:
    """Bin the columns of a source with known categories and bins."""

    def read(first: int, group: list[str]) -> BinnedMatrix:
        features = range(first, first + len(group))
        own = replace(schema.select(features), names=np.array(group, dtype=object))
        matrix = check_features(apply_schema(columns.read(group), own), own.names)
        return bin_matrix(matrix, mapper.select(features))

    stored, n_missing = _code_groups(columns, names, memory_limit, read)
    return _finished(stored, mapper, n_missing)


def _code_groups(
    columns: ColumnSource,
    names: list[str],
    memory_limit: int,
    read: Callable[[int, list[str]], BinnedMatrix],
) -> tuple[SpilledCodes | NDArray[np.uint8], NDArray[np.int64]]:
    """Codes of all columns, read in groups, and their numbers of missing values.

    Missing values have `_MISSING_CODE`.
    """
    n_missing = np.zeros(len(names), np.int64)
    n_rows = columns.n_rows
    stored = make_codes(len(names), n_rows, memory_limit)
    size = columns_at_once(n_rows, memory_limit)
    for first in range(0, len(names), size):
        binned = read(first, names[first : first + size])
        n_missing[first : first + size] = binned.n_missing
        for feature, codes in enumerate(binned.codes, first):
            if n_missing[feature]:
                codes = np.where(codes == binned.missing_code, np.uint8(_MISSING_CODE), codes)
            store(stored, feature, codes)
    return stored, n_missing


def columns_at_once(n_rows: int, memory_limit: int) -> int:
    """Number of columns that are read and binned together, in a quarter of the memory limit."""
    return max(1, min(CODED_COLUMNS, memory_limit // (4 * BYTES_PER_VALUE * n_rows)))


def _finished(
    stored: SpilledCodes | NDArray[np.uint8], mapper: BinMapper, n_missing: NDArray[np.int64]
) -> BinnedMatrix:
    """The binned matrix, once missing values have the mapper's code."""
    if mapper.missing_code != _MISSING_CODE and n_missing.any():
        if isinstance(stored, SpilledCodes):
            stored.replace(_MISSING_CODE, mapper.missing_code)
        else:
            stored[stored == _MISSING_CODE] = mapper.missing_code
    return BinnedMatrix(stored, mapper, n_missing)
