"""Finished trees, and their computation from grown trees.

A backend grows a tree in integers (`GrownTree`). Its thresholds, values and impurities are computed
here, in the same way for all backends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gpuboost.engine.bins import BinMapper
from gpuboost.engine.growth.constraints import in_monotonic_order
from gpuboost.engine.numerics import midpoint
from gpuboost.engine.targets import LabelTarget, NodeValues, TreeRows
from gpuboost.engine.task import (
    LEAF,
    MISSING_LEFT,
    MISSING_UNSEEN,
    ONLY_MISSING_RIGHT,
    GrownTree,
    TreeOptions,
)

ThresholdFinder = Callable[["GrownTree", BinMapper], "SplitThresholds"]


@dataclass(frozen=True)
class NodeArrays:
    """The nodes of trees as a struct of arrays, in breadth-first order.

    Attributes
    ----------
    feature : int32 (m,)
        Split feature, -1 in leaves.
    threshold : float64 (m,)
        ``x <= threshold`` goes left; +inf if only missing values go right, NaN in leaves and
        categorical splits.
    code : int16 (m,)
        The threshold for binned data: ``code <= tree.code`` goes left. 0 in leaves and categorical
        splits.
    missing_left : bool (m,)
        Whether missing values and unknown categories go left.
    left : int32 (m,)
        Left child, which the right child follows; 0 in leaves.
    category : int32 (m,)
        Row of ``masks`` in categorical splits, else -1.
    masks : uint32 (c, 8)
        Bit ``code`` is set if the category goes left.
    value : float64 (m, n_values)
        Class probabilities, the mean or median of each output, the votes of AdaBoost or, in
        boosting, contributions to raw predictions.
    impurity_decrease : float64 (m,)
        Weighted impurity decrease of the split per unit of root weight, in the units of the
        impurity (in boosting, the square of those of raw predictions).
    impurity, weight : float64 (m,)
        Impurity of the node (NaN in boosting), and total weight of its rows (in boosting, total
        hessian).
    count : int64 (m,)
        Number of rows in the node.
    """

    feature: np.ndarray
    threshold: np.ndarray
    code: np.ndarray
    missing_left: np.ndarray
    left: np.ndarray
    category: np.ndarray
    masks: np.ndarray
    value: np.ndarray
    impurity_decrease: np.ndarray
    impurity: np.ndarray
    weight: np.ndarray
    count: np.ndarray


class Tree(NodeArrays):
    """One tree.

    Until trees are joined (`Ensemble.of_stream`), integer arrays can have narrower types, and
    ``value`` can be `SparseRows`.
    """

    @property
    def node_count(self) -> int:
        """Number of nodes, including leaves."""
        return len(self.feature)

    def depths(self) -> np.ndarray:
        """Depth of every node, 0 at the root: int32 (m,)."""
        depth = np.zeros(self.node_count, dtype=np.int32)
        for level, nodes in enumerate(levels(self.left)):
            depth[nodes] = level
        return depth


TREE_TYPES: dict[str, type] = {
    **dict.fromkeys(("feature", "left", "category"), np.int32),
    **dict.fromkeys(("threshold", "value", "impurity_decrease", "impurity", "weight"), np.float64),
    "code": np.int16,
    "missing_left": np.bool_,
    "masks": np.uint32,
    "count": np.int64,
}


def levels(left: np.ndarray) -> list[slice]:
    """The nodes of each depth of a breadth-first tree, as slices."""
    found, start, stop = [], 0, 1
    while start < stop:
        found.append(slice(start, stop))
        inner = int(np.count_nonzero(left[start:stop]))
        start, stop = stop, stop + 2 * inner
    return found


def parents_of(left: np.ndarray) -> np.ndarray:
    """Parent of each node of a tree, -1 for the root: int64 (m,)."""
    parent, inner = np.full(len(left), -1), np.flatnonzero(left)
    parent[left[inner]] = parent[left[inner] + 1] = inner
    return parent


def on_features(tree: Tree, features: np.ndarray) -> Tree:
    """The tree for data with some features only, ascending, which include those it splits on."""
    place = np.searchsorted(features, tree.feature).astype(np.int32)
    return replace(tree, feature=np.where(tree.feature < 0, tree.feature, place))


def goes_left(
    x: np.ndarray,
    limit: np.ndarray,
    category: np.ndarray,
    masks: np.ndarray,
    missing: np.ndarray | None,
    missing_left: np.ndarray,
) -> np.ndarray:
    """Whether rows go left at splits: bool; the arguments (except ``masks``) broadcast.

    Parameters
    ----------
    x : values or codes; categories are given as codes
    limit : threshold, or its code, of numeric splits
    category : row of ``masks`` (c, 8) of categorical splits, else negative
    missing : bool, whether each value is missing; None if no value is
    missing_left : bool
    """
    left = x <= limit
    if (category >= 0).any():
        mask = np.broadcast_to(category, left.shape)
        at = np.nonzero(mask >= 0)
        code = np.nan_to_num(np.broadcast_to(x, left.shape)[at]).astype(np.int64)
        word = masks[mask[at], code >> 5]
        left[at] = (word >> (code & 31).astype(np.uint32)) & np.uint32(1)
    return left if missing is None else np.where(missing, missing_left, left)


def sum_children(left: np.ndarray, sums: np.ndarray) -> None:
    """Compute the integer sums of inner nodes from those of the leaves, in place."""
    sums[left > 0] = 0
    add_children(left, sums)


def add_children(left: np.ndarray, sums: np.ndarray) -> None:
    """Add to each inner node the sums of the nodes below it, in place."""
    for nodes in reversed(levels(left)):
        inner = np.flatnonzero(left[nodes]) + nodes.start
        sums[inner] += sums[left[inner]] + sums[left[inner] + 1]


def finish_tree(
    grown: GrownTree,
    mapper: BinMapper,
    target: LabelTarget,
    rows: TreeRows,
    options: TreeOptions,
    threshold_finder: ThresholdFinder | None = None,
) -> Tree:
    """Compute thresholds, values and impurities from the integers of a grown tree.

    A backend may pass a ``threshold_finder`` that replaces `find_thresholds`.
    """
    found = target.node_values(grown.sums, grown.hessian, rows, options.criterion)
    value = in_monotonic_order(found.value, grown, options.regularisation)
    values = replace(found, value=value, weight=found.weight * rows.unit)
    unit = target.gain_unit(options.criterion)
    tree = with_values(grown, mapper, values, unit, threshold_finder)
    if not target.by_median:
        return tree
    # Splits were chosen by signs, so impurity decreases are computed from the impurities.
    return replace(tree, impurity_decrease=_decreases(grown.left, found.impurity, found.weight))


@dataclass(frozen=True)
class SplitThresholds:
    """Thresholds of splits, their codes, and directions of missing values, as in `NodeArrays`."""

    threshold: np.ndarray
    code: np.ndarray
    missing_left: np.ndarray


def with_values(
    grown: GrownTree,
    mapper: BinMapper,
    values: NodeValues,
    unit_of_gain: float,
    threshold_finder: ThresholdFinder | None = None,
) -> Tree:
    """A tree with the given node values, and with computed thresholds and impurity decreases."""
    thresholds = (threshold_finder or find_thresholds)(grown, mapper)
    return Tree(
        feature=grown.feature,
        threshold=thresholds.threshold,
        code=thresholds.code,
        missing_left=thresholds.missing_left,
        left=grown.left,
        category=grown.category,
        masks=masks_with_unseen(grown, thresholds.missing_left),
        value=values.value,
        impurity_decrease=grown.gain * (unit_of_gain / float(grown.hessian[0])),
        impurity=values.impurity,
        weight=values.weight,
        count=grown.count,
    )


def masks_with_unseen(grown: GrownTree, missing_left: np.ndarray) -> np.ndarray:
    """Masks of the categories that go left; unseen categories go where missing values go."""
    masks = grown.masks[:, :8].copy()
    if len(masks):
        to_left = grown.category[missing_left & (grown.category >= 0)]
        masks[to_left] |= ~grown.masks[to_left, 8:]
    return masks


def _decreases(left: np.ndarray, impurity: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Impurity decrease of each split, per unit of the root's weight: float64 (m,)."""
    of_node = impurity * weight
    found, inner = np.zeros(len(left)), np.flatnonzero(left)
    children = of_node[left[inner]] + of_node[left[inner] + 1]
    found[inner] = np.maximum(of_node[inner] - children, 0.0) / weight[0]
    return found


