"""The rows of a batch of trees, and the level operations except the search for splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from gpuboost.backends.compiling import check_cancelled
from gpuboost.backends.numpy.constraints import FrontierConstraints
from gpuboost.engine import randomness
from gpuboost.engine.criteria import median_signs
from gpuboost.engine.growth.constraints import by_turns
from gpuboost.engine.growth.frontier import Frontier, Splits
from gpuboost.engine.growth.level_history import COLUMNS, BestFirstFrontier, grown_trees
from gpuboost.engine.growth.policy import gains, good_enough, may_split, smallest_hessian
from gpuboost.engine.growth.tree import goes_left
from gpuboost.engine.order_statistics import Groups, quantile_bounds
from gpuboost.engine.sampling import root_key
from gpuboost.engine.targets import ClassTarget, MedianTarget, Target, TreeRows, ValueTarget
from gpuboost.engine.task import MISSING_LEFT, GrownTree, GrowTask


@dataclass(frozen=True)
class RowBlock:
    """Rows of the open nodes, contiguous for each node, with their statistics.

    Attributes
    ----------
    row : int64 (r,)
        Row of the binned matrix; a row that several trees use occurs once for each of them.
    hessian : int64 (r,)
        Integer weight.
    gradient : int64 (r, K) or None
        weight * value of each output, weight * [class is 1], the gradient of boosting, or weight
        * sign about the node's medians (until these are known, about its parent's; 0 in roots);
        None for more than two classes.
    label : int64 (r,) or None
        Class, if there are more than two.
    signs : int8 (r, K) or None
        Sign of each row about the medians of its node; None unless medians are fitted.
    """

    row: np.ndarray
    hessian: np.ndarray
    gradient: np.ndarray | None
    label: np.ndarray | None
    signs: np.ndarray | None = None

    def take(self, at: np.ndarray) -> RowBlock:
        """The rows at the given positions, without signs, which hold for one level only."""
        moved = (self.row, self.hessian, self.gradient, self.label)
        columns = (None if own is None else own.take(at, axis=0) for own in moved)
        return RowBlock(*columns)  # type: ignore[arg-type]  # only optional columns are None


@dataclass(frozen=True)
class Candidates:
    """The nodes of a level to be searched for splits, and the features they may split on.

    Attributes
    ----------
    nodes : int64 (c,)
        Nodes to be searched, in ascending order.
    allowed : bool (m, F)
        Features that each node of the level may split on.
    n_slots : int
        Number of features to evaluate at each node. Some nodes evaluate more, because none of these
        can split, or fewer, because fewer are allowed.
    """

    nodes: np.ndarray
    allowed: np.ndarray
    n_slots: int


def block_of(target: Target, rows: TreeRows, row: Any) -> RowBlock:
    """Some rows of a tree, given by indices or a slice (then ``RowBlock.row`` is that)."""
    hessian = rows.weight[row].astype(np.int64)
    return RowBlock(row, hessian, *target.row_channels(row, rows))


def joined_blocks(blocks: Sequence[RowBlock]) -> RowBlock:
    """The rows of several blocks, one block after the other."""
    if len(blocks) == 1:
        return blocks[0]
    columns = zip(*(vars(block).values() for block in blocks), strict=True)
    whole: Any = [None if own[0] is None else np.concatenate(own) for own in columns]
    return RowBlock(*whole)


def make_roots(task: GrowTask, trees: Sequence[int], **sums: Any) -> Frontier:
    """The root node of each tree; ``sums`` are the fields of `Frontier` that depend on rows."""
    return Frontier(
        tree=np.arange(len(trees), dtype=np.int32),
        key=np.array([root_key(task.seed, tree) for tree in trees], dtype=np.uint64),
        **sums,
        **FrontierConstraints(task).of_roots(len(trees)),
    )


def segment_sums(column: np.ndarray, start: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Sums over column[start[i] : start[i] + count[i]]: disjoint, ascending, nonempty segments."""
    if not len(start):
        return np.zeros((0, *column.shape[1:]), dtype=column.dtype)
    edges = np.column_stack([start, start + count]).ravel()
    if edges[-1] == len(column):
        edges = edges[:-1]
    return np.add.reduceat(column, edges, axis=0)[::2]


