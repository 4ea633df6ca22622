"""Row sets whose raw predictions, losses and directions are kept from round to round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import typeof, types

from gpuboost.backends.numba.boosting.mean_loss import WeightedSum
from gpuboost.backends.numba.boosting.visits import (
    GRADIENT_BLOCK,
    LOSS_LOOPS,
    PAIR_LOOPS,
    VISIT_CLASSES,
    VISIT_COLUMNS,
    RowArrays,
    Visit,
)
from gpuboost.backends.numba.references import by_reference
from gpuboost.backends.numba.threads.map import contiguous
from gpuboost.backends.numba.threads.pool import ThreadPool
from gpuboost.engine.growth.tree import Tree
from gpuboost.engine.losses import Loss, Predicted

VISIT_CHUNK = 1 << 12  # rows of one task; with 8,192, 10k x 20 takes 2% longer on two threads
_COLUMN = types.Array(types.float64, 1, "C")
_NO_VALUES = np.zeros(0), np.zeros(0, np.int64)


class Directions(NamedTuple):
    """Directions (negative gradients) and hessians of the loss in K columns, times the weights.

    Attributes
    ----------
    gradient : float64 (K, n)
        Negative gradients.
    hessian : float64 (K, n) or (1, n)
        One row of weights if these are the hessians of all columns.
    sizes : float64 (chunks, 4)
        For each chunk, the largest and the approximate mean magnitude of the gradients, then of the
        hessians. Hessians that are weights have the values of all rows in each chunk. For a loss
        without a formula, all rows are one chunk.
    """

    gradient: np.ndarray
    hessian: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, gradient: np.ndarray, hessian: np.ndarray) -> Directions:
        """Those of computed gradients and hessians (n, K)."""
        g, h = np.ascontiguousarray(-gradient.T), np.ascontiguousarray(hessian.T)
        sizes = [f(values) for values in (abs(g), h) for f in (np.max, np.mean)]
        return cls(g, h, np.array([sizes]))


class VisitedRows:
    """A row set of a loss with a formula; its raw predictions change by `add` only.

    A visit of the rows that adds leaf values also computes the losses and, for training rows, the
    directions of the next round, unless the loss has another parameter in each round.

    Parameters
    ----------
    loss : Loss
    predicted : Predicted
        Its ``raw`` is changed in place if it is column-major, or row-major for softmax.
    pool : ThreadPool
    losses : float64 (n,)
        Memory for the losses of the rows. If others write to it, `forget` must follow.
    is_trained : bool
        Whether `directions` are needed.
    """

    def __init__(
        self,
        loss: Loss,
        predicted: Predicted,
        pool: ThreadPool,
        losses: np.ndarray,
        is_trained: bool = True,
    ) -> None:
        self._loss, self._pool, self._is_trained = loss, pool, is_trained
        self._command = VISIT_CLASSES if loss.takes_rows else VISIT_COLUMNS
        arrays = _arrays_of(loss, predicted, losses, pool.n_threads, is_trained)
        self._arrays, self._rows = arrays, by_reference(arrays)
        self._directions: Directions | None = None
        self._sum = WeightedSum(arrays.losses, pool)
        self._total = 0.0  # sum of the weights
        self._parameter_varies, self._has_losses, self._has_directions = False, False, False

    def set_parameter(self, parameter: np.ndarray) -> None:
        """Set the loss's parameter of a round."""
        own = self._arrays.parameter
        if not (own == parameter).all():
            self._parameter_varies |= self._has_losses or self._has_directions
            self._has_losses = self._has_directions = False
            own[:] = parameter

    def add(self, trees: Sequence[Tree], leaf: np.ndarray) -> None:
        """Add the values of the rows' leaves, int32 (T, n), in the T trees of a round."""
        columns = [column for tree in trees for column in tree.value.T]
        ends = np.cumsum([len(column) for column in columns])
        first, values = np.append(0, ends[:-1]), np.concatenate(columns)
        ahead = self._is_trained and not self._parameter_varies
        self._visit(values, first, contiguous(leaf, np.int32), True, ahead)

    def directions(self) -> Directions:
        """Gradients, times -1, and hessians of `Loss.gradients`, bit for bit.

        The arrays are those of the last call, with new values.
        """
        if not self._has_directions:
            self._look(False, True)
        if self._directions is None:
            own = self._arrays
            hessian = own.hessian
            if self._loss.constant_hessian:
                hessian = (own.weights if len(own.weights) else np.ones(len(own.losses)))[None]
                own.sizes[:, 2], own.sizes[:, 3] = hessian.max(), hessian.mean()
            self._directions = Directions(own.gradient, hessian, own.sizes)
        return self._directions

    def row_losses(self) -> np.ndarray:
        """Loss of each row, with the same bits as `Loss.row_losses`: float64 (n,)."""
        if not self._has_losses:
            self._look(True, False)
        return self._arrays.losses

    def mean_loss(self, weights: np.ndarray | None = None) -> float:
        """Mean loss, with the bits of `Loss.mean_loss`; ``weights`` replace those of the rows."""
        losses, own = self.row_losses(), self._arrays.weights
        if weights is not None:
            by = contiguous(weights, np.float64)
            return self._sum.of(by) / WeightedSum(by, self._pool).of()
        if not len(own):
            return self._sum.of() / float(len(losses))
        if not self._total:
            self._total = WeightedSum(own, self._pool).of()
        return self._sum.of(own) / self._total

    def forget(self) -> None:
        """Compute losses and directions again at their next use.

        Raw predictions, or the memory of the losses, were changed elsewhere.
        """
        self._has_losses = self._has_directions = False

    def _look(self, finds_losses: bool, finds_directions: bool) -> None:
        """Compute losses or directions at the current raw predictions."""
        none = np.zeros((0, len(self._arrays.losses)), np.int32)
        self._visit(*_NO_VALUES, none, finds_losses, finds_directions)

    def _visit(
        self,
        values: np.ndarray,
        first: np.ndarray,
        leaf: np.ndarray,
        finds_losses: bool,
        finds_directions: bool,
    ) -> None:
        finds_losses |= self._loss.takes_rows
        visit = Visit(self._rows, values, first, leaf, finds_losses, finds_directions)
        self._pool.run(self._command, by_reference(visit), len(leaf.T) // VISIT_CHUNK)
        is_same = not len(leaf)
        self._has_losses = finds_losses or (is_same and self._has_losses)
        self._has_directions = finds_directions or (is_same and self._has_directions)


def _arrays_of(
    loss: Loss, predicted: Predicted, losses: np.ndarray, n_threads: int, is_trained: bool
) -> RowArrays:
    """The arrays of a row set; parameters are NaN."""
    n, k = predicted.raw.shape
    raw = contiguous(predicted.raw if loss.takes_rows else predicted.raw.T, np.float64)
    y = predicted.y.reshape(n, -1).T
    target = contiguous(y, np.int32 if loss.is_classifier else np.float64)
    fill = add = 0
    if not loss.takes_rows:
        kinds = typeof(target[0]), _COLUMN, types.float64
        fill = PAIR_LOOPS[loss.formula].address(*kinds, _COLUMN, _COLUMN)
        add = LOSS_LOOPS[loss.formula].address(*kinds, _COLUMN)
    weights = predicted.weights
    columns = k if is_trained else 0
    return RowArrays(
        fill=fill,
        add=add,
        y=target,
        raw=raw,
        weights=np.zeros(0) if weights is None else contiguous(weights, np.float64),
        parameter=np.full(k, np.nan),
        gradient=np.empty((columns, n)),
        hessian=np.empty((0 if loss.constant_hessian else columns, n)),
        losses=losses,
        sizes=np.zeros((-(-n // VISIT_CHUNK), 4)),
        space=np.empty((n_threads, GRADIENT_BLOCK * (k + 2 if loss.takes_rows else 1))),
        chunk=VISIT_CHUNK,
    )
