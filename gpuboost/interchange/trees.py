"""Trees of another library as gpuboost's: breadth-first, with ``x <= threshold`` to the left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuboost.engine.ensembles.compact import left_children, offsets
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.tree import Tree
from gpuboost.estimators.imported.columns import (
    MAX_CATEGORIES,
    NAN_IS_MISSING,
    SplitColumn,
    SplitColumns,
)

LEAF_CHILD = -1
_MAX_COUNT = 2.0**62


@dataclass(frozen=True, eq=False)
class CategorySplit:
    """A categorical split: those of a set go to one child, all others to the other child."""

    categories: frozenset[int]
    go_left: bool


@dataclass(eq=False)
class SourceTree:
    """A tree of another library, its nodes in any order; the root is node 0.

    Attributes
    ----------
    left, right : int64 (m,)
        Children; `LEAF_CHILD` in leaves.
    feature : int64 (m,)
        Column of X of each split.
    threshold : float64 (m,)
        ``x <= threshold`` goes left.
    missing_left : bool (m,)
        Whether missing values go left.
    value : float64 (m, n_values)
        Values of leaves.
    missing : str or list of str (m,)
        A rule of missing values (see `SplitColumn`) for all nodes, or one for each.
    by_category : dict of int to CategorySplit
        The categorical splits.
    gain, weight, count : float64 (m,) or None
        Gain of splits, sum of hessians or weights, number of rows, if the source has them.
    """

    left: np.ndarray
    right: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray
    value: np.ndarray
    missing: Any = NAN_IS_MISSING
    by_category: dict[int, CategorySplit] = field(default_factory=dict)
    gain: np.ndarray | None = None
    weight: np.ndarray | None = None
    count: np.ndarray | None = None

    @property
    def is_categorical(self) -> np.ndarray:
        """Mask of the categorical splits: bool (m,)."""
        found = np.zeros(len(self.left), dtype=bool)
        found[list(self.by_category)] = True
        return found


def ensemble_of(
    trees: Sequence[SourceTree],
    n_features: int,
    float32: bool,
    category_rule: str,
    known: dict[int, np.ndarray] | None = None,
) -> tuple[Ensemble, SplitColumns]:
    """The trees, and the columns that they split on.

    Parameters
    ----------
    trees : sequence of SourceTree
    n_features : int
        Number of columns of X.
    float32, category_rule : bool, str
        See `SplitColumns`.
    known : dict of int to int64 (k,), optional
        All categories of a column of X, if others are missing values.

    Raises
    ------
    ValueError
        If nodes do not form a tree, a number that must be finite is not, or a feature does not
        exist.
    """
    if not trees:
        raise ValueError("the model has no trees")
    orders = [_breadth_first(tree) for tree in trees]
    columns = _Columns(n_features, known or {})
    features = [_column_indices(t, o, columns) for t, o in zip(trees, orders, strict=True)]
    made = columns.final()
    built = [_tree(*each, made) for each in zip(trees, orders, features, strict=True)]
    return Ensemble.of(built), SplitColumns(made, n_features, float32, category_rule)


def _breadth_first(tree: SourceTree) -> np.ndarray:
    """The nodes breadth-first, the right child after the left one."""
    m, parts, level = len(tree.left), [], np.zeros(1, dtype=np.int64)
    seen = np.zeros(m, dtype=bool)
    while len(level):
        if level.min() < 0 or level.max() >= m:
            raise ValueError("a child of a node is out of range")
        if seen[level].any() or len(np.unique(level)) < len(level):
            raise ValueError("a node has two parents, or is below itself")
        seen[level] = True
        parts.append(level)
        inner = level[tree.left[level] != LEAF_CHILD]
        level = np.column_stack([tree.left[inner], tree.right[inner]]).reshape(-1)
    return np.concatenate(parts)


class _Columns:
    """The columns that splits need; categorical splits share a column while there are few."""

    def __init__(self, n_features: int, known: dict[int, np.ndarray]) -> None:
        self._n_features, self._known = n_features, known
        self._numeric: dict[tuple[int, str], int] = {}
        self._sets: dict[int, set[int]] = {}  # by index
        self._by_feature: dict[int, list[int]] = {}
        self._codes: dict[int, dict[int, int]] = {}  # by index, where categories share codes
        self._shared_by_feature: dict[int, list[int]] = {}
        self._columns: list[tuple[int, str]] = []

    def numeric(self, feature: int, missing: str) -> int:
        """Index of the column of numbers of a feature with a rule of missing values."""
        if (feature, missing) not in self._numeric:
            self._numeric[feature, missing] = self._add(feature, missing)
        return self._numeric[feature, missing]

    def categorical(self, feature: int, categories: frozenset[int]) -> int:
        """Index of a column of categories of a feature that has those of a split."""
        wanted = set(self._known.get(feature, np.zeros(0, int)).tolist()) | categories
        if len(wanted) > MAX_CATEGORIES:
            return self._shared(feature, categories)
        indices = self._by_feature.setdefault(feature, [])
        for index in indices:
            if len(self._sets[index] | wanted) <= MAX_CATEGORIES:
                self._sets[index] |= wanted
                return index
        indices.append(self._add(feature, NAN_IS_MISSING))
        self._sets[indices[-1]] = wanted
        return indices[-1]

    def _shared(self, feature: int, categories: frozenset[int]) -> int:
        """Index of a column whose categories share a code if no split tells them apart."""
        indices = self._shared_by_feature.setdefault(feature, [])
        for index in indices:
            refined = _refined(self._codes[index], categories)
            if len(set(refined.values())) <= MAX_CATEGORIES:
                self._codes[index] = refined
                return index
        indices.append(self._add(feature, NAN_IS_MISSING))
        self._codes[indices[-1]] = dict.fromkeys(categories, 0)
        return indices[-1]

    def _add(self, feature: int, missing: str) -> int:
        if not 0 <= feature < self._n_features:
            raise ValueError(f"a split is on feature {feature} of {self._n_features}")
        self._columns.append((feature, missing))
        return len(self._columns) - 1

    def column(self, index: int) -> SplitColumn:
        """A column, with its categories and their codes if it has some."""
        feature, missing = self._columns[index]
        codes = self._codes.get(index)
        if codes is None and index not in self._sets:
            return SplitColumn(feature, missing)
        categories = np.array(sorted(self._sets[index] if codes is None else codes), np.int64)
        if codes is None:
            return SplitColumn(feature, missing, categories)
        own = np.array([codes[category] for category in categories.tolist()], dtype=np.uint8)
        return SplitColumn(feature, missing, categories, own)

    def final(self) -> tuple[SplitColumn, ...]:
        """All columns; one if no tree has a split."""
        return tuple(map(self.column, range(len(self._columns)))) or (SplitColumn(0),)


def _refined(codes: dict[int, int], categories: frozenset[int]) -> dict[int, int]:
    """Codes by which a further set of categories is told from the others."""
    known: dict[tuple[int, bool], int] = {}
    found = {}
    for category in sorted(codes.keys() | categories):
        key = codes.get(category, -1), category in categories
        found[category] = known.setdefault(key, len(known))
    return found


def _column_indices(tree: SourceTree, order: np.ndarray, columns: _Columns) -> np.ndarray:
    """The column of each split, and -1 for leaves, in the given order: int32 (m,)."""
    found = np.full(len(tree.left), -1, dtype=np.int32)
    is_split, is_categorical = tree.left != LEAF_CHILD, tree.is_categorical
    used = np.zeros(len(found), dtype=bool)
    used[order] = True
    for node in np.flatnonzero(used & is_split & is_categorical).tolist():
        split = tree.by_category[node]
        found[node] = columns.categorical(int(tree.feature[node]), split.categories)
    numeric = np.flatnonzero(used & is_split & ~is_categorical)
    if np.isnan(tree.threshold[numeric]).any():
        raise ValueError("the threshold of a split is NaN")
    rules = np.broadcast_to(np.asarray(tree.missing), len(found))[numeric]
    for rule in np.unique(rules).tolist():
        own = numeric[rules == rule]
        features, index = np.unique(tree.feature[own], return_inverse=True)
        known = [columns.numeric(int(feature), rule) for feature in features.tolist()]
        found[own] = np.array(known, dtype=np.int32)[index]
    return found[order]


def _tree(
    tree: SourceTree, order: np.ndarray, feature: np.ndarray, columns: tuple[SplitColumn, ...]
) -> Tree:
    """The finished tree of the nodes in the given order."""
    m, is_leaf = len(order), feature < 0
    value = np.where(is_leaf[:, None], tree.value[order], 0.0)
    if not np.isfinite(value).all():
        raise ValueError("the value of a leaf is not finite")
    is_categorical = tree.is_categorical[order] & ~is_leaf
    category = np.where(is_categorical, np.cumsum(is_categorical) - 1, -1).astype(np.int32)
    masks = [
        _mask(tree.by_category[int(order[k])], columns[feature[k]])
        for k in np.flatnonzero(is_categorical).tolist()
    ]
    is_number = ~is_leaf & ~is_categorical
    gain, weight, count = (_known(own, order) for own in (tree.gain, tree.weight, tree.count))
    return Tree(
        feature=feature,
        threshold=np.where(is_number, tree.threshold[order], np.nan),
        code=np.zeros(m, np.int16),
        missing_left=tree.missing_left[order].astype(bool) & ~is_leaf,
        left=left_children(feature, offsets([m])),
        category=category,
        masks=np.array(masks, dtype=np.uint32).reshape(-1, 8),
        value=value,
        impurity_decrease=np.where(is_leaf, 0.0, gain),
        impurity=np.full(m, np.nan),
        weight=weight,
        count=np.minimum(count, _MAX_COUNT).astype(np.int64),
    )


def _known(given: np.ndarray | None, order: np.ndarray) -> np.ndarray:
    """Gains, weights or counts in the given order: float64 (m,), 0 where they make no sense."""
    if given is None:
        return np.zeros(len(order))
    found = given[order].astype(np.float64)
    return np.where((found > 0.0) & (found < np.inf), found, 0.0)


def _mask(split: CategorySplit, column: SplitColumn) -> np.ndarray:
    """The 256 bits of the codes that go left; codes that no category has are others."""
    inside: np.ndarray = np.full(256, not split.go_left)
    categories = np.zeros(0, np.int64) if column.categories is None else column.categories
    codes = np.arange(len(categories)) if column.codes is None else column.codes
    in_split = np.array([each in split.categories for each in categories.tolist()], dtype=bool)
    inside[codes] = in_split == split.go_left
    return np.packbits(inside, bitorder="little").view("<u4")
