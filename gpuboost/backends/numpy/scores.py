"""Scores of splits from the sums of their left sides, for arrays of any shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.backends.numpy.constraints import FrontierConstraints
from gpuboost.engine import criteria
from gpuboost.engine.growth.constraints import NodeBounds
from gpuboost.engine.growth.frontier import Frontier
from gpuboost.engine.task import GrowTask

_NO_SPLIT = 0.5  # left hessian of invalid splits: not an integer, so neither side has hessian 0


@dataclass(frozen=True)
class Sums:
    """Integer sums of the left sides of splits: int64 arrays of equal shape.

    ``gradient`` has one array per channel; ``count`` is used only if
    `TreeOptions.min_samples_leaf` is above 1.
    """

    hessian: np.ndarray
    count: np.ndarray
    gradient: Sequence[np.ndarray]


@dataclass(frozen=True)
class NodeLimits:
    """Sums of each node, and the limits that both sides of its splits must satisfy.

    Attributes
    ----------
    hessian, count : int64 (m,)
        Sum of weights, and number of rows.
    gradient : K arrays of int64 (m,)
        Sum of gradients of each channel.
    minimum : int64 (m,)
        Smallest hessian of a side.
    bounds : NodeBounds
        Bounds on the values of both sides.
    """

    hessian: np.ndarray
    count: np.ndarray
    gradient: Sequence[np.ndarray]
    minimum: np.ndarray
    bounds: NodeBounds

    @classmethod
    def of(cls, node: Frontier, min_hessian: np.ndarray) -> NodeLimits:
        """The limits of the nodes of a frontier; ``min_hessian`` is int64 (n_trees,)."""
        minimum, gradient = min_hessian[node.tree], list(node.gradient.T)
        return cls(node.hessian, node.count, gradient, minimum, node.bounds)

    def at(self, index: Any) -> NodeLimits:
        """All arrays indexed by ``index``, to broadcast with the sums of splits."""
        gradient = [column[index] for column in self.gradient]
        rest = self.minimum[index], self.bounds[index]
        return NodeLimits(self.hessian[index], self.count[index], gradient, *rest)


class Scorer:
    """Computes the scores of splits under the options of a fit."""

    def __init__(self, task: GrowTask) -> None:
        self._options, target = task.options, task.target
        self._constraints = FrontierConstraints(task)
        self._two_classes = target.by_class and not target.is_multiclass
        self._scored_together = 2 if self._two_classes else target.scored_together

    def scores(self, left: Sums, node: NodeLimits, feature: np.ndarray) -> np.ndarray:
        """Score of each split from its left sums, float64; -1 if it is not valid.

        Parameters
        ----------
        left : Sums
            Sums of the left side of each split.
        node : NodeLimits
            Sums and limits of the node of each split.
        feature : int64
            Feature of each split. ``feature`` and the arrays of ``node`` broadcast with those of
            ``left``.
        """
        options, hessian = self._options, left.hessian
        valid = (hessian >= node.minimum) & (node.hessian - hessian >= node.minimum)
        smallest = options.min_samples_leaf
        if smallest > 1:
            valid &= (left.count >= smallest) & (node.count - left.count >= smallest)
        h = node.hessian.astype(np.float64)
        hl = np.where(valid, hessian.astype(np.float64), _NO_SPLIT)
        pairs = [
            (gl.astype(np.float64), g.astype(np.float64))
            for gl, g in zip(left.gradient, node.gradient, strict=True)
        ]
        criterion = criteria.CRITERIA[options.criterion]
        limits = self._constraints.limits(node.bounds)
        if self._two_classes and criterion.both_classes:
            gl, g = pairs[0]
            pairs = [(hl - gl, h - g), (gl, g)]
        for gl, g in pairs:
            valid = self._constraints.in_order(valid, feature, gl, g, hl, h, limits)
        score: Any = 0.0
        for first in range(0, len(pairs), self._scored_together):
            sums: Any = (0.0, 0.0, 0.0)
            for gl, g in pairs[first : first + self._scored_together]:
                sums = criterion.add(sums, gl, g, hl, h, limits)
            score = score + criterion.score(sums, hl, h)
        return np.where(valid, score, -1.0)