def find_thresholds(grown: GrownTree, mapper: BinMapper) -> SplitThresholds:
    """Threshold, its code and the direction of missing values of each node.

    Between the occupied bins b and b' of a node, there can be bins without rows in the node. The
    threshold is midway between the largest value of b and the smallest of b' (if bins hold single
    values, as without bins); with random thresholds, it is the number drawn. The threshold's code
    is the last bin from b on and before b' whose centre is at most the threshold, or b if there is
    none:

        |  b  |     |     |  b' |      occupied: b, b'
             x        ^        x       x: largest value of b, smallest value of b'
               code                    ^: threshold

    A threshold among the training values of a bin moves out of them, so that ``x <= threshold``
    and ``code(x) <= code`` agree for each training row of positive weight. If only missing values
    go right, the threshold is +inf, and its code is the largest code of a value,
    ``missing_code - 1``. If such a threshold is random, it is the largest value of b, and its code
    is b.
    """
    m, first = len(grown.feature), mapper.first
    threshold, code = np.full(m, np.nan), np.zeros(m, dtype=np.int16)
    split = np.flatnonzero((grown.feature != LEAF) & (grown.category < 0))
    open_end = grown.next_bin[split] == ONLY_MISSING_RIGHT
    threshold[split[open_end]] = np.inf
    code[split[open_end]] = mapper.missing_code - 1
    drawn = split[open_end & ~np.isnan(grown.draw[split])]
    threshold[drawn] = mapper.highest[first[grown.feature[drawn]] + grown.bin[drawn]]
    code[drawn] = grown.bin[drawn]
    split = split[~open_end]
    feature = grown.feature[split]
    low, high = grown.bin[split].astype(np.int64), grown.next_bin[split].astype(np.int64) - 1
    at = midpoint(mapper.highest[first[feature] + low], mapper.lowest[first[feature] + high + 1])
    at = np.where(np.isnan(grown.draw[split]), at, grown.draw[split])
    low = last_bin_up_to(mapper, feature, (low, high), at)
    last = first[feature] + low
    below, above = mapper.highest[last], mapper.lowest[last + 1]
    at = np.maximum(at, below)
    threshold[split] = np.where(at >= above, midpoint(below, above), at)
    code[split] = low
    return SplitThresholds(threshold, code, _missing_left(grown))


def last_bin_up_to(
    mapper: BinMapper, feature: np.ndarray, bins: tuple[np.ndarray, np.ndarray], x: np.ndarray
) -> np.ndarray:
    """The last bin in the range ``bins`` whose centre is at most ``x``, or else the first bin."""
    low, high = bins
    while (low < high).any():  # bisection
        middle = (low + high + 1) // 2
        reached = mapper.centers[mapper.first[feature] + middle] <= x
        low, high = np.where(reached, middle, low), np.where(reached, high, middle - 1)
        high = np.maximum(high, low)
    return low


def _missing_left(grown: GrownTree) -> np.ndarray:
    """Whether missing values go left.

    If a node has none, they go to the child with more rows, and right if both have equally many.
    """
    larger_left = np.zeros(len(grown.left), dtype=bool)
    inner = np.flatnonzero(grown.left)
    left = grown.left[inner]
    larger_left[inner] = grown.count[left] > grown.count[left + 1]
    return np.where(grown.missing == MISSING_UNSEEN, larger_left, grown.missing == MISSING_LEFT)