def gradient_sums(
    rows: RowBlock, start: np.ndarray, count: np.ndarray, n_channels: int
) -> np.ndarray:
    """Sums of the gradients of nodes, or of the weights of each class: int64 (m, K)."""
    if rows.gradient is not None:
        return segment_sums(rows.gradient, start, count)
    assert rows.label is not None
    sums = np.zeros(len(start) * n_channels, dtype=np.int64)
    node = np.repeat(np.arange(len(start)), count)
    np.add.at(sums, node * n_channels + rows.label, rows.hessian)
    return sums.reshape(-1, n_channels)


class RowOps:
    """All methods of `engine.growth.operations.LevelOps` except `candidates` and `find_splits`.

    Parameters
    ----------
    task : GrowTask
        The trees to grow, with their data and options.
    trees : sequence of int
        Numbers of the trees of the batch.
    tree_rows : sequence of TreeRows
        Rows of each tree.
    roots : Frontier
        Root node of each tree.
    """

    def __init__(
        self, task: GrowTask, trees: Sequence[int], tree_rows: Sequence[TreeRows], roots: Frontier
    ) -> None:
        self.task, self.trees, self.tree_rows = task, trees, tree_rows
        self._constraints = FrontierConstraints(task)
        self._levels: list[dict[str, np.ndarray]] = []  # columns of the levels so far
        options, self._root_weights = task.options, roots.hessian
        self._known = BestFirstFrontier(len(trees), options.max_leaf_nodes)
        self._min_hessian = smallest_hessian(
            np, options.min_weight_fraction_leaf, roots.hessian, options.min_hessian
        )
        self._min_category = smallest_hessian(np, options.min_category_fraction, roots.hessian, 0)

    @classmethod
    def start(cls, task: GrowTask, trees: Sequence[int]) -> tuple[Self, RowBlock, Frontier]:
        """Create the level operations, the rows and the root nodes of a batch of trees."""
        tree_rows = [task.rows_of(tree) for tree in trees]
        blocks = [block_of(task.target, rows, np.flatnonzero(rows.mask)) for rows in tree_rows]
        count = np.array([len(block.row) for block in blocks], dtype=np.int64)
        joined, start = joined_blocks(blocks), np.cumsum(count) - count
        roots = make_roots(
            task,
            trees,
            start=start,
            count=count,
            hessian=segment_sums(joined.hessian, start, count),
            gradient=gradient_sums(joined, start, count, task.target.n_channels),
        )
        return cls(task, trees, tree_rows, roots), joined, roots

    def set_median_gradients(self, rows: RowBlock, frontier: Frontier) -> tuple[RowBlock, Frontier]:
        """Set the gradients of rows to weight * sign about their node's medians, and sum them."""
        target, n_rows = self.task.target, len(rows.row)
        assert isinstance(target, MedianTarget)
        weight = rows.hessian if target.median_weight is None else target.median_weight[rows.row]
        nodes = Groups(np.arange(n_rows), np.append(frontier.start, n_rows))
        medians = np.empty((len(frontier), 2 * target.n_channels), dtype=np.int64)
        signs = np.empty((n_rows, target.n_channels), dtype=np.int8)
        for k in range(target.n_channels):
            rank = target.ranks[rows.row, k]
            lower, upper, _ = quantile_bounds(rank, weight, nodes, 0.5)
            medians[:, 2 * k], medians[:, 2 * k + 1] = lower, upper
            signs[:, k] = median_signs(rank, nodes.spread(lower), nodes.spread(upper))
        gradient = signs * rows.hessian[:, None]
        sums = segment_sums(gradient, frontier.start, frontier.count)
        rows = replace(rows, gradient=gradient, signs=signs)
        return rows, replace(frontier, gradient=sums, medians=medians)

    def finished(self, frontier: Frontier) -> bool:
        """Whether the frontier is empty.

        Raises
        ------
        CancelledError
            An interrupt or a callback has ended the fit.
        """
        check_cancelled()
        return not len(frontier)

    def open_nodes(self, rows: RowBlock, frontier: Frontier, depth: int) -> np.ndarray:
        """The large, shallow and impure nodes, ascending."""
        large = may_split(frontier, depth, self.task.options, self._min_hessian)
        if depth or self.task.options.max_depth:
            large &= ~self.is_pure(rows, frontier)
        return np.flatnonzero(large)

    def accept(self, frontier: Frontier, splits: Splits) -> np.ndarray:
        """Mask of the nodes whose splits decrease the impurity enough: bool (m,)."""
        options, target = self.task.options, self.task.target
        gain = gains(options.criterion, splits, frontier)
        return good_enough(gain, frontier, options, target, self._root_weights)

    def limit_to_best_first(
        self, frontier: Frontier, splits: Splits, accepted: np.ndarray
    ) -> np.ndarray:
        """Mask of the accepted nodes that best-first growth can still split: bool (m,)."""
        gain = gains(self.task.options.criterion, splits, frontier)
        return self._known.limit_to_best_first(frontier, np.where(accepted, gain, -1.0))

    def _record(
        self, frontier: Frontier, splits: Splits, accepted: np.ndarray, sums: np.ndarray
    ) -> None:
        """Record the nodes of a level."""
        parts = {**vars(splits), **vars(frontier), "sums": sums}
        gain = gains(self.task.options.criterion, splits, frontier)
        parts["gain"] = np.where(accepted, gain, -1.0)
        self._levels.append({name: parts[name] for name in COLUMNS})

    def end_batch(self) -> list[GrownTree]:
        """The trees of the batch."""
        limit, has_all_sums = self.task.options.max_leaf_nodes, self.task.target.by_median
        return grown_trees(self._levels, len(self.trees), limit, has_all_sums)

    def is_pure(self, rows: RowBlock, frontier: Frontier) -> np.ndarray:
        """Whether all weight of a node is in one class, quantised target or sign: bool (m,).

        In boosting, no node is pure.
        """
        target = self.task.target
        if target.has_gradients:
            return np.zeros(len(frontier), dtype=bool)
        if isinstance(target, ClassTarget):
            sums = target.class_sums(frontier.hessian, frontier.gradient)
            return sums.max(axis=1) == frontier.hessian
        value = target.values[rows.row] if isinstance(target, ValueTarget) else rows.signs
        assert value is not None
        ignored = (rows.hessian == 0)[:, None]
        largest = np.iinfo(value.dtype).max
        low = np.minimum.reduceat(np.where(ignored, largest, value), frontier.start, axis=0)
        high = np.maximum.reduceat(np.where(ignored, -largest, value), frontier.start, axis=0)
        return np.all(low >= high, axis=1)

    def leaf_sums(
        self, rows: RowBlock, frontier: Frontier, candidates: Candidates, accepted: np.ndarray
    ) -> np.ndarray:
        """Leaf sums of nodes that are not split, 0 for others; for medians, of all nodes."""
        if self.task.target.by_median:
            return self._median_sums(rows, frontier)
        leaves = np.flatnonzero(~accepted)
        of_leaves = self._sums_of(rows, frontier.take(leaves))
        sums = np.zeros((len(frontier), of_leaves.shape[1]), dtype=np.int64)
        sums[leaves] = of_leaves
        return sums

    def _median_sums(self, rows: RowBlock, node: Frontier) -> np.ndarray:
        """Medians and signed sums of all nodes, as in `backends.protocol`: int64 (m, 6 K + 2)."""
        target, medians = self.task.target, node.medians
        assert isinstance(target, MedianTarget)
        assert rows.signs is not None and medians is not None
        wide = target.wide.take(rows.row, axis=0)
        if self.tree_rows[0].draws:
            wide = wide * rows.hessian[:, None]
        columns = [
            rows.signs[:, k : k + 1] * wide[:, [2 * k, 2 * k + 1, -2, -1]]
            for k in range(target.n_channels)
        ]
        joined = np.concatenate([*columns, wide[:, -2:]], axis=1)
        return np.column_stack([medians, segment_sums(joined, node.start, node.count)])

    def _sums_of(self, rows: RowBlock, node: Frontier) -> np.ndarray:
        """Leaf sums of the given nodes: int64 (m, P)."""
        target = self.task.target
        classes = target if isinstance(target, ClassTarget) else None
        if classes and target.wide is None and self.tree_rows[0].wide is None:
            return classes.class_sums(node.hessian, node.gradient)
        at = ranges(node.start, node.count)
        row = rows.row.take(at)
        wide = self._wide(row, node)
        if self.tree_rows[0].draws:
            wide *= rows.hessian.take(at)[:, None]
        start = np.cumsum(node.count) - node.count
        if classes is None:
            return segment_sums(wide, start, node.count)
        planes = np.zeros((len(node) * target.n_classes, wide.shape[1]), dtype=np.int64)
        leaf = np.repeat(np.arange(len(node)), node.count)
        np.add.at(planes, leaf * target.n_classes + classes.classes[row], wide)
        return planes.reshape(len(node), target.n_classes * wide.shape[1])

    def _wide(self, row: np.ndarray, node: Frontier) -> np.ndarray:
        """Terms of the leaf sums for the rows of some nodes, from the target or the tree's rows."""
        if self.tree_rows[0].wide is None:
            assert self.task.target.wide is not None
            return self.task.target.wide.take(row, axis=0)
        of_tree = np.cumsum(np.bincount(node.tree, node.count, len(self.tree_rows)))
        parts = np.split(row, of_tree[:-1].astype(np.int64))  # nodes are in the order of trees
        wide: list[Any] = [own.wide for own in self.tree_rows]
        return np.concatenate([own[part] for own, part in zip(wide, parts, strict=True)])

    def partition(
        self,
        rows: RowBlock,
        frontier: Frontier,
        candidates: Candidates,
        *,
        splits: Splits,
        accepted: np.ndarray,
        sums: np.ndarray,
    ) -> tuple[RowBlock, Frontier]:
        """Record the level and move the rows of accepted nodes to their children, in order.

        before  | a: l r l l r | b: r l r |
        after   | a: l l l | a: r r | b: l | b: r r |
        """
        self._record(frontier, splits, accepted, sums)
        parents = np.flatnonzero(accepted)
        node = frontier.take(parents)
        if len(parents) < len(frontier):
            rows = rows.take(ranges(node.start, node.count))
            node = replace(node, start=np.cumsum(node.count) - node.count)
        left = self._goes_left(rows.row, node.count, splits, parents)
        n_left = segment_sums(left.astype(np.int64), node.start, node.count)
        order = np.empty(len(left), dtype=np.int64)
        order[ranges(node.start, n_left)] = np.flatnonzero(left)
        order[ranges(node.start + n_left, node.count - n_left)] = np.flatnonzero(~left)
        return rows.take(order), self._children(node, n_left, splits, parents)

    def _children(
        self, node: Frontier, n_left: np.ndarray, splits: Splits, parents: np.ndarray
    ) -> Frontier:
        """The children (left, right, left, ...) of the split nodes ``parents`` of a level.

        ``n_left`` is the number of rows of each left child: int64 (m,).
        """
        hessian, gradient = splits.left_hessian[parents], splits.left_gradient[parents]
        held_to = self._constraints.of_children(node, splits.feature[parents], hessian, gradient)
        return Frontier(
            np.repeat(node.tree, 2),
            by_turns(randomness.left_key(node.key), randomness.right_key(node.key)),
            by_turns(node.start, node.start + n_left),
            by_turns(n_left, node.count - n_left),
            by_turns(hessian, node.hessian - hessian),
            by_turns(gradient, node.gradient - gradient),
            **held_to,
        )

    def _goes_left(
        self, row: np.ndarray, count: np.ndarray, splits: Splits, parents: np.ndarray
    ) -> np.ndarray:
        """Whether each row of the split nodes goes left."""
        matrix = self.task.matrix
        offset = splits.feature[parents].astype(np.int64) * matrix.n_samples
        code = matrix.codes.ravel().take(np.repeat(offset, count) + row)
        limit, category = np.repeat(splits.bin[parents], count), np.full(1, -1)
        if splits.categorical[parents].any():
            category = np.repeat(np.where(splits.categorical[parents], parents, -1), count)
        missing = code == matrix.missing_code if matrix.n_missing.any() else None
        missing_left = np.repeat(splits.missing[parents] == MISSING_LEFT, count)
        return goes_left(code, limit, category, splits.mask, missing, missing_left)


def ranges(start: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The numbers start[i], ..., start[i] + count[i] - 1 for each i, concatenated."""
    shift = start - (np.cumsum(count) - count)
    return np.arange(int(count.sum())) + np.repeat(shift, count)
