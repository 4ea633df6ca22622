"""Exact SHAP values in NumPy, one edge after another for all rows; the readable reference.

`engine.explanations.path_trees` has the method. All functions return integers, the values times
`AdditiveModel.scale`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpuboost.engine.explanations.additive import AdditiveModel, completed
from gpuboost.engine.explanations.path_trees import PathTree
from gpuboost.engine.explanations.quadrature import shapley_weights
from gpuboost.engine.growth.tree import goes_left

EXPLAINED_ROWS = 2**12
# In interventional values: where the value of a feature must come from to pass the splits above,
# from either row, the explained row or the background row.
EITHER, ROW, OTHER = range(3)


class _Path:
    """The edges from the root of a tree to a node, for some rows: attributes by depth.

    Attributes
    ----------
    edge : list of int
    passed : list of bool (n,)
        Whether each row passes the splits above on the feature of the edge.
    code : list of int (n,)
        See `path_trees`.
    """

    def __init__(self, tree: PathTree, X: np.ndarray) -> None:
        self._tree, self._X = tree, X
        size = tree.max_depth + 1
        self.edge = [-1] * size
        self.passed, self.code, self._left = ([np.ones(len(X), bool)] * size for _ in range(3))

    def enter(self, edge: int) -> np.ndarray:
        """Go down an edge, after all earlier ones; return whether rows pass its split: (n,)."""
        tree, depth = self._tree, int(self._tree.depth[edge])
        if tree.is_left[edge]:
            self._left[depth] = goes_left_at(tree, edge, self._X)
        passes = self._left[depth] == tree.is_left[edge]
        before = self.passed[tree.previous[edge]]
        self.edge[depth], self.passed[depth] = edge, before & passes
        self.code[depth] = before.astype(np.int64) + self.passed[depth]
        return passes


def goes_left_at(tree: PathTree, edge: int, X: np.ndarray) -> np.ndarray:
    """Whether rows go left at the split above an edge: bool (n,)."""
    x, category = X[:, tree.column[edge]], tree.category[edge : edge + 1]
    split = tree.threshold[edge], category, tree.masks
    return goes_left(x, *split, np.isnan(x), tree.missing_left[edge])


def in_units(contribution: np.ndarray, scale: float) -> np.ndarray:
    """Contributions as integers, rounded toward zero: int64."""
    return (contribution * scale).astype(np.int64)


def _sum_over_points(sums: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Sum of products over the points, from the first to the last: (n_values, n).

    Parameters
    ----------
    sums : float64 (n_points, n_values, n)
    factors : float64 (n_points, n)
    """
    total = sums[0] * factors[0]
    for own, factor in zip(sums[1:], factors[1:], strict=True):
        total = total + own * factor
    return total


def _closed(tree: PathTree, X: np.ndarray) -> Iterator[tuple[_Path, int, np.ndarray]]:
    """Yield the path, the depth of an edge that is closed, and its S: (n_points, n_values, n)."""
    path, size = _Path(tree, X), tree.max_depth + 1
    product = [np.ones((tree.n_points, len(X)))] * size
    sums = [np.empty(0)] * size
    for edge in range(tree.n_edges):
        path.enter(edge)
        depth = int(tree.depth[edge])
        product[depth] = product[depth - 1] * tree.ratio[edge][:, path.code[depth]]
        if tree.n_closed[edge]:
            sums[depth] = product[depth][:, None] * tree.value[edge][:, None]
        for closed in range(depth, depth - tree.n_closed[edge], -1):
            yield path, closed, sums[closed]
            is_first = tree.is_left[path.edge[closed]]
            sums[closed - 1] = sums[closed] if is_first else sums[closed - 1] + sums[closed]


def shap_values(model: AdditiveModel, X: np.ndarray) -> np.ndarray:
    """Path-dependent SHAP values: int64 (n, n_features, n_outputs)."""
    total = np.zeros((model.n_features, model.n_outputs, len(X)), dtype=np.int64)
    for tree, outputs, rows in _trees_and_rows(model, X):
        for path, depth, sums in _closed(tree, X[rows]):
            edge = path.edge[depth]
            found = _sum_over_points(sums, tree.step[edge][:, path.code[depth]])
            total[tree.feature[edge], outputs, rows] += in_units(found, model.scale())
    return total.transpose(2, 0, 1)


