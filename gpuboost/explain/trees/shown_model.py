"""A fitted model as it is shown: its trees, and the names of features, categories and classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpuboost.data.arrays import copied_to_host
from gpuboost.data.frames import FeatureSchema, apply_schema
from gpuboost.data.parameters import integer_between
from gpuboost.data.sparse_features import SparseFeatures
from gpuboost.data.validation import check_features
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.tree import Tree
from gpuboost.estimators.boosting.hist_gradient_boosting import HistGradientBoosting
from gpuboost.estimators.boosting.model import BoostedRounds
from gpuboost.estimators.fitting.base import TreeModel
from gpuboost.estimators.imported.columns import (
    KNOWN,
    NAN_IS_ZERO,
    ROUNDED,
    ZERO_IS_MISSING,
    SplitColumn,
    SplitColumns,
)
from gpuboost.estimators.imported.estimators import ImportedEstimator
from gpuboost.estimators.imported.model import ALL_COLUMNS, BY_PROBABILITY, ImportedTrees
from gpuboost.estimators.inputs.dataset import Dataset
from gpuboost.explain.trees.conditions import Categories, Condition, one_line
from gpuboost.explain.trees.names import names_of_classes, names_of_features
from gpuboost.interchange.from_treelite import TREELITE_NAME
from gpuboost.interchange.from_xgboost import XGBOOST_NAME

DIGITS_SAVED = 2  # per threshold of a model of treelite, if it is shown as ``x < t``
# What the values of leaves are: probabilities of classes, predictions, or terms of a sum.
CLASS_PROBABILITIES, PREDICTIONS, TERMS = "probabilities", "predictions", "terms"


@dataclass(frozen=True, eq=False, kw_only=True)
class ShownModel:
    """A fitted model, with all that is shown of it.

    Attributes
    ----------
    estimator : TreeModel or ImportedEstimator
        The estimator that holds the trees.
    trees : Ensemble
        The trees.
    schema : FeatureSchema
        The columns of X.
    features : tuple of str
        Names of the features.
    columns : SplitColumns or None
        The columns that the trees of an imported model split on; None if these are those of X.
    kind : {CLASS_PROBABILITIES, PREDICTIONS, TERMS}
        What the values of leaves are.
    labels : tuple of ndarray
        Class labels of each output; empty for a regression.
    classes : tuple of tuple of str
        Names of the classes of each output.
    column : int32 (n_trees,)
        Column of raw predictions that each tree adds to; `ALL_COLUMNS` if its leaves have a value
        for each, and in models that are no sums.
    criterion : str or None
        What the impurities of the nodes are; None if the model has none.
    """

    estimator: Any
    trees: Ensemble
    schema: FeatureSchema
    features: tuple[str, ...]
    columns: SplitColumns | None
    kind: str
    labels: tuple[np.ndarray, ...]
    classes: tuple[tuple[str, ...], ...]
    column: np.ndarray
    criterion: str | None

    @classmethod
    def of(cls, model: Any, feature_names: Any = None, class_names: Any = None) -> ShownModel:
        """Read a fitted estimator.

        Parameters
        ----------
        model : estimator of gpuboost
        feature_names : array-like of str of shape (n_features,), optional
            Names in place of those of the training data, or of feature_0, feature_1 and so on.
        class_names : array-like of str of shape (n_classes,), or list of such arrays, optional
            Names in place of the class labels.

        Raises
        ------
        NotFittedError
            The model is not fitted.
        TypeError
            It is no model of gpuboost, its base learners are no trees, or names are no list.
        ValueError
            The number of names is not that of the features or classes, or there are no classes.
        """
        own = _with_trees(model)
        held = own._model
        found = getattr(own, "classes_", ())
        labels = tuple(found) if isinstance(found, list) else (found,) if len(found) else ()
        facts = _of_imported(held, labels) if isinstance(own, ImportedEstimator) else _of_own(own)
        return cls(
            estimator=own,
            trees=held.ensemble,
            schema=held.schema,
            features=names_of_features(feature_names, held.schema.names, held.schema.n_features),
            columns=held.columns if isinstance(held, ImportedTrees) else None,
            labels=labels,
            classes=names_of_classes(labels, class_names),
            **facts,
        )

    @property
    def name(self) -> str:
        """Name of the estimator in messages."""
        return getattr(self.estimator, "_shown_name", type(self.estimator).__name__)

    def tree(self, number: Any) -> Tree:
        """A tree, by its number.

        Raises
        ------
        TypeError, ValueError
            There is no tree of this number.
        """
        return self.trees.trees[integer_between("tree", number, 0, self.trees.n_trees - 1)]

    @cached_property
    def has_counts(self) -> bool:
        """Whether the numbers of rows are known; XGBoost stores sums of hessians only."""
        roots = self.trees.offset[:-1]
        known = self.trees.count[roots] > 0
        # LightGBM does not store them for trees without a split.
        return bool(known.any() and (known | (self.trees.left[roots] == 0)).all())

    @property
    def has_inner_values(self) -> bool:
        """Whether nodes with a split have values; an imported model has those of leaves only."""
        return self.columns is None

    def term_name(self, tree: int) -> str | None:
        """The class or output that a tree's values are terms of; None if there is only one."""
        at, n_columns = int(self.column[tree]), self.n_columns
        if self.classes:
            return self.classes[0][1 if n_columns == 1 and len(self.classes[0]) > 1 else at]
        return None if n_columns == 1 else f"output {at}"

    @property
    def n_columns(self) -> int:
        """Number of columns of raw predictions."""
        return max(self.trees.n_values, int(self.column.max()) + 1)

    def by_output(self, value: np.ndarray) -> list[np.ndarray]:
        """The values of a node by output, without those of classes that an output lacks."""
        if self.kind != CLASS_PROBABILITIES:
            return [value]
        parts = value.reshape(len(self.classes), -1)
        return [own[: len(names)] for own, names in zip(parts, self.classes, strict=True)]

    def predicted(self, value: np.ndarray) -> str:
        """Names of the most probable class of each output, given the probabilities of a node."""
        pairs = zip(self.classes, self.by_output(value), strict=True)
        return ", ".join(one_line(names[own.argmax()]) for names, own in pairs)

    # ---- splits --------------------------------------------------------------------------------

    def split(self, tree: Tree, node: int) -> tuple[Condition, Condition]:
        """The conditions for the left and for the right child of a node."""
        column, missing_left = int(tree.feature[node]), bool(tree.missing_left[node])
        own = SplitColumn(column) if self.columns is None else self.columns.columns[column]
        name = self.features[own.source]
        if tree.category[node] >= 0:
            mask = tree.masks[tree.category[node]].astype("<u4")
            bits = np.unpackbits(mask.view(np.uint8), bitorder="little").astype(bool)
            sides = self._sides_of_categories(own, bits, missing_left)
            return Condition(own.source, name, **sides[0]), Condition(own.source, name, **sides[1])
        threshold, strict = float(tree.threshold[node]), self._strict
        if own.missing == NAN_IS_ZERO:
            missing_left = threshold >= 0.0
        is_exception = own.missing == ZERO_IS_MISSING
        zeros = (missing_left, not missing_left) if is_exception else (None, None)
        left = {"high": threshold, "missing": missing_left, "zero": zeros[0], "strict": strict}
        right = {"low": threshold, "missing": not missing_left, "zero": zeros[1], "strict": strict}
        return Condition(own.source, name, **left), Condition(own.source, name, **right)

    def _sides_of_categories(
        self, column: SplitColumn, bits: np.ndarray, missing_left: bool
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Fields of the two sides of a categorical split; ``bits`` (256,) are its left codes."""
        known, others_left = self.categories[column.source], False
        codes = known.codes
        if self.columns is not None:
            others_left = bool(bits[column.code_of_others])
            codes = _codes_in_column(self._numbers[column.source], column)
            if self.columns.category_rule == ROUNDED:
                missing_left = others_left
        left, has_others = bits[codes], known.others is not None
        return (
            known.side(left, has_others and others_left, missing_left),
            known.side(~left, has_others and not others_left, not missing_left),
        )

    @cached_property
    def _strict(self) -> Any:
        """The type of thresholds that are shown as ``x < t``; None if they are ``x <= t``.

        Thresholds of XGBoost are stored as the next smaller float32. treelite does not say where a
        model is from; there, such thresholds are recognised by the number of digits.
        """
        if self.columns is None:
            return None
        kind: Any = np.float32 if self.columns.float32 else np.float64
        source = self.estimator.source_
        if source == TREELITE_NAME:
            finite = self.trees.threshold[np.isfinite(self.trees.threshold)].astype(kind)
            above = np.nextafter(finite, kind(np.inf))
            saved = sum(map(len, finite.astype(str))) - sum(map(len, above.astype(str)))
            return kind if saved > DIGITS_SAVED * len(finite) else None
        return kind if source == XGBOOST_NAME else None

    @cached_property
    def _numbers(self) -> dict[int, np.ndarray]:
        """Numbers of the categories of each categorical feature of an imported model, ascending."""
        found: dict[int, set[int]] = {}
        for column in self.columns.columns if self.columns is not None else ():
            if column.categories is not None:
                names = (self.schema.codes[column.source] or {}).values()
                found.setdefault(column.source, set(names)).update(column.categories.tolist())
        return {feature: np.array(sorted(own), np.int64) for feature, own in found.items()}

    @cached_property
    def categories(self) -> dict[int, Categories]:
        """The categories of each categorical feature, by column of X."""
        if self.columns is None:
            found = {}
            for feature in np.flatnonzero(self.schema.is_categorical).tolist():
                known = self.schema.codes[feature] or {}
                codes = np.fromiter(known.values(), np.int64, len(known))
                found[feature] = Categories(tuple(known), codes)
            return found
        return {
            feature: self._of_numbers(feature, numbers)
            for feature, numbers in self._numbers.items()
        }

    def _of_numbers(self, feature: int, numbers: np.ndarray) -> Categories:
        """The categories of an imported model; those without names are shown as numbers."""
        assert self.columns is not None
        names = {number: name for name, number in (self.schema.codes[feature] or {}).items()}
        others = None if self.columns.category_rule == KNOWN else len(numbers)
        shown = tuple(names.get(number, number) for number in numbers.tolist())
        return Categories(shown, np.arange(len(numbers)), others)

    # ---- rows ----------------------------------------------------------------------------------

    def read(self, X: Any, features: Sequence[int]) -> np.ndarray:
        """Columns of X that conditions test, with codes of categories: (n, len(features)).

        Raises
        ------
        TypeError, ValueError
            X is a `Dataset`, or does not fit the model.
        """
        if isinstance(X, Dataset):
            raise TypeError("a Dataset has codes in place of values; pass the table itself")
        (X,), chosen = copied_to_host(X), list(features)
        if self.columns is None:
            rows = check_features(apply_schema(X, self.schema, self.name), self.schema.names)
            return rows.columns(chosen) if isinstance(rows, SparseFeatures) else rows[:, chosen]
        wanted = tuple(SplitColumn(f, categories=self._numbers.get(f)) for f in chosen)
        return replace(self.columns, columns=wanted).of(self.estimator._read(X))

    def leaves(self, X: Any) -> np.ndarray:
        """Leaf of each row in each tree, on the host: int64 (n, n_trees)."""
        own = self.estimator
        found = own.apply(X) if isinstance(own, ImportedEstimator) else own._leaves(X)
        return copied_to_host(found)[0].astype(np.int64)


def _with_trees(model: Any) -> Any:
    """The estimator that holds the trees of a model."""
    known = isinstance(model, (TreeModel, HistGradientBoosting, ImportedEstimator))
    if not known:
        raise TypeError(
            f"expected a fitted estimator of gpuboost, got {model!r:.80}; models of other "
            "libraries become such estimators by gpuboost.from_sklearn, from_xgboost, "
            "from_lightgbm and from_treelite"
        )
    check_is_fitted(model)
    own = model._fitted() if isinstance(model, HistGradientBoosting) else model
    if own._model is None:
        raise TypeError(
            f"the base learners of this {type(own).__name__} are not gpuboost's trees, but "
            f"{own.estimator!r:.80}"
        )
    return own


def _of_own(own: TreeModel) -> dict[str, Any]:
    """What the values of a model of gpuboost are."""
    held, n_trees = own._model, own._model.ensemble.n_trees
    if isinstance(held, BoostedRounds):
        k = held.trees_per_round
        column = np.arange(n_trees, dtype=np.int32) % k
        if k == 1 and held.ensemble.n_values > 1:
            column[:] = ALL_COLUMNS
        return {"kind": TERMS, "column": column, "criterion": None}
    kind = CLASS_PROBABILITIES if hasattr(own, "classes_") else PREDICTIONS
    column = np.full(n_trees, ALL_COLUMNS, np.int32)
    template = held.batches[0].template or own._tree
    return {"kind": kind, "column": column, "criterion": getattr(template, "criterion", None)}


def _of_imported(held: ImportedTrees, labels: tuple[np.ndarray, ...]) -> dict[str, Any]:
    """What the values of an imported model are: without a base or a sum, they are predictions."""
    rule, width = held.leaf_sum, held.ensemble.n_values
    is_mean = rule.median_weights is not None or rule.divisor == held.ensemble.n_trees
    is_mean = is_mean and not rule.base.any() and held.link.name == "identity"
    kind = PREDICTIONS if is_mean else TERMS
    if labels and is_mean:
        n_classes = max(map(len, labels))
        of_classes = held.decision == BY_PROBABILITY and width == len(labels) * n_classes
        kind = CLASS_PROBABILITIES if of_classes else TERMS
    column = np.full_like(rule.column, ALL_COLUMNS) if kind != TERMS else rule.column
    return {"kind": kind, "column": column, "criterion": None}


def _codes_in_column(numbers: np.ndarray, column: SplitColumn) -> np.ndarray:
    """The codes that a column of trees has for numbers of categories: int64 (n,)."""
    own = np.zeros(0, np.int64) if column.categories is None else column.categories
    codes = np.arange(len(own)) if column.codes is None else column.codes.astype(np.int64)
    known = dict(zip(own.tolist(), codes.tolist(), strict=True))
    others = column.code_of_others
    return np.array([known.get(number, others) for number in numbers.tolist()], dtype=np.int64)
