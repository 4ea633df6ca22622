"""SHAP values of a fitted model, block by block of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gpuboost.backends.host.binned import code_blocks
from gpuboost.backends.protocol import Backend
from gpuboost.data.sparse_features import Features, SparseFeatures, to_dense
from gpuboost.engine.array_modules import copy_to_host
from gpuboost.engine.bins import BinMapper, BinnedMatrix
from gpuboost.engine.explanations.additive import AdditiveModel
from gpuboost.engine.explanations.dependence import expected_outputs

BLOCK_BYTES = 2**26  # of the values of a block


class Explanation(NamedTuple):
    """What SHAP values are computed with, for the rows of one call.

    Attributes
    ----------
    model : AdditiveModel
    data : Features or BinnedMatrix
        The rows; binned rows are explained by their codes.
    backend : Backend
    n_threads : int
    background : ndarray or None
        Background rows, with columns as ``data``, of interventional values.
    """

    model: AdditiveModel
    data: Features | BinnedMatrix
    backend: Backend
    n_threads: int
    background: np.ndarray | None = None

    def values(self) -> Iterator[np.ndarray]:
        """SHAP values of some rows after another: float64 (rows, n_features, n_outputs)."""
        model, other, n_background = self._model, self.background, 1
        for X in self._blocks(model.n_features * model.n_outputs):
            if other is None:
                found = self.backend.shap_values(model, X, self.n_threads)
            else:
                n_background = len(other)
                found = self.backend.interventional_shap(model, X, other, self.n_threads)
            yield self._as_floats(found, n_background)

    def interactions(self) -> Iterator[np.ndarray]:
        """Interaction values: float64 (rows, n_features, n_features, n_outputs)."""
        model = self._model
        for X in self._blocks(model.n_features**2 * model.n_outputs):
            yield self._as_floats(self.backend.shap_interactions(model, X, self.n_threads), 1)

    def expected(self) -> np.ndarray:
        """Outputs when no feature is known: float64 (n_outputs,)."""
        model, other = self._model, self.background
        if other is None:
            return expected_outputs(model)
        sums = np.zeros(model.n_outputs)
        leaves = self.backend.apply(model.ensemble, other, self.n_threads)
        for number, tree in enumerate(model.ensemble.trees):
            first = model.first_output[number]
            mean = tree.value[leaves[:, number]].sum(axis=0) / len(other)
            sums[first : first + len(mean)] += mean
        return model.base + sums / model.divisor

    @property
    def _model(self) -> AdditiveModel:
        return self.model.on_codes if isinstance(self.data, BinnedMatrix) else self.model

    def _blocks(self, n_values: int) -> Iterator[np.ndarray]:
        """Blocks of rows with at most `BLOCK_BYTES` of values, of which a row has ``n_values``."""
        size = max(1, BLOCK_BYTES // (8 * n_values))
        if isinstance(self.data, SparseFeatures):
            parts: Any = self.data.row_blocks()
        elif isinstance(self.data, BinnedMatrix):
            parts = (block for _, block in code_blocks(self.data))
        else:
            parts = (self.data,)
        for part in parts:
            for start in range(0, len(part), size):
                yield part[start : start + size]

    def _as_floats(self, found: np.ndarray, n_background: int) -> np.ndarray:
        values = found * (1.0 / self._model.scale(n_background))
        if (divisor := self.model.divisor * n_background) != 1.0:
            values /= divisor
        return values


def as_explained(
    other: Features | BinnedMatrix,
    data: Features | BinnedMatrix,
    mapper: BinMapper,
    backend: Backend,
) -> np.ndarray:
    """Background rows as the explained rows ``data`` are: columns or codes, dense, on the host."""
    if isinstance(data, BinnedMatrix):
        codes = other if isinstance(other, BinnedMatrix) else backend.bin(other, mapper, 1)
        return np.concatenate([copy_to_host(block) for _, block in code_blocks(codes)])
    if isinstance(other, BinnedMatrix):
        raise ValueError(
            "background is a Dataset, which has codes, but X is a table; pass both as Dataset, or "
            "both as tables"
        )
    return copy_to_host(to_dense(other))
