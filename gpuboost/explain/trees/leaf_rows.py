"""Support, precision and spread of leaves: of the training rows, or of other rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gpuboost.data.arrays import copied_to_host
from gpuboost.data.class_labels import check_classes, codes_among
from gpuboost.data.validation import check_same_length, check_targets, check_weights, read_target
from gpuboost.explain.trees.conditions import Condition
from gpuboost.explain.trees.shown_model import CLASS_PROBABILITIES, PREDICTIONS, ShownModel

Leaf = tuple[int, int]  # number of the tree, and of the node
Conditions = tuple[Condition, ...]
RowFacts = dict[str, Any]  # the fields of a `Rule` that describe its rows
FEATURES_OF_A_READ = 64  # whose columns are read together for missing values
STANDARD_DEVIATION, ROOT_MEAN_VARIANCE = "standard deviation", "root mean variance of outputs"
# Names of the impurities of regression trees whose square root is not the spread.
SPREAD_NAMES = {"absolute_error": "mean absolute deviation", "poisson": "half Poisson deviance"}


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """The training rows, as the trees have counted them."""

    shown: ShownModel

    @cached_property
    def _shares(self) -> np.ndarray:
        """Fraction of the rows of a tree in each node: float64 (n_nodes,)."""
        trees = self.shown.trees
        sizes = trees.count if self.shown.has_counts else trees.weight
        whole = np.repeat(sizes[trees.offset[:-1]], np.diff(trees.offset))
        return sizes / np.where(whole > 0, whole, 1)

    def _places(self, leaves: Sequence[Leaf]) -> list[int]:
        offset = self.shown.trees.offset
        return [int(offset[tree]) + node for tree, node in leaves]

    def coverage(self, conditions: Conditions, leaves: Sequence[Leaf]) -> float:
        """Mean fraction of the rows of a tree that reach its leaf."""
        return float(self._shares[self._places(leaves)].sum() / len(leaves))

    def facts(self, conditions: Conditions, leaves: Sequence[Leaf], value: np.ndarray) -> RowFacts:
        """What is known of the rows of leaves that are one rule with the given value."""
        shown, trees, at = self.shown, self.shown.trees, self._places(leaves)
        is_single = shown.kind == CLASS_PROBABILITIES and len(shown.classes) == 1
        count = round(float(trees.count[at].sum() / len(at))) if shown.has_counts else None
        spread, name = None, None
        if shown.kind == PREDICTIONS and shown.criterion is not None:
            spread = float(trees.impurity[at].sum() / len(at))
            name = SPREAD_NAMES.get(shown.criterion)
            if name is None:
                spread, name = float(np.sqrt(spread)), name_of_spread(trees.n_values)
        return RowFacts(
            count=count,
            weight=float(trees.weight[at].sum() / len(at)),
            coverage=self.coverage(conditions, leaves),
            precision=float(value.max()) if is_single else None,
            majority=None,
            spread=spread,
            spread_name=name,
        )


@dataclass(frozen=True, eq=False)
class MeasuredRows:
    """Rows of a user.

    Attributes
    ----------
    shown : ShownModel
    leaves : int64 (n, n_trees)
        Leaf of each row in each tree.
    weights : float64 (n,)
        Weights of the rows.
    y : int64 or float64 (n, n_outputs), or None
        Classes as indices of the labels, or values.
    missing : dict of int to bool (n,)
        The rows in which a feature is missing, which match no condition on it; empty if conditions
        say whether missing values pass.
    """

    shown: ShownModel
    leaves: np.ndarray
    weights: np.ndarray
    y: np.ndarray | None
    missing: dict[int, np.ndarray]

    @cached_property
    def _by_leaf(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The rows in the order of their leaves, and where each node starts, by tree."""
        sizes = np.diff(self.shown.trees.offset).tolist()
        return [
            (np.argsort(own, kind="stable"), np.bincount(own + 1, minlength=size + 1).cumsum())
            for own, size in zip(self.leaves.T, sizes, strict=True)
        ]

    def _inside(self, conditions: Conditions, leaves: Sequence[Leaf]) -> np.ndarray:
        """The rows that match a rule, which are the same in the trees of all its leaves."""
        tree, node = leaves[0]
        rows, start = self._by_leaf[tree]
        inside = rows[start[node] : start[node + 1]]
        for condition in conditions:
            if condition.feature in self.missing:
                inside = inside[~self.missing[condition.feature][inside]]
        return inside

    def coverage(self, conditions: Conditions, leaves: Sequence[Leaf]) -> float:
        """Fraction of the rows that match a rule."""
        return len(self._inside(conditions, leaves)) / len(self.leaves)

    def facts(self, conditions: Conditions, leaves: Sequence[Leaf], value: np.ndarray) -> RowFacts:
        """What is known of the rows that match a rule with the given value."""
        inside = self._inside(conditions, leaves)
        weights = self.weights[inside]
        found = RowFacts(
            count=len(inside),
            weight=float(weights.sum()),
            coverage=len(inside) / len(self.leaves),
            precision=None,
            majority=None,
            spread=None,
            spread_name=None,
        )
        if self.y is not None and found["weight"] > 0.0:
            y, share = self.y[inside], weights / found["weight"]
            if self.shown.classes:
                self._add_precision(found, y, share, value)
            else:
                deviation = y - (share[:, None] * y).sum(axis=0)
                variance = (share[:, None] * deviation * deviation).sum(axis=0)
                found["spread"] = float(np.sqrt(variance.sum() / y.shape[1]))
                found["spread_name"] = name_of_spread(y.shape[1])
        return found

    def _add_precision(
        self, found: RowFacts, y: np.ndarray, share: np.ndarray, value: np.ndarray
    ) -> None:
        """Add the share of the rows of the predicted classes, or of the most frequent class."""
        shown = self.shown
        if shown.kind == CLASS_PROBABILITIES:
            predicted = [own.argmax() for own in shown.by_output(value)]
        else:
            predicted = [np.bincount(y[:, 0], share, len(shown.classes[0])).argmax()]
            found["majority"] = shown.classes[0][int(predicted[0])]
        found["precision"] = float(share[(y == predicted).all(axis=1)].sum())