def shap_interactions(model: AdditiveModel, X: np.ndarray) -> np.ndarray:
    """Path-dependent SHAP interaction values: int64 (n, n_features, n_features, n_outputs)."""
    n_features, scale = model.n_features, model.scale()
    total = np.zeros((n_features, n_features, model.n_outputs, len(X)), dtype=np.int64)
    for tree, outputs, rows in _trees_and_rows(model, X):
        for path, depth, sums in _closed(tree, X[rows]):
            edge = path.edge[depth]
            factors = tree.step[edge][:, path.code[depth]]
            own, seen = tree.feature[edge], {tree.feature[edge]}
            total[own, own, outputs, rows] += in_units(_sum_over_points(sums, factors), scale)
            for above in range(depth - 1, 0, -1):
                other = tree.feature[path.edge[above]]
                if other in seen:
                    continue
                seen.add(other)
                marginal = tree.marginal[path.edge[above]][:, path.passed[above].astype(np.int64)]
                found = _sum_over_points(sums * factors[:, None], marginal)
                total[own, other, outputs, rows] += in_units(0.5 * found, scale)
    return completed(total.transpose(3, 0, 1, 2))


def interventional_shap(model: AdditiveModel, X: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Interventional SHAP values, summed over background rows: int64 (n, n_features, n_outputs).

    The value of a set of features is the tree's output for the row, with all other features as in a
    background row. A leaf that is reached with the values of ``a`` features of the row and of ``b``
    others of the background row adds its value times `shapley_weights` [a, b] to the former, and
    minus its value times [b, a] to the latter (Lundberg et al. 2020, Algorithm 3).
    """
    total = np.zeros((model.n_features, model.n_outputs, len(X)), dtype=np.int64)
    scale = model.scale(len(background))
    for tree, outputs, rows in _trees_and_rows(model, X):
        for other in background:
            _add_interventional(tree, X[rows], other[None], total[:, outputs, rows], scale)
    return total.transpose(2, 0, 1)


def _add_interventional(
    tree: PathTree, X: np.ndarray, other: np.ndarray, total: np.ndarray, scale: float
) -> None:
    """Add the contributions of a tree and a background row: ``total`` (n_features, n_values, n)."""
    path, of_other = _Path(tree, X), _Path(tree, other)
    size, n, weights = tree.max_depth + 1, len(X), shapley_weights(2 * tree.n_points)
    source, n_row, n_other = ([np.zeros(n, np.int64)] * size for _ in range(3))
    reached, sums = [np.ones(n, bool)] * size, [np.empty(0)] * size
    for edge in range(tree.n_edges):
        depth, before = int(tree.depth[edge]), source[tree.previous[edge]]
        row_passes, other_passes = path.enter(edge), of_other.enter(edge)
        first = np.where(row_passes, np.where(other_passes, EITHER, ROW), OTHER)
        source[depth] = np.where(before == EITHER, first, before)
        passes = [row_passes | other_passes, row_passes, np.broadcast_to(other_passes, n)]
        reached[depth] = reached[depth - 1] & np.choose(before, passes)
        is_new = before == EITHER
        n_row[depth] = n_row[depth - 1] + (is_new & (source[depth] == ROW))
        n_other[depth] = n_other[depth - 1] + (is_new & (source[depth] == OTHER))
        if tree.n_closed[edge]:
            a, b, value = n_row[depth], n_other[depth], tree.value[edge][:, None]
            both = np.stack([value * weights[a, b], value * weights[b, a]])
            sums[depth] = np.where(reached[depth], in_units(both, scale), 0)
        for closed in range(depth, depth - tree.n_closed[edge], -1):
            own = path.edge[closed]
            is_new = source[tree.previous[own]] == EITHER
            feature, found = tree.feature[own], source[closed]
            total[feature] += np.where(is_new & (found == ROW), sums[closed][0], 0)
            total[feature] -= np.where(is_new & (found == OTHER), sums[closed][1], 0)
            is_first = tree.is_left[own]
            sums[closed - 1] = sums[closed] if is_first else sums[closed - 1] + sums[closed]


def _trees_and_rows(model: AdditiveModel, X: np.ndarray) -> Iterator[tuple[PathTree, slice, slice]]:
    """Each tree and the outputs that it adds to, with some rows after another."""
    for number in range(model.ensemble.n_trees):
        tree = model.path_tree(number)
        outputs = slice(tree.first_output, tree.first_output + tree.value.shape[1])
        for start in range(0, len(X), EXPLAINED_ROWS):
            yield tree, outputs, slice(start, start + EXPLAINED_ROWS)
