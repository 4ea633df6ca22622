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
        Mask of the rows in the tree; None means the rows with positive ``weight``. A row in the
        tree has weight 0 only if a small real-valued weight was rounded to zero; the row then
        follows the splits and is counted.
    draws : bool
        Whether each row of ``wide`` is multiplied by its ``weight`` in the leaf sums.
    wide : int64 (n, P) or None
        Terms of the leaf sums of this tree, in place of ``Target.wide``.
    exponents : int64 (P,) or None
        Exponents of ``wide``, in place of ``Target.exponents``.
    unit : float
        Factor from the weights in leaf sums to the user's weights or, in AdaBoost, to the weights
        of the round.
    gradient : int32 (n, K) or None
        In boosting, the direction in which raw predictions should move, in place of ``weight``
        times a target (Friedman's pseudo-residual; the loss's gradient times -1).
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
        """Mask of the rows in the tree: bool (n,)."""
        return self.weight > 0 if self.inside is None else self.inside
