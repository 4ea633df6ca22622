"""The best candidate of each node; candidates are splits by the feature given for the node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuboost.backends.numpy.groups import CodeGroups
from gpuboost.backends.numpy.scores import NodeLimits, Scorer, Sums


@dataclass(frozen=True)
class Missing:
    """Sums of the missing bins of m nodes, and the allowed directions of missing values.

    Attributes
    ----------
    hessian, count : int64 (m,)
        Sum of weights, and number of rows.
    gradient : int64 (m, K)
        Sum of gradients.
    may_left, may_right : bool (m,)
        Whether a split of the node may send missing values left; whether it may send them right.
    """

    hessian: np.ndarray
    count: np.ndarray
    gradient: np.ndarray
    may_left: np.ndarray
    may_right: np.ndarray

    def joined_by(self, groups: CodeGroups) -> Missing:
        """These sums plus the sums of rare categories, which go where missing values go."""
        hessian, count, gradient = self.hessian.copy(), self.count.copy(), self.gradient.copy()
        np.add.at(hessian, groups.node, groups.hessian)
        np.add.at(count, groups.node, groups.count)
        np.add.at(gradient, groups.node, groups.gradient)
        return Missing(hessian, count, gradient, self.may_left, self.may_right)


@dataclass(frozen=True)
class Best:
    """The best candidate of each node that has candidates.

    Attributes
    ----------
    node, at : int64 (b,)
        Node, and index of its best candidate among the candidates of all nodes.
    score : float64 (b,)
        Negative if no candidate is valid.
    missing_left : bool (b,)
        Whether the best candidate sends missing values left.
    """

    node: np.ndarray
    at: np.ndarray
    score: np.ndarray
    missing_left: np.ndarray


def best_candidates(
    found: CodeGroups, missing: Missing, scorer: Scorer, limits: NodeLimits, feature: np.ndarray
) -> Best:
    """Evaluate every candidate with missing values right, then left; return the best per node.

    ``found`` holds the left sides of the candidates, without missing values, node after node; of
    candidates with equal scores the first wins, then missing values right. ``limits`` and
    ``feature`` have one item per node.
    """
    node = found.node

    def scores(at: np.ndarray, left: Sums) -> np.ndarray:
        return scorer.scores(left, limits.at(at), feature[at])

    right = scores(node, Sums(found.hessian, found.count, list(found.gradient.T)))
    right[~missing.may_right[node]] = -1.0
    left = np.full(len(node), -1.0)
    with_missing = missing.hessian[node] > 0
    values_right = limits.hessian[node] - found.hessian > missing.hessian[node]
    at = np.flatnonzero(with_missing & missing.may_left[node] & values_right)
    if len(at):
        of = node[at]
        hessian, count = found.hessian[at] + missing.hessian[of], found.count[at]
        gradient = found.gradient[at] + missing.gradient[of]
        left[at] = scores(of, Sums(hessian, count + missing.count[of], list(gradient.T)))
    score = np.maximum(right, left)
    first = np.flatnonzero(np.concatenate([[True], node[1:] != node[:-1]]))
    best = np.maximum.reduceat(score, first)
    size = np.diff(first, append=len(node))
    hits = np.flatnonzero(score == np.repeat(best, size))
    nodes = node[first]
    at = hits[np.searchsorted(node[hits], nodes)]
    return Best(nodes, at, best, left[at] > right[at])
