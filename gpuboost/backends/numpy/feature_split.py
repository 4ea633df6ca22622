"""The best split of each node by its given feature, among the occupied bins."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpuboost.backends.numpy.candidates import Best, Missing, best_candidates
from gpuboost.backends.numpy.groups import CodeGroups
from gpuboost.backends.numpy.scores import NodeLimits, Scorer
from gpuboost.engine import randomness
from gpuboost.engine.growth.frontier import Frontier, Splits
from gpuboost.engine.growth.tree import last_bin_up_to
from gpuboost.engine.task import (
    MISSING_LEFT,
    MISSING_RIGHT,
    MISSING_UNSEEN,
    ONE_HOT_CATEGORIES,
    ONLY_MISSING_RIGHT,
    GrowTask,
)


@dataclass(frozen=True)
class NodeFeature:
    """The input of a split search: one feature for each node of a frontier.

    Attributes
    ----------
    frontier : Frontier
        The m nodes.
    feature : int64 (m,)
        The feature to search in each node.
    rank : uint64 (m,)
        Sort key of the feature in the node's order: of equal scores, the lower rank wins.
    """

    frontier: Frontier
    feature: np.ndarray
    rank: np.ndarray

    def take(self, nodes: np.ndarray) -> NodeFeature:
        """The input restricted to the given nodes."""
        return NodeFeature(self.frontier.take(nodes), self.feature[nodes], self.rank[nodes])


class FeatureSplitter:
    """Finds the best split of each node by its given feature, numeric or categorical.

    Parameters
    ----------
    task : GrowTask
        The trees to grow, with their data and options.
    min_hessian, min_category : int64 (n_trees,)
        Smallest hessian of a child, and of a category that is not rare, in each tree.
    """

    def __init__(self, task: GrowTask, min_hessian: np.ndarray, min_category: np.ndarray) -> None:
        self.task = task
        self.mapper = task.matrix.mapper
        self.min_hessian = min_hessian
        self.min_category = min_category
        self._scorer = Scorer(task)
        self.mask_words = 16 if self.mapper.is_categorical.any() else 0

    def split(self, pairs: NodeFeature, groups: CodeGroups) -> tuple[Splits, np.ndarray]:
        """Splits of the nodes in ``pairs``, and a mask of the nodes that their feature could split.

        ``groups.node`` holds positions of nodes in ``pairs``.
        """
        m = len(pairs.feature)
        splits = Splits.none(m, pairs.frontier.gradient.shape[1], self.mask_words)
        can_split = np.bincount(groups.node[groups.hessian > 0], minlength=m) >= 2
        missing = self._missing(pairs, groups)
        groups = groups.take(np.flatnonzero(can_split[groups.node]))
        if not len(groups.node):
            return splits, can_split
        kind = self.mapper.is_categorical[pairs.feature]
        for categorical in np.unique(kind[groups.node]):
            chosen = groups.take(np.flatnonzero(kind[groups.node] == categorical))
            find = self._categorical if categorical else self._numeric
            find(pairs, chosen, missing, splits)
        return splits, can_split

    def _missing(self, pairs: NodeFeature, groups: CodeGroups) -> Missing:
        m = len(pairs.feature)
        at = np.flatnonzero(groups.code == self.task.matrix.missing_code)
        node = groups.node[at]
        hessian, count = np.zeros(m, np.int64), np.zeros(m, np.int64)
        gradient = np.zeros((m, groups.gradient.shape[1]), np.int64)
        hessian[node], count[node] = groups.hessian[at], groups.count[at]
        gradient[node] = groups.gradient[at]
        either = np.ones(m, dtype=bool)
        if not self.task.options.random_thresholds:
            return Missing(hessian, count, gradient, either, either)
        feature = pairs.feature.astype(np.uint64)
        left = randomness.missing_goes_left(pairs.frontier.key, feature) == 1
        return Missing(hessian, count, gradient, left, ~left | (hessian == 0))

    def _numeric(
        self, pairs: NodeFeature, groups: CodeGroups, missing: Missing, splits: Splits
    ) -> None:
        """Split on numeric features: the left side ends at an occupied or a random bin."""
        values = groups.take(np.flatnonzero(groups.code != self.task.matrix.missing_code))
        prefix = prefix_sums(values)
        occupied = np.flatnonzero(values.hessian > 0)
        of = values.node[occupied]
        last = np.flatnonzero(np.concatenate([of[1:] != of[:-1], [True]]))
        following = np.append(values.code[occupied[1:]], 0)
        following[last] = ONLY_MISSING_RIGHT
        if self.task.options.random_thresholds:
            first = np.concatenate([[0], last[:-1] + 1])
            node = of[first]
            low, high = values.code[occupied[first]], values.code[occupied[last]]
            draw, code = self._random_threshold(pairs.take(node), low, high)
            at = last_up_to(values, node, code)
            following = np.where(low == high, ONLY_MISSING_RIGHT, code + 1)
            may_right = missing.may_right.copy()
            may_right[node[low == high]] = True
            missing = replace(missing, may_right=may_right)
        else:
            at, code, node = occupied, values.code[occupied], of
            draw = np.full(len(at), np.nan)
        best = self._record_best(pairs, splits, prefix.take(at), missing)
        splits.bin[best.node] = code[best.at]
        splits.next_bin[best.node] = following[best.at]
        splits.draw[best.node] = draw[best.at]

    def _random_threshold(
        self, pairs: NodeFeature, low: np.ndarray, high: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw a threshold uniformly between two bin centres; also return the last bin up to it.

        This bin is at least ``low`` and below ``high``. If ``low == high``, the bin is ``low``.
        """
        centre, feature = self.mapper.centers, pairs.feature
        first = self.mapper.first[feature]
        u = randomness.threshold_draw(pairs.frontier.key, feature.astype(np.uint64))
        draw = centre[first + low] * (1.0 - u) + centre[first + high] * u
        return draw, last_bin_up_to(self.mapper, feature, (low, np.maximum(high - 1, low)), draw)

    def _categorical(
        self, pairs: NodeFeature, groups: CodeGroups, missing: Missing, splits: Splits
    ) -> None:
        """Split on categorical features.

        The left side is a random set of categories, one category, or the categories of lowest g/h.
        """
        values = groups.take(np.flatnonzero(groups.code != self.task.matrix.missing_code))
        values = values.take(np.flatnonzero(values.hessian > 0))
        n_categories = self.mapper.n_bins[pairs.feature[values.node]]
        if self.task.options.random_thresholds:
            self._random_categories(pairs, values, missing, splits)
            return
        few = n_categories <= ONE_HOT_CATEGORIES
        if few.any():
            alone = values.take(np.flatnonzero(few))
            best = self._record_best(pairs, splits, alone, missing)
            chosen = np.zeros(len(alone.node), dtype=bool)
            chosen[best.at] = True
            set_masks(splits, alone, chosen)
        if not few.all():
            self._sorted_categories(pairs, values.take(np.flatnonzero(~few)), missing, splits)

    def _sorted_categories(
        self, pairs: NodeFeature, values: CodeGroups, missing: Missing, splits: Splits
    ) -> None:
        minimum = self.min_category[pairs.frontier.tree[values.node]]
        rare = values.take(np.flatnonzero(values.hessian < minimum))
        if len(rare.node):
            values = values.take(np.flatnonzero(values.hessian >= minimum))
            missing = missing.joined_by(rare)
        if not len(values.node):
            return
        gradient = self._ordering_gradient(pairs, values)
        ratio = gradient.astype(np.float64) / values.hessian.astype(np.float64)
        values = values.take(np.lexsort((values.code, ratio, values.node)))
        prefix = prefix_sums(values)
        rest = pairs.frontier.hessian[values.node] - prefix.hessian  # on the right
        minimum = self.min_category[pairs.frontier.tree[values.node]]
        tried = np.flatnonzero((rest > missing.hessian[values.node]) | (rest >= minimum))
        if not len(tried):
            return
        best = self._record_best(pairs, splits, prefix.take(tried), missing)
        until = np.full(len(pairs.feature), -1)
        until[best.node] = tried[best.at]
        set_masks(splits, values, np.arange(len(values.node)) <= until[values.node])
        rare = rare.take(np.flatnonzero(until[rare.node] >= 0))
        set_masks(splits, rare, splits.missing[rare.node] == MISSING_LEFT)

    def _ordering_gradient(self, pairs: NodeFeature, values: CodeGroups) -> np.ndarray:
        target = self.task.target
        if not target.by_class and target.scored_together == target.n_channels:
            return values.gradient.sum(axis=1)
        largest = pairs.frontier.gradient.argmax(axis=1)
        return values.gradient[np.arange(len(values.node)), largest[values.node]]

    def _random_categories(
        self, pairs: NodeFeature, values: CodeGroups, missing: Missing, splits: Splits
    ) -> None:
        key, feature = pairs.frontier.key[values.node], pairs.feature[values.node]
        words = feature.astype(np.uint64), values.code.astype(np.uint64)
        left = randomness.category_goes_left(key, *words) == 1
        m = len(pairs.feature)
        n_left = np.bincount(values.node[left], minlength=m)
        n_all = np.bincount(values.node, minlength=m)
        first = np.concatenate([[True], values.node[1:] != values.node[:-1]])
        one_sided = ((n_left == 0) | (n_left == n_all))[values.node]
        left = np.where(one_sided, first, left)
        chosen = values.take(np.flatnonzero(left))
        last = np.flatnonzero(np.append(chosen.node[1:] != chosen.node[:-1], True))
        self._record_best(pairs, splits, prefix_sums(chosen).take(last), missing)
        set_masks(splits, values, left)

    def _record_best(
        self, pairs: NodeFeature, splits: Splits, found: CodeGroups, missing: Missing
    ) -> Best:
        """Find the best candidate of each node; set the columns that all kinds of splits have."""
        limits = NodeLimits.of(pairs.frontier, self.min_hessian)
        best = best_candidates(found, missing, self._scorer, limits, pairs.feature)
        node, at, left = best.node, best.at, best.missing_left
        side = np.where(left, MISSING_LEFT, MISSING_RIGHT)
        splits.score[node] = best.score
        splits.rank[node] = pairs.rank[node]
        splits.feature[node] = pairs.feature[node]
        splits.missing[node] = np.where(missing.hessian[node] > 0, side, MISSING_UNSEEN)
        splits.left_hessian[node] = found.hessian[at] + left * missing.hessian[node]
        splits.left_gradient[node] = found.gradient[at] + left[:, None] * missing.gradient[node]
        splits.categorical[node] = self.mapper.is_categorical[pairs.feature[node]]
        return best


def prefix_sums(groups: CodeGroups) -> CodeGroups:
    """Running sums over the groups of each node."""
    node = groups.node
    starts = np.flatnonzero(np.concatenate([[True], node[1:] != node[:-1]]))
    size = np.diff(starts, append=len(node))

    def running(column: np.ndarray) -> np.ndarray:
        total = np.cumsum(column, axis=0)
        return total - np.repeat(total[starts] - column[starts], size, axis=0)

    sums = map(running, (groups.hessian, groups.count, groups.gradient))
    return CodeGroups(node, groups.code, *sums)


def last_up_to(values: CodeGroups, node: np.ndarray, code: np.ndarray) -> np.ndarray:
    """Index of the last group of each node whose code is at most ``code``."""
    return np.searchsorted(values.node * 256 + values.code, node * 256 + code, side="right") - 1


def set_masks(splits: Splits, values: CodeGroups, left: np.ndarray) -> None:
    """Set the bits of the occupied categories, and the bits of the categories that go left."""
    word, bit = values.code >> 5, np.uint32(1) << (values.code & 31).astype(np.uint32)
    np.bitwise_or.at(splits.mask, (values.node, 8 + word), bit)
    np.bitwise_or.at(splits.mask, (values.node[left], word[left]), bit[left])
