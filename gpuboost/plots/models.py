"""What pictures show of a fitted model: its trees, and texts and colours of their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpuboost.data.frames import FeatureSchema
from gpuboost.data.parameters import integer_between
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.tree import Tree
from gpuboost.estimators.boosting.model import BoostedRounds
from gpuboost.estimators.imported.model import ALL_COLUMNS, ImportedTrees
from gpuboost.estimators.model.fitted import FittedTrees
from gpuboost.plots.axes import checked_names, names_of_features

Model = FittedTrees | ImportedTrees


def own_model(estimator: Any) -> tuple[Any, Model]:
    """The estimator that has the trees, and its model.

    Raises
    ------
    NotFittedError
        If it is not fitted.
    TypeError
        If its trees are not gpuboost's.
    """
    check_is_fitted(estimator)
    own = getattr(estimator, "_boosting", None) or estimator
    model = getattr(own, "_model", None)
    if not isinstance(model, Model):
        raise TypeError(
            f"only fitted models of gpuboost have trees that it can draw, got {estimator!r:.80}; "
            "import a model of another library by gpuboost.from_sklearn, from_xgboost, "
            "from_lightgbm or from_treelite"
        )
    return own, model


def source_features(model: Model, ensemble: Ensemble | Tree) -> np.ndarray:
    """Feature of X that each node splits on, -1 in leaves: int (m,)."""
    if isinstance(model, FittedTrees) or not model.columns.columns:
        return ensemble.feature
    sources = np.array([column.source for column in model.columns.columns])
    return np.where(ensemble.feature < 0, -1, sources[np.maximum(ensemble.feature, 0)])


@dataclass(frozen=True, eq=False)
class DrawnTree:
    """One tree of a model, and the names in its picture.

    Attributes
    ----------
    tree : Tree
    feature : int (m,)
        Feature of X of each split, -1 in leaves.
    feature_names : list of str
    categories : tuple of dict
        The name of each code, by columns that trees split on; empty for numbers.
    class_names : list of list of str
        Names of the classes of each output, if values are probabilities; else empty.
    adds : bool
        Whether predictions are sums of the values of leaves.
    inner_values : bool
        Whether inner nodes have values.
    title : str
        What the tree adds to, if trees add to different outputs.
    """

    tree: Tree
    feature: np.ndarray
    feature_names: list[str]
    categories: tuple[dict[int, str], ...]
    class_names: list[list[str]]
    adds: bool
    inner_values: bool
    title: str

    @property
    def probabilities(self) -> list[np.ndarray]:
        """Class probabilities of each output: float64 (m, n_classes) each."""
        n_outputs = len(self.class_names)
        value = self.tree.value.reshape(self.tree.node_count, n_outputs, -1)
        return [value[:, k, : len(names)] for k, names in enumerate(self.class_names)]


def drawn_tree(estimator: Any, tree: Any, feature_names: Any, class_names: Any) -> DrawnTree:
    """One tree of a fitted estimator.

    Raises
    ------
    NotFittedError, TypeError
        See `own_model`.
    ValueError
        There is no such tree, or the number of names is wrong.
    """
    own, model = own_model(estimator)
    ensemble = model.ensemble
    number = integer_between("tree", tree, 0, ensemble.n_trees - 1)
    schema, found = model.schema, ensemble.trees[number]
    classes = names_of_classes(own, class_names)
    boosted = isinstance(model, BoostedRounds)
    adds = boosted or (isinstance(model, ImportedTrees) and model.link.name != "identity")
    has_shares = classes and not adds and sum(map(len, classes)) <= found.value.shape[1]
    return DrawnTree(
        tree=found,
        feature=source_features(model, found),
        feature_names=names_of_features(feature_names, schema.names, schema.n_features),
        categories=_categories(model),
        class_names=classes if has_shares else [],
        adds=adds,
        inner_values=isinstance(model, FittedTrees) and not boosted,
        title=_title(model, number, classes),
    )


def names_of_classes(estimator: Any, given: Any) -> list[list[str]]:
    """Names of the classes of each output; an empty list for a regressor."""
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        return []
    if isinstance(classes, list):
        of_outputs: Sequence[Any] = [None] * len(classes) if given is None else given
        if len(of_outputs) != len(classes):
            raise ValueError(
                f"class_names has {len(of_outputs)} lists, but there are {len(classes)} outputs; "
                "pass a list of names for each"
            )
        pairs = zip(of_outputs, classes, strict=True)
        return [_names(names, own) for names, own in pairs]
    return [_names(given, classes)]


def _names(given: Any, classes: np.ndarray) -> list[str]:
    shown = classes.tolist() if given is None else given
    return checked_names("class_names", shown, len(classes), "classes")


def _title(model: Model, number: int, classes: list[list[str]]) -> str:
    """The output that a tree adds to, if trees add to different ones."""
    if isinstance(model, BoostedRounds):
        per_round = model.trees_per_round
        output = number % per_round if per_round > 1 else ALL_COLUMNS
    else:
        rule: Any = getattr(model, "leaf_sum", None)
        alone = rule is None or len(rule.base) == 1
        output = ALL_COLUMNS if alone else int(rule.column[number])
    if output == ALL_COLUMNS:
        return ""
    if classes and output < len(classes[0]):
        return f"tree {number}, for class {classes[0][output]}"
    return f"tree {number}, for output {output}"


def _categories(model: Model) -> tuple[dict[int, str], ...]:
    """Names of the categories by their codes, for each column that trees split on."""
    if isinstance(model, FittedTrees):
        return tuple(_names_of_codes(own or {}) for own in model.schema.codes)
    return tuple(
        _imported_names(model.schema, column.source, column.categories, column.codes)
        for column in model.columns.columns
    )


def _imported_names(
    schema: FeatureSchema, source: int, categories: np.ndarray | None, codes: np.ndarray | None
) -> dict[int, str]:
    """Names of the codes in a column of an imported model, whose categories are numbers."""
    if categories is None:
        return {}
    named = _names_of_codes(schema.codes[source] or {})
    codes = np.arange(len(categories)) if codes is None else codes
    found: dict[Any, int] = {
        named.get(category, str(category)): code
        for category, code in zip(categories.tolist(), codes.tolist(), strict=True)
    }
    return _names_of_codes(found)


def _names_of_codes(known: dict[Any, int]) -> dict[int, str]:
    """The names of each code; categories that share one are joined."""
    names: dict[int, str] = {}
    for category, code in known.items():
        names[code] = f"{names[code]}, {category}" if code in names else str(category)
    return names
