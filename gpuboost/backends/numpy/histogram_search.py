"""The best split of each node over all its numeric features, from whole histograms.

Rounds of boosting take 2.4 to 6.9 times as long with `FeatureSplitter` alone (benchmarks/NOTES.md).
"""

from __future__ import annotations

import numpy as np

from gpuboost.backends.numpy.scores import NodeLimits, Scorer, Sums
from gpuboost.engine.growth.frontier import Frontier, Splits
from gpuboost.engine.task import (
    MISSING_LEFT,
    MISSING_RIGHT,
    MISSING_UNSEEN,
    ONLY_MISSING_RIGHT,
    GrowTask,
)

CELLS_PER_BLOCK = 1 << 15  # histogram cells scanned together (fastest of 2**13 to 2**16)
UNUSED = np.uint64(2**64 - 1)  # rank of a feature that a node may not use
_BY_CELL = (slice(None), None, None)  # broadcasts values of nodes over (nodes, features, bins)


class HistogramSearch:
    """Scans the histograms of nodes, vectorised over all bins and features.

    Histograms are int64 (m, P, F, width). The P planes are the hessian, K gradients and, if rows
    are counted, the count; the last bin is the missing bin.
    """

    def __init__(self, task: GrowTask, min_hessian: np.ndarray) -> None:
        mapper = task.matrix.mapper
        self._features = np.flatnonzero(~mapper.is_categorical)
        self._mask_words = 16 if mapper.is_categorical.any() else 0
        self._min_hessian, self._scorer = min_hessian, Scorer(task)

    def best(self, histogram: np.ndarray, node: Frontier, rank: np.ndarray) -> Splits:
        """The best split of each node, found in blocks of nodes and features.

        Of features with equal scores, the one with the smallest ``rank``, uint64 (m, F), wins;
        features with rank `UNUSED` are skipped.
        """
        splits = Splits.none(len(node), node.gradient.shape[1], self._mask_words)
        width = histogram.shape[3]
        n_features = min(len(self._features), CELLS_PER_BLOCK // width) or 1
        n_nodes = max(1, CELLS_PER_BLOCK // (n_features * width))
        for first in range(0, len(self._features), n_features):
            features = self._features[first : first + n_features]
            for start in range(0, len(node), n_nodes):
                nodes = slice(start, start + n_nodes)
                own = histogram[nodes]
                if len(features) < histogram.shape[2]:
                    own = own[:, :, features]
                found = self._of_block(own, node.take(nodes), rank[nodes][:, features], features)
                splits.set_better(np.arange(start, start + len(own)), found)
        return splits

    def _of_block(
        self, histogram: np.ndarray, node: Frontier, rank: np.ndarray, features: np.ndarray
    ) -> Splits:
        """The best split of each node of a block over the features of the block."""
        values, missing = histogram[..., :-1], histogram[..., -1]
        prefix = values.cumsum(axis=3)
        candidate = (values[:, 0] > 0) & (rank != UNUSED)[:, :, None]
        right = self._scores(prefix, candidate, node, features)
        left = self._with_missing_left(prefix, missing, candidate, node, features)
        score = right if left is None else np.maximum(right, left)
        bins, each = score.argmax(axis=2), np.arange(len(node))
        best = np.take_along_axis(score, bins[:, :, None], axis=2)[:, :, 0]
        top = best.max(axis=1)
        at = np.where(best == top[:, None], rank, UNUSED).argmin(axis=1)
        split_bin = bins[each, at]
        place = each, at, split_bin
        to_left = np.zeros(len(node), bool) if left is None else left[place] > right[place]
        sums = prefix[each, :, at, split_bin] + to_left[:, None] * missing[each, :, at]
        n_channels = node.gradient.shape[1]
        found = Splits.none(len(node), n_channels, self._mask_words)
        found.score[:], found.rank[:], found.feature[:] = top, rank[each, at], features[at]
        found.bin[:], found.next_bin[:] = split_bin, _next_occupied(values[each, 0, at], split_bin)
        seen = np.where(to_left, MISSING_LEFT, MISSING_RIGHT)
        found.missing[:] = np.where(missing[each, 0, at] > 0, seen, MISSING_UNSEEN)
        found.left_hessian[:], found.left_gradient[:] = sums[:, 0], sums[:, 1 : 1 + n_channels]
        return found

    def _with_missing_left(
        self,
        prefix: np.ndarray,
        missing: np.ndarray,
        candidate: np.ndarray,
        node: Frontier,
        features: np.ndarray,
    ) -> np.ndarray | None:
        """Scores with missing values on the left, -1 where invalid; None if no value is missing.

        Only rows of positive weight count: where none has a missing value, there is no such score,
        and missing values go right.
        """
        has_weight = missing[:, 0] > 0
        seen = np.flatnonzero(has_weight.any(axis=0))
        if not len(seen):
            return None
        left = np.full(candidate.shape, -1.0)
        sums = prefix[:, :, seen] + missing[:, :, seen, None]
        tried = candidate[:, seen] & has_weight[:, seen, None]
        left[:, seen] = self._scores(sums, tried, node, features[seen])
        return left

    def _scores(
        self, sums: np.ndarray, candidate: np.ndarray, node: Frontier, features: np.ndarray
    ) -> np.ndarray:
        """Scores of candidates from their left sums, -1 elsewhere: float64 (m, F, bins)."""
        gradient = [sums[:, 1 + k] for k in range(node.gradient.shape[1])]
        limits = NodeLimits.of(node, self._min_hessian).at(_BY_CELL)
        left = Sums(sums[:, 0], sums[:, -1], gradient)
        return np.where(candidate, self._scorer.scores(left, limits, features[:, None]), -1.0)


def _next_occupied(hessian: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """The first occupied bin after each of ``bins`` (m,), from the hessians (m, n_bins)."""
    after = (hessian > 0) & (np.arange(hessian.shape[1]) > bins[:, None])
    return np.where(after.any(axis=1), after.argmax(axis=1), ONLY_MISSING_RIGHT)
