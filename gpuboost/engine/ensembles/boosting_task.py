"""What a fit of gradient boosting asks of a backend: frozen descriptions, as `engine.task`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuboost.engine.bins import BinnedMatrix
from gpuboost.engine.growth.tree import Tree
from gpuboost.engine.losses import Loss
from gpuboost.engine.sampling import RowSampler
from gpuboost.engine.task import TreeOptions


@dataclass(frozen=True, eq=False)
class RowSet:
    """Rows whose raw predictions a fit follows: those it trains on, or some it only watches.

    Attributes
    ----------
    data : BinnedMatrix, or float32 or float64 (n, F)
        Rows that are only watched need not be binned: values between bins go as in prediction.
    y : float64 (n,) or (n, n_outputs), or class codes int32 (n,)
    weights : float64 (n,) or None
    raw : float64 (n, columns)
        Raw predictions before the first round.
    """

    data: BinnedMatrix | np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    raw: np.ndarray


@dataclass(frozen=True, eq=False)
class BoostTask:
    """All that stays the same from round to round.

    Attributes
    ----------
    matrix : BinnedMatrix
    train : RowSet
        Of the matrix.
    watched : tuple of RowSet
    loss : Loss
    options : TreeOptions
        Its regularisation in the units of the loss.
    min_hessian : float
        Smallest sum of hessians of a leaf, in the units of the loss.
    sums_outputs : bool
        One tree a round holds all columns in its leaves; else there is a tree for each column.
    sampler : RowSampler
        Draws the rows of round r as those of tree r, by its draw counts alone.
    features_of : callable or None
        Ascending int32 features of a tree, from its number; None: all.
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
    memory_budget: int = 256 * 2**20

    @property
    def trees_per_round(self) -> int:
        """One, or one for each column of raw predictions."""
        return 1 if self.sums_outputs else self.loss.columns


@dataclass(frozen=True)
class RoundLosses:
    """Mean losses after a round, of all row sets, with the parameter that the loss had in it.

    Attributes
    ----------
    train : float
        Of the training rows that the round was fitted on.
    outside : (float, float) or None
        Of the other ones that have weight, before the round and after it; None if there are none,
        or if rounds do not draw their rows.
    watched : tuple of float
        Of the sets that are watched.
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
        """Return the round itself: nothing is left to wait for."""
        return self
