"""Models of LightGBM, from its model text.

LightGBM compares float64 (``x <= threshold`` goes left) and adds float64 values of leaves in the
order of the trees. Each node says whether zeros or NaN are missing values.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gpuboost.data.frames import FeatureSchema
from gpuboost.estimators.imported.columns import (
    NAN_IS_MISSING,
    NAN_IS_ZERO,
    ROUNDED,
    ZERO_IS_MISSING,
)
from gpuboost.estimators.imported.estimators import (
    ImportedClassifier,
    ImportedEstimator,
    ImportedRegressor,
)
from gpuboost.estimators.imported.model import ImportedTrees, LeafSum, PredictionLink
from gpuboost.interchange.fields import Source, no_schema
from gpuboost.interchange.trees import CategorySplit, SourceTree, ensemble_of

LIGHTGBM_NAME = "LightGBM"
# Bits of decision_type: a category; missing values go left; the rule of missing values.
_BY_CATEGORY, _DEFAULT_LEFT, _RULE_SHIFT = 1, 2, 2
_RULES = (NAN_IS_ZERO, ZERO_IS_MISSING, NAN_IS_MISSING)
# Links of the objectives that are not classifications.
_VALUE_LINKS = {
    **dict.fromkeys(
        (
            *("regression", "regression_l1", "huber", "fair", "quantile", "mape", "custom"),
            *("lambdarank", "rank_xendcg"),
        ),
        "identity",
    ),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), "exp"),
    "cross_entropy": "sigmoid",
    "cross_entropy_lambda": "softplus",
}
_CLASS_VALUE_LINKS = {
    "binary": "sigmoid",
    "multiclass": "softmax",
    "multiclassova": "sigmoid",  # not normalised, as in LightGBM
}


def from_lightgbm(model: Any, *, n_rounds: int | str | None = None) -> ImportedEstimator:
    """A model of LightGBM as an estimator of gpuboost.

    Raw predictions are equal to those of LightGBM, bit for bit, and probabilities nearly so. Unlike
    through treelite, ``zero_as_missing`` is kept.

    Parameters
    ----------
    model : str, path-like, Booster or LGBMModel
        A file that LightGBM saved, the text of one, or a fitted object. LightGBM need not be
        installed to read a file.
    n_rounds : int, "best" or None
        Number of rounds to use; "best", or None if the model has stopped early, means all up to the
        best one.

    Returns
    -------
    ImportedClassifier or ImportedRegressor
        A classifier for the objectives binary, multiclass and multiclassova.

    Raises
    ------
    ValueError
        If the model is damaged, or has something that cannot be kept: linear trees, an unknown
        objective, or a split that names more than 255 categories.
    OSError
        If the file cannot be read.
    """
    text, best, classes = _content_of(model)
    head, blocks, pandas_categories = _sections(text)
    per_round = head.integer("num_tree_per_iteration")
    trees = [_tree(block) for block in blocks[: _n_trees(len(blocks), per_round, n_rounds, best)]]
    n_features = head.integer("max_feature_idx") + 1
    ensemble, columns = ensemble_of(trees, n_features, False, ROUNDED)
    columns = replace(columns, tiny_is_zero=True)
    column = np.arange(len(trees), dtype=np.int32) % per_round
    leaf_sum = LeafSum(column, np.zeros(per_round))
    averaged = len(trees) / per_round if "average_output" in head else 1.0
    link, scale, is_classifier = _objective(head)
    schema = _schema(head, n_features, blocks, pandas_categories)
    link_of = PredictionLink(link, scale, averaged)
    found = ImportedTrees(ensemble, columns, leaf_sum, link_of, schema, LIGHTGBM_NAME)
    if not is_classifier:
        return ImportedRegressor.of(found)
    n_classes = max(2, per_round)
    labels = np.arange(n_classes) if classes is None else np.asarray(classes)
    if len(labels) != n_classes:
        raise ValueError(f"the LightGBM model has {n_classes} classes, but {len(labels)} labels")
    return ImportedClassifier.of(found, classes_=labels)


def _content_of(model: Any) -> tuple[str, int | None, Any]:
    """The model text, the best round if there is one, and class labels if they are known."""
    if isinstance(model, str) and model.lstrip().startswith("tree"):
        return model, None, None
    if isinstance(model, (str, os.PathLike)):
        return Path(model).read_text(encoding="utf-8"), None, None
    booster = getattr(model, "booster_", model)
    if not hasattr(booster, "model_to_string"):
        raise TypeError(
            "from_lightgbm takes a path, the text of a model, a Booster or an LGBMModel, got "
            f"{model!r:.80}"
        )
    best = getattr(booster, "best_iteration", -1)
    text = booster.model_to_string(num_iteration=-1)
    return text, best if best and best > 0 else None, getattr(model, "classes_", None)


def _sections(text: str) -> tuple[_Text, list[_Text], Any]:
    """The head of a model, its trees, and the categories of pandas columns."""
    head, _, rest = text.partition("\nTree=")
    body, end, tail = rest.partition("\nend of trees")
    if not head.startswith("tree") or not end:
        raise ValueError("this is no text of a LightGBM model, or it is cut short")
    blocks = [_Text(f"Tree={part}") for part in body.split("\nTree=")]
    categories = None
    for line in tail.splitlines():
        if line.startswith("pandas_categorical:"):
            try:
                categories = json.loads(line.partition(":")[2])
            except ValueError as error:
                raise ValueError("the categories of the LightGBM model are damaged") from error
    return _Text(head), blocks, categories


class _Text(Source):
    """The lines ``key=value`` of a part of the model text; a line without value is a flag."""

    def __init__(self, text: str) -> None:
        lines = (line.partition("=") for line in text.splitlines() if line.strip())
        super().__init__({key: value for key, _, value in lines}, LIGHTGBM_NAME)

    def numbers(self, key: str, length: int | None = None) -> np.ndarray:
        """A field that is a list of numbers: float64."""
        try:
            values = [float(word) for word in self.text(key).split()]
        except ValueError:
            values = []
        if length is not None and len(values) != length:
            raise ValueError(f"{key} of a LightGBM tree is not {length} numbers; it is damaged")
        return np.array(values, dtype=np.float64)

    def integers(self, key: str, length: int) -> np.ndarray:
        """A field that is a list of integers: int64."""
        found = self.numbers(key, length)
        if not (np.abs(found) < 2**53).all():
            raise ValueError(f"{key} of a LightGBM tree has numbers out of range; it is damaged")
        return found.astype(np.int64)


def _n_trees(n_all: int, per_round: int, n_rounds: Any, best: int | None) -> int:
    """Number of trees of the rounds that are used."""
    if per_round < 1 or n_all % per_round:
        raise ValueError("the last round of the LightGBM model lacks trees")
    if n_rounds is None:
        n_rounds = n_all // per_round if best is None else best
    if isinstance(n_rounds, str):
        if n_rounds != "best" or best is None:
            raise ValueError(
                f"n_rounds={n_rounds!r} needs a Booster that stopped early; pass a number or None"
            )
        n_rounds = best
    if isinstance(n_rounds, bool) or not 1 <= n_rounds <= n_all // per_round:
        raise ValueError(f"n_rounds must be from 1 to {n_all // per_round}, got {n_rounds!r}")
    return int(n_rounds) * per_round


def _tree(fields: _Text) -> SourceTree:
    """A tree; LightGBM numbers splits from 0, and leaf k is the child -1 - k."""
    if fields.integer("is_linear", 0):
        raise ValueError("this LightGBM model has linear trees, which gpuboost does not have")
    n_leaves = fields.integer("num_leaves")
    m = n_leaves - 1
    if m < 0:
        raise ValueError("a LightGBM tree has no leaves; the model is damaged")
    value = np.concatenate([np.zeros(m), fields.numbers("leaf_value", n_leaves)])[:, None]
    if m == 0:
        none, no_child = np.zeros(1), np.full(1, -1)
        return SourceTree(no_child, no_child, none, none, none.astype(bool), value)
    children = [_children(fields.integers(f"{side}_child", m), m) for side in ("left", "right")]
    leaves = np.full(n_leaves, -1)
    decision = fields.integers("decision_type", m)
    threshold = fields.numbers("threshold", m)
    rules = (decision >> _RULE_SHIFT) & 3
    if (rules > 2).any():
        raise ValueError("a LightGBM tree has an unknown rule of missing values; it is damaged")
    return SourceTree(
        np.concatenate([children[0], leaves]),
        np.concatenate([children[1], leaves]),
        np.concatenate([fields.integers("split_feature", m), leaves]),
        np.concatenate([threshold, np.zeros(n_leaves)]),
        np.concatenate([(decision & _DEFAULT_LEFT) > 0, np.zeros(n_leaves, bool)]),
        value,
        missing=[_RULES[rule] for rule in rules.tolist()] + [NAN_IS_MISSING] * n_leaves,
        by_category=_category_splits(fields, decision, threshold),
        gain=np.concatenate([fields.numbers("split_gain", m), np.zeros(n_leaves)]),
        weight=_of_nodes(fields, "weight", m),
        count=_of_nodes(fields, "count", m),
    )


def _children(given: np.ndarray, m: int) -> np.ndarray:
    """Child nodes, the leaves after all splits."""
    return np.where(given < 0, m - 1 - given, given)


def _of_nodes(fields: _Text, what: str, m: int) -> np.ndarray | None:
    """Weights or counts of splits and of leaves; None if the model lacks some."""
    parts = [
        fields.numbers(f"{kind}_{what}") if fields.get(f"{kind}_{what}") else np.zeros(0)
        for kind in ("internal", "leaf")
    ]
    complete = len(parts[0]) == m and len(parts[1]) == m + 1
    return np.concatenate(parts) if complete else None


def _category_splits(
    fields: _Text, decision: np.ndarray, threshold: np.ndarray
) -> dict[int, CategorySplit]:
    """The splits by category, whose thresholds are numbers of bit sets; the set goes left."""
    nodes = np.flatnonzero(decision & _BY_CATEGORY).tolist()
    if not nodes:
        return {}
    n_sets = fields.integer("num_cat")
    starts = fields.integers("cat_boundaries", n_sets + 1)
    words = fields.numbers("cat_threshold").astype(np.int64)
    found = {}
    for node in nodes:
        place = threshold[node]
        inside = 0 <= place < n_sets and 0 <= starts[int(place)] <= starts[int(place) + 1]
        if not (inside and starts[int(place) + 1] <= len(words)):
            raise ValueError("the categories of a LightGBM tree are out of range; it is damaged")
        own = words[starts[int(place)] : starts[int(place) + 1]]
        bits = np.unpackbits(own.astype("<u4").view(np.uint8), bitorder="little")
        found[node] = CategorySplit(frozenset(np.flatnonzero(bits).tolist()), go_left=True)
    return found


def _objective(head: _Text) -> tuple[str, float, bool]:
    """The link, the factor of a sigmoid, and whether the model is a classifier."""
    words = str(head.get("objective", "custom")).split()
    name, options = words[0], dict(word.partition(":")[::2] for word in words[1:])
    scale = float(options.get("sigmoid") or 1.0)
    if name in _CLASS_VALUE_LINKS:
        return _CLASS_VALUE_LINKS[name], scale, True
    if name not in _VALUE_LINKS:
        known = ", ".join((*_VALUE_LINKS, *_CLASS_VALUE_LINKS))
        raise ValueError(f"LightGBM's objective {name!r} is unknown; known are {known}")
    if "sqrt" in options:
        return "signed_square", scale, False
    return _VALUE_LINKS[name], scale, False


def _schema(
    head: _Text, n_features: int, blocks: list[_Text], pandas_categories: Any
) -> FeatureSchema:
    """The names of the features, and the categories of pandas columns, in the order of columns."""
    names = head.text("feature_names").split()
    default = [f"Column_{feature}" for feature in range(n_features)]
    schema = no_schema(n_features, None if names == default else names)
    infos = head.text("feature_infos").split()
    if not pandas_categories:
        return schema
    # A column of categories lists them as a:b:c, one of numbers its range, and one of one value is
    # none. Only if all columns of categories can be told, their categories are known.
    by_category = [f for f, info in enumerate(infos) if not info.startswith(("[", "none"))]
    if len(by_category) != len(pandas_categories):
        return schema
    codes = list(schema.codes)
    for feature, own in zip(by_category, pandas_categories, strict=True):
        schema.is_categorical[feature] = True
        codes[feature] = {category: code for code, category in enumerate(own)}
    return FeatureSchema(schema.names, n_features, schema.is_categorical, tuple(codes), True)
