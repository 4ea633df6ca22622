"""The rows of one tree and their integer weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TreeRows:
    """The rows of one tree: their integer weights, and the terms of its leaf sums.

    Attributes
    ----------
    weight : int32 (n,)
        Integer weight, draw count or hessian, with which splits are scored.
    inside : bool (n,) or None
        Rows in the tree; None: those with positive ``weight``. They differ only if a small real
        weight was rounded to zero: such a row follows the splits and counts as a row.
    draws : bool
        Whether ``weight`` multiplies the rows of ``wide`` in the leaf sums.
    wide : int64 (n, P) or None
        This tree's own terms of leaf sums, in place of ``Target.wide``.
    exponents : int64 (P,) or None
        Exponents of ``wide``, in place of ``Target.exponents``.
    unit : float
        Factor from the weights in leaf sums to the user's weights.
    gradient : int32 (n, K) or None
        In boosting, replaces ``weight`` times a target: the direction in which raw predictions are
        to move (Friedman's pseudo-residual; the loss's gradient times -1).
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
