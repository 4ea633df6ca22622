"""The rows of one tree and their integer weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TreeRows:
    """The rows of one tree: its integer weights, and the sums its leaf values need.

    Attributes
    ----------
    weight : int32 (n,)
        Integer weight, draw count or hessian; what splits are scored with.
    inside : bool (n,) or None
        Rows in the tree; None: those of positive ``weight``. They differ only where a small real
        weight was rounded to zero: such a row follows the splits and counts as a row.
    draws : bool
        Whether ``weight`` multiplies the rows of ``wide`` in the leaf sums.
    wide : int64 (n, P) or None
        This tree's own leaf sums, in place of ``Target.wide``.
    exponents : int64 (P,) or None
        Those of ``wide``, in place of ``Target.exponents``.
    unit : float
        The user's weights are those that leaf sums add up, times this.
    gradient : int32 (n, K) or None
        In place of ``weight`` times a target: what boosting fits, the direction in which raw
        predictions are to move (Friedman's pseudo-residual; the loss's gradient times -1).
    """

    weight: np.ndarray
    inside: np.ndarray | None
    draws: bool
    wide: np.ndarray | None = None
    exponents: np.ndarray | None = None
    unit: float = 1.0
    gradient: np.ndarray | None = None

    @property
    def mask(self) -> np.ndarray:
        """Rows in the tree: bool (n,)."""
        return self.weight > 0 if self.inside is None else self.inside
