"""Bounds on the values of nodes, which monotonic splits impose on all nodes below them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.engine.newton import bounded, bounds_of_children
from gpuboost.engine.task import GrownTree, Regularisation


@dataclass(frozen=True)
class NodeBounds:
    """Bounds on the values of nodes and their descendants: float64 (m,) each.

    During growth the bounds are in integer units, in a finished tree in the units of its values.
    """

    lower: np.ndarray
    upper: np.ndarray

    @classmethod
    def of_roots(cls, m: int, largest: float) -> NodeBounds:
        """The bounds -``largest`` and ``largest`` of m roots."""
        return cls(np.full(m, -largest), np.full(m, largest))

    def __getitem__(self, nodes: Any) -> NodeBounds:
        return NodeBounds(self.lower[nodes], self.upper[nodes])

    def of_children(self, sign: np.ndarray, left: np.ndarray, right: np.ndarray) -> NodeBounds:
        """The bounds of all children, left and right alternating.

        ``sign`` is the direction of each node's split, 0 without a constraint; ``left`` and
        ``right`` are the children's values, which are clipped to the bounds of their parent first.
        """
        bounds = self.lower, self.upper
        values = bounded(left, *bounds), bounded(right, *bounds)
        of_left, of_right = bounds_of_children(sign, *values, bounds)
        return NodeBounds(*map(by_turns, of_left, of_right))


def by_turns(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Entries of left and right children, alternating."""
    return np.stack([left, right], axis=1).reshape(2 * len(left), *left.shape[1:])


def in_monotonic_order(value: np.ndarray, grown: GrownTree, regular: Regularisation) -> np.ndarray:
    """Values of nodes (m, n_values), clipped to the bounds set by monotonic splits above them.

    The bounds are defined as in `backends.protocol`, but computed from these values instead of the
    values by which splits were chosen. Without monotonic features the values are unchanged.
    Monotonic features require one output, or two classes: then the probability of the second class
    is clipped, and the first gets the rest.
    """
    if regular.monotonic is None:
        return value
    held, sign_of = value[:, -1].copy(), np.array(regular.monotonic)
    nodes, bounds = slice(0, 1), NodeBounds.of_roots(1, regular.max_value)
    while nodes.start < nodes.stop:  # level by level
        held[nodes] = bounded(held[nodes], bounds.lower, bounds.upper)
        inner = np.flatnonzero(grown.left[nodes])
        left, sign = grown.left[nodes][inner], sign_of[grown.feature[nodes][inner]]
        bounds = bounds[inner].of_children(sign, held[left], held[left + 1])
        nodes = slice(nodes.stop, nodes.stop + 2 * len(inner))
    return np.column_stack([1.0 - held, held][-value.shape[1] :])
