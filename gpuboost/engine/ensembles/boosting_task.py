"""The tasks and results of gradient boosting in a backend, as frozen dataclasses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuboost.engine.bins import BinnedMatrix
from gpuboost.engine.growth.tree import Tree
from gpuboost.engine.losses import Loss
from gpuboost.engine.sampling import RowSampler, whole_weights
from gpuboost.engine.task import TreeOptions


@dataclass(frozen=True, eq=False)
class RowSet:
    """Rows whose raw predictions a fit updates, for training or only for evaluation.

    Attributes
    ----------
    data : BinnedMatrix, or float32 or float64 (n, F)
        Features. If evaluation rows are not binned, their values are compared with thresholds.
    y : float64 (n,) or (n, n_outputs), or class codes int32 (n,)
        Targets.
    weights : float64 (n,) or None
        Sample weights; None means equal weights.
    raw : float64 (n, columns)
        Raw predictions before the first round.
    """

    data: BinnedMatrix | np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    raw: np.ndarray


@dataclass(frozen=True, eq=False)
class BoostTask:
    """The facts of a gradient boosting fit that stay the same from round to round.

    Attributes
    ----------
    matrix : BinnedMatrix
        Binned training rows.
    train : RowSet
        The training rows; its ``data`` is ``matrix``.
    watched : tuple of RowSet
        Sets of evaluation rows.
    loss : Loss
        The loss that is minimised.
    options : TreeOptions
        Options with the regularisation in the units of the loss.
    min_hessian : float
        Minimum sum of the hessians in a leaf, in the units of the loss. If a tree holds all
        columns, a row counts with the mean of its hessians.
    sums_outputs : bool
        Whether one tree per round holds all columns in its leaves; else each column has a tree.
    sampler : RowSampler
        Draws the rows of round r as the rows of tree r; only its draw counts are used.
    seed : int
        Seed of the trees and of rounding.
    features_of : callable or None
        Maps the number of a tree to its ascending int32 features; None means all features.
    n_threads : int
        Number of threads.
    memory_budget : int
        Memory for histograms and other temporary arrays, in bytes.
    """

    matrix: BinnedMatrix
    train: RowSet
    watched: tuple[RowSet, ...]
    loss: Loss
    options: TreeOptions
    min_hessian: float
    sums_outputs: bool
    sampler: RowSampler
    seed: int
    features_of: Callable[[int], np.ndarray] | None = None
    n_threads: int = 1
    memory_budget: int = 2**30

    @property
    def trees_per_round(self) -> int:
        """1 if one tree holds all columns of raw predictions, else their number."""
        return 1 if self.sums_outputs else self.loss.columns

    def whole_hessian(self) -> np.ndarray | None:
        """Hessians, int32 (n,), if they are the same small integers in every round, else None."""
        weights = self.train.weights
        if not self.loss.constant_hessian:
            return None
        if weights is None:
            return np.ones(self.matrix.n_samples, dtype=np.int32)
        whole, unit = whole_weights(weights)
        return whole if unit == 1.0 else None


@dataclass(frozen=True)
class RoundLosses:
    """Mean losses of all row sets after a round, computed with the round's ``parameter``.

    Attributes
    ----------
    train : float
        Loss of the training rows that the round was fitted on.
    outside : (float, float) or None
        Loss of the other training rows with positive weight, before and after the round; None
        without such rows, or if rounds use all rows.
    watched : tuple of float
        Loss of each set of evaluation rows.
    """

    train: float
    outside: tuple[float, float] | None
    watched: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class DoneRound:
    """The trees of a round and the mean losses after it."""

    trees: list[Tree]
    losses: RoundLosses

    def read(self) -> DoneRound:
        """Return the round itself, since there is nothing to wait for."""
        return self
