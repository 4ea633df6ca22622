"""Reading of a source of tables for `Dataset.from_batches`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuboost.backends.cost_model import binning_times
from gpuboost.backends.select import choose_backend, numpy_backend
from gpuboost.blocks.coding import code_columns, code_columns_as
from gpuboost.blocks.limits import memory_bytes
from gpuboost.blocks.sources import ColumnSource
from gpuboost.data.frames import FeatureSchema
from gpuboost.data.parameters import integer_between
from gpuboost.data.validation import check_weights
from gpuboost.engine.bins import BinMapper, BinnedMatrix, BinRule


class BatchReader:
    """The columns of a source, some of which are not features.

    Parameters
    ----------
    columns : ColumnSource
    label, weight, memory_limit
        As in `Dataset.from_batches`.
    n_threads : int

    Attributes
    ----------
    y, weights : ndarray of shape (n_samples,), or None
        The columns of labels and of weights.
    """

    def __init__(
        self,
        columns: ColumnSource,
        label: str | None,
        weight: str | None,
        memory_limit: int | None,
        n_threads: int,
    ) -> None:
        limit = memory_bytes() // 2 if memory_limit is None else memory_limit
        self._limit = integer_between("memory_limit", limit, 1, 2**62)
        self._columns, self._n_threads = columns, n_threads
        self._names = [name for name in columns.names if name not in (label, weight)]
        if not columns.n_rows or not self._names:
            raise ValueError(
                f"this source has {columns.n_rows} rows and {len(self._names)} features besides "
                "label and weight; give at least one row and one feature"
            )
        self.y, self.weights = self._apart("label", label), self._apart("weight", weight)

    def _apart(self, parameter: str, name: str | None) -> np.ndarray | None:
        """A column that is no feature."""
        if name is None:
            return None
        if name not in self._columns.names:
            known = self._columns.names[:10]
            raise ValueError(f"{parameter}={name!r} is not a column; the source has {known}")
        return self._columns.read([name]).column(0).to_numpy()

    def learn(self, categorical_features: Any, max_bins: int) -> tuple[FeatureSchema, BinnedMatrix]:
        """Learn the bins of the features, and bin them."""
        shape = self._columns.n_rows, len(self._names)
        backend = choose_backend("cpu", binning_times(shape))
        rule = max_bins, check_weights(self.weights, shape[0])

        def fit_bins(matrix: Any, of_group: BinRule) -> BinnedMatrix:
            return backend.fit_bins(matrix, of_group, self._n_threads)

        given = self._names, categorical_features, rule, fit_bins, self._limit
        return code_columns(self._columns, *given)

    def bin_as(self, schema: FeatureSchema, mapper: BinMapper) -> BinnedMatrix:
        """Bin the features with known categories and bins."""
        names = np.array(self._names, dtype=object) if schema.names is not None else None
        schema.check_columns(names, len(self._names), "Dataset")

        def bin_matrix(matrix: Any, of_group: BinMapper) -> BinnedMatrix:
            return numpy_backend().bin(matrix, of_group, self._n_threads)

        given = self._names, schema, mapper, bin_matrix, self._limit
        return code_columns_as(self._columns, *given)