def name_of_spread(n_outputs: int) -> str:
    """The name of the square root of the variance, or of its mean over several outputs."""
    return STANDARD_DEVIATION if n_outputs == 1 else ROOT_MEAN_VARIANCE


def measured_rows(
    shown: ShownModel, X: Any, y: Any, *, sample_weight: Any, unmatched: Sequence[int]
) -> MeasuredRows:
    """Read the rows of a user; missing values of the features ``unmatched`` match no condition.

    Raises
    ------
    TypeError, ValueError
        They do not fit the model, or each other.
    """
    leaves = shown.leaves(X)
    y, sample_weight = copied_to_host(y, sample_weight)
    weights = check_weights(sample_weight, len(leaves))
    if weights is None:
        weights = np.ones(len(leaves))
    targets = None
    if y is not None:
        targets = _class_indices(shown, y) if shown.classes else check_targets(y)
        targets = targets.reshape(len(targets), -1)
        check_same_length(leaves, targets)
    return MeasuredRows(shown, leaves, weights, targets, _missing_values(shown, X, unmatched))


def _missing_values(shown: ShownModel, X: Any, features: Sequence[int]) -> dict[int, np.ndarray]:
    """The rows in which some features are missing; features without missing values are left out."""
    found: dict[int, np.ndarray] = {}
    for start in range(0, len(features), FEATURES_OF_A_READ):
        chosen = features[start : start + FEATURES_OF_A_READ]
        columns = zip(chosen, np.isnan(shown.read(X, chosen)).T, strict=True)
        found |= {feature: is_missing for feature, is_missing in columns if is_missing.any()}
    return found


def _class_indices(shown: ShownModel, y: Any) -> np.ndarray:
    """Class labels as indices: int32 (n, n_outputs)."""
    given = read_target(y, of_classes=True)
    given = given.reshape(len(given), -1)
    if given.shape[1] != len(shown.labels):
        raise ValueError(
            f"y has {given.shape[1]} columns, but the model has {len(shown.labels)} outputs"
        )
    columns = [
        codes_among(labels, *check_classes(column), "y")
        for labels, column in zip(shown.labels, given.T, strict=True)
    ]
    return np.stack(columns, axis=1)
