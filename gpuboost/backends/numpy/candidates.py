"""Ways to split a node by one feature, and the best of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuboost.engine import scores

if TYPE_CHECKING:
    from gpuboost.backends.numpy.groups import Groups
    from gpuboost.engine.frontier import Frontier
    from gpuboost.engine.spec import TreeOptions


@dataclass(frozen=True)
class Candidates:
    """Left parts, without the missing values, that a split may have; node after node.

    Attributes
    ----------
    node : int64 (c,)
        Ascending; of equal gains the first candidate of a node wins.
    hessian, count : int64 (c,)
    gradient : int64 (c, K)
    """

    node: np.ndarray
    hessian: np.ndarray
    count: np.ndarray
    gradient: np.ndarray


@dataclass(frozen=True)
class Missing:
    """What the missing bin of each node holds; arrays over the nodes of the frontier slice.

    ``may_left`` and ``may_right``: the directions that are tried.
    """

    hessian: np.ndarray
    count: np.ndarray
    gradient: np.ndarray
    may_left: np.ndarray
    may_right: np.ndarray

    def joined_by(self, groups: Groups) -> Missing:
        """The same with what rare categories hold, which go where missing values go."""
        hessian, count, gradient = self.hessian.copy(), self.count.copy(), self.gradient.copy()
        np.add.at(hessian, groups.node, groups.hessian)
        np.add.at(count, groups.node, groups.count)
        np.add.at(gradient, groups.node, groups.gradient)
        return Missing(hessian, count, gradient, self.may_left, self.may_right)


@dataclass(frozen=True)
class Best:
    """The best candidate of each node that has one.

    Attributes
    ----------
    node, at : int64 (b,)
        Node, and index of its candidate.
    gain : float64 (b,)
        Negative if no candidate is valid.
    missing_left : bool (b,)
    """

    node: np.ndarray
    at: np.ndarray
    gain: np.ndarray
    missing_left: np.ndarray


def best_candidates(found: Candidates, missing: Missing, scorer: Scorer) -> Best:
    """Evaluate every candidate with missing values right, then left, and take the best."""
    node = found.node
    with_missing = missing.hessian[node] > 0
    right = scorer.gains(node, found.hessian, found.count, found.gradient)
    left = np.full(len(node), -1.0)
    values_right = scorer.frontier.hessian[node] - found.hessian > missing.hessian[node]
    right[~missing.may_right[node]] = -1.0
    at = np.flatnonzero(with_missing & missing.may_left[node] & values_right)
    if len(at):
        of = node[at]
        left[at] = scorer.gains(
            of,
            found.hessian[at] + missing.hessian[of],
            found.count[at] + missing.count[of],
            found.gradient[at] + missing.gradient[of],
        )
    gain = np.maximum(right, left)
    first = np.flatnonzero(np.concatenate([[True], node[1:] != node[:-1]]))
    best = np.maximum.reduceat(gain, first)
    size = np.diff(first, append=len(node))
    hits = np.flatnonzero(gain == np.repeat(best, size))
    nodes = node[first]
    at = hits[np.searchsorted(node[hits], nodes)]
    return Best(nodes, at, best, left[at] > right[at])


@dataclass(frozen=True)
class Scorer:
    """Gains of splits of a frontier, one feature for each node, under the options of a fit.

    Attributes
    ----------
    frontier : Frontier
    sign : int64 (m,)
        Direction in which values may change with each node's feature, 0 for both.
    options : TreeOptions
    min_hessian : int64 (trees,)
    two_classes : bool
    """

    frontier: Frontier
    sign: np.ndarray
    options: TreeOptions
    min_hessian: np.ndarray
    two_classes: bool

    def gains(
        self, node: np.ndarray, hessian: np.ndarray, count: np.ndarray, gradient: np.ndarray
    ) -> np.ndarray:
        """Gain of each split of the given nodes by its left sums; -1 where it is not valid."""
        totals = self.frontier.take(node)
        least = self.min_hessian[totals.tree]
        valid = (hessian >= least) & (totals.hessian - hessian >= least)
        smallest = self.options.min_samples_leaf
        if smallest > 1:
            valid &= (count >= smallest) & (totals.count - count >= smallest)
        hl, h = hessian.astype(np.float64), totals.hessian.astype(np.float64)
        hl = np.where(valid, hl, 1.0)  # finite numbers for splits that are none
        h = np.where(valid, h, 2.0)
        channels = range(gradient.shape[1])
        pairs = [
            (gradient[:, k].astype(np.float64), totals.gradient[:, k].astype(np.float64))
            for k in channels
        ]
        if self.options.score == scores.NEWTON:
            gain, ordered = self._newton(pairs, hl, h, node)
            valid &= ordered & (gain >= 0.0)
            return np.where(valid, gain, -1.0)
        return np.where(valid, self._score(pairs, hl, h), -1.0)

    def _newton(
        self,
        pairs: list[tuple[np.ndarray, np.ndarray]],
        hl: np.ndarray,
        h: np.ndarray,
        node: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Gains, and whether the values of the sides stand in the feature's monotonic order."""
        l1, l2 = self.options.regularisation.l1, self.options.regularisation.l2
        lower, upper = self.frontier.lower[node], self.frontier.upper[node]
        sign = self.sign[node]
        sides = np.zeros((3, len(hl)))
        ordered = np.ones(len(hl), dtype=bool)
        for gl, g in pairs:
            values = []
            for side, (own_g, own_h) in enumerate(((gl, hl), (g - gl, h - hl), (g, h))):
                value = scores.newton_value(own_g, own_h, l1, l2)
                value = scores.bounded(value, lower, upper)
                sides[side] = sides[side] + scores.newton_term(own_g, own_h, value, l1, l2)
                values.append(value)
            ordered &= sign * values[0] <= sign * values[1]
        return scores.newton_gain(*sides), ordered

    def _score(
        self, pairs: list[tuple[np.ndarray, np.ndarray]], hl: np.ndarray, h: np.ndarray
    ) -> np.ndarray:
        if self.options.score == scores.SQUARES:
            terms = np.zeros(len(hl))
            for gl, g in pairs:
                terms = terms + scores.squares_term(gl, g, hl, h)
            return scores.squares_gain(terms, hl, h - hl)
        if self.options.score == scores.POISSON:
            terms = np.zeros(len(hl))
            for gl, g in pairs:
                terms = terms + scores.poisson_term(gl, g, hl, h)
            return scores.poisson_gain(terms)
        if self.two_classes:
            gl, g = pairs[0]
            pairs = [(hl - gl, h - g), (gl, g)]
        left, right, node = np.zeros(len(hl)), np.zeros(len(hl)), np.zeros(len(hl))
        if self.options.score == scores.MISCLASSIFICATION:
            for gl, g in pairs:
                left, right = np.maximum(left, gl), np.maximum(right, g - gl)
                node = np.maximum(node, g)
            return scores.misclassification_gain(left, right, node)
        for gl, g in pairs:
            left = left + scores.entropy_term(gl)
            right = right + scores.entropy_term(g - gl)
            node = node + scores.entropy_term(g)
        return scores.entropy_gain(left, right, scores.entropy_node(node, h), hl, h - hl)
