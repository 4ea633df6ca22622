"""The paths of trees to their leaves as rules, with support and precision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpuboost.data.parameters import boolean, integer_at_least
from gpuboost.engine.growth.tree import Tree
from gpuboost.explain.trees.conditions import (
    MAX_SHOWN,
    Condition,
    Path,
    extended,
    one_line,
    shortest,
)
from gpuboost.explain.trees.leaf_rows import Leaf, MeasuredRows, TrainingRows, measured_rows
from gpuboost.explain.trees.shown_model import CLASS_PROBABILITIES, TERMS, ShownModel

TOP_RULES = 20  # of an ensemble
_ALTERNATIVES = (" or missing", " or 0", " and not 0")  # ends of conditions that need brackets


@dataclass(frozen=True)
class Rule:
    """The path to a leaf: conditions, the prediction, and the rows for which it holds.

    ``str(rule)`` is the rule in words.

    Attributes
    ----------
    conditions : tuple of Condition
        One condition for each feature on the path, in the order of the path; empty if the tree is a
        leaf.
    prediction : object
        Class label, value, or term of the raw prediction; a tuple of these with several outputs.
    value : tuple of float
        Probabilities of the classes, or the values of which ``prediction`` consists.
    count : int or None
        Number of rows in the leaf; None if the model does not have it, as that of XGBoost.
    weight : float
        Total weight of these rows; in gradient boosting without ``X``, total hessian.
    coverage : float
        ``count`` as a fraction of all rows; a fraction of the total weight without a count.
    precision : float or None
        Classification only: the weighted fraction of the rows whose class is the prediction or, in
        gradient boosting, `majority`. None if it is not known: in gradient boosting and with
        several outputs, unless ``X`` and ``y`` are given.
    majority : object
        The most frequent class of the rows, if the prediction is a term of a raw prediction and
        ``y`` is given; otherwise None.
    spread : float or None
        Regression only: how much y varies in the leaf; None if it is not known.
    spread_name : str or None
        What the spread is, such as "standard deviation".
    output : str or None
        The class or output whose raw prediction the rule adds to, if there are several.
    leaves : tuple of (int, int)
        The tree and node of each leaf that has this rule.
    """

    conditions: tuple[Condition, ...]
    prediction: Any
    value: tuple[float, ...]
    count: int | None
    weight: float
    coverage: float
    precision: float | None
    majority: Any
    spread: float | None
    spread_name: str | None
    output: str | None
    leaves: tuple[tuple[int, int], ...]
    _model: ShownModel = field(repr=False, compare=False)

    def matches(self, X: Any) -> np.ndarray:
        """Whether rows pass all conditions.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            As for `predict` of the model, but not a `Dataset`.

        Returns
        -------
        ndarray of bool of shape (n_samples,)

        Raises
        ------
        TypeError, ValueError
            X does not fit the model.
        """
        columns = self._model.read(X, [each.feature for each in self.conditions])
        found = np.ones(len(columns), dtype=bool)
        for place, condition in enumerate(self.conditions):
            found &= condition.passes(columns[:, place])
        return found

    def __str__(self) -> str:
        return self.text()

    def text(self, max_categories: int = MAX_SHOWN) -> str:
        """The rule in words, with up to ``max_categories`` categories of each set."""
        texts = [each.text(shortest, max_categories) for each in self.conditions]
        if len(texts) > 1:
            texts = [f"({text})" if text.endswith(_ALTERNATIVES) else text for text in texts]
        facts = [f"support {self.coverage:.1%}" if self.count is None else f"support {self.count}"]
        if self.precision is not None:
            of_what = "" if self.majority is None else f" for {one_line(self.majority)}"
            facts.append(f"precision {self.precision:.2f}{of_what}")
        if self.spread is not None:
            facts.append(f"{self.spread_name} {shortest(self.spread)}")
        return f"{' and '.join(texts) or 'always'} -> {self._prediction()}  ({', '.join(facts)})"

    def _prediction(self) -> str:
        """The prediction in words."""
        kind = self._model.kind
        if kind == CLASS_PROBABILITIES:
            return self._model.predicted(np.array(self.value))
        if kind != TERMS:
            return ", ".join(map(shortest, self.value))
        of_what = "" if self.output is None else f" of {one_line(self.output)}"
        return f"raw prediction{of_what} {', '.join(f'{part:+.6g}' for part in self.value)}"


def export_rules(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    sample_weight: Any = None,
    tree: int | None = None,
    max_rules: int | None = None,
    show_missing: bool = True,
    feature_names: Any = None,
    class_names: Any = None,
) -> list[Rule]:
    """The paths to the leaves as rules, those of the largest coverage first.

    All conditions of a path on the same feature are merged to one interval or one set of
    categories. Support and precision are those of the training rows as the trees have counted them
    or, if X is given, those of the rows of X. In training, precision is the leaf's probability of
    the predicted class: its fraction of the weights that the tree was grown with, which include
    class weights and the draws of a bootstrap.

    Leaves of several trees with the same conditions are one rule. Its value is their sum in
    gradient boosting, and otherwise their mean by the weights of the leaves; training counts are
    means, too.

    Parameters
    ----------
    model : estimator of gpuboost
        A fitted model; also one that `gpuboost.from_xgboost` and the like have returned.
    X : array-like or data frame of shape (n_samples, n_features), optional
        Rows that support is measured on.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs), optional
        Targets of these rows, that precision or spread are measured on.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of these rows.
    tree : int, optional
        Number of the tree, from 0. None means all trees.
    max_rules : int, optional
        Maximum number of rules. None means all of a single tree, and 20 of several trees.
    show_missing : bool
        Whether conditions say if missing values pass. If not, missing values match no condition,
        leaves that only they reach have no rule, and rules that differ in nothing else are one.
        Support and precision on X are those of the rows that match, while those of the training
        rows include the rows with missing values in the leaves.
    feature_names, class_names : array-like of str, optional
        As in `export_text`.

    Returns
    -------
    list of Rule

    Raises
    ------
    NotFittedError
        The model is not fitted.
    TypeError, ValueError
        It is no such model, or a parameter is invalid.
    """
    shown = ShownModel.of(model, feature_names, class_names)
    if tree is not None:
        shown.tree(tree)
    numbers = range(shown.trees.n_trees) if tree is None else range(tree, tree + 1)
    limit = TOP_RULES if max_rules is None and len(numbers) > 1 else None
    if max_rules is not None:
        limit = integer_at_least("max_rules", max_rules, 1)
    if X is None and (y is not None or sample_weight is not None):
        raise ValueError("y and sample_weight are those of the rows of X; pass X, too")
    found = _distinct_rules(shown, numbers, boolean("show_missing", show_missing))
    rows: TrainingRows | MeasuredRows = TrainingRows(shown)
    if X is not None:
        used = set() if show_missing else {c.feature for conditions, _ in found for c in conditions}
        rows = measured_rows(shown, X, y, sample_weight=sample_weight, unmatched=sorted(used))
    found.sort(key=lambda rule: -rows.coverage(*rule))
    return [_rule(shown, rows, *each) for each in found[:limit]]


def _distinct_rules(
    shown: ShownModel, numbers: range, show_missing: bool
) -> list[tuple[tuple[Condition, ...], list[Leaf]]]:
    """The conditions of the paths of some trees, and the leaves that each leads to."""
    found: dict[Any, tuple[tuple[Condition, ...], list[Leaf]]] = {}
    for number in numbers:
        column = int(shown.column[number])
        for node, path in _paths(shown, shown.trees.trees[number]):
            conditions = [c for c in path.values() if not (c.is_everything and c.missing)]
            if not show_missing:
                conditions = [replace(each, missing=False) for each in conditions]
                if any(each.is_empty for each in conditions):
                    continue
            key = column, frozenset(conditions)
            found.setdefault(key, (tuple(conditions), []))[1].append((number, node))
    return list(found.values())


def _paths(shown: ShownModel, tree: Tree) -> Iterator[tuple[int, Path]]:
    """The leaves of a tree from left to right, and the conditions that lead to each."""
    todo: list[tuple[int, Path]] = [(0, {})]
    while todo:
        node, path = todo.pop()
        left = int(tree.left[node])
        if not left:
            yield node, path
            continue
        sides = shown.split(tree, node)
        todo += [(left + 1, extended(path, sides[1])), (left, extended(path, sides[0]))]


def _rule(
    shown: ShownModel,
    rows: TrainingRows | MeasuredRows,
    conditions: tuple[Condition, ...],
    leaves: list[Leaf],
) -> Rule:
    """The rule of leaves with the same conditions."""
    value = _value_of_leaves(shown, leaves)
    output = None
    if shown.kind == CLASS_PROBABILITIES:
        best = [int(own.argmax()) for own in shown.by_output(value)]
        prediction = tuple(own.tolist()[k] for own, k in zip(shown.labels, best, strict=True))
    else:
        prediction = tuple(value.tolist())
        if shown.kind == TERMS and len(value) == 1:
            output = shown.term_name(leaves[0][0])
    return Rule(
        conditions,
        prediction[0] if len(prediction) == 1 else prediction,
        tuple(value.tolist()),
        **rows.facts(conditions, leaves, value),
        output=output,
        leaves=tuple(leaves),
        _model=shown,
    )


def _value_of_leaves(shown: ShownModel, leaves: list[Leaf]) -> np.ndarray:
    """The sum of the values of some leaves, or their mean by the weights of the leaves."""
    trees = [shown.trees.trees[tree] for tree, _ in leaves]
    values = np.array([own.value[node] for own, (_, node) in zip(trees, leaves, strict=True)])
    if shown.kind == TERMS:
        return values.sum(axis=0)
    weights = np.array([own.weight[node] for own, (_, node) in zip(trees, leaves, strict=True)])
    if not weights.any():
        weights[:] = 1.0
    return values[0] if len(leaves) == 1 else (values * weights[:, None]).sum(0) / weights.sum()
