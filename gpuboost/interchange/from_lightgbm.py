"""Models of LightGBM, from its model text.

LightGBM compares float64 (``x <= threshold`` goes left) and adds float64 values of leaves in the
order of the trees. Each node says whether zeros or NaN are missing values.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpuboost.data.frames import FeatureSchema
from gpuboost.data.parameters import integer_between
from gpuboost.estimators.files.models import MAX_COLUMNS
from gpuboost.estimators.imported.columns import (
    MAX_SOURCE_FEATURES,
    NAN_IS_MISSING,
    NAN_IS_ZERO,
    ROUNDED,
    ZERO_IS_MISSING,
)
from gpuboost.estimators.imported.estimators import ImportedEstimator
from gpuboost.estimators.imported.model import LIGHTGBM_NAME, ImportedTrees, LeafSum, PredictionLink
from gpuboost.interchange.fields import Source, no_schema, numbered, with_categories
from gpuboost.interchange.trees import CategorySplit, SourceTree, ensemble_of

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
    model : str, path-like, bytes, Booster or LGBMModel
        A file that LightGBM saved, its text or bytes, or a fitted object. LightGBM need not be
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
        If the model is damaged, or has something that cannot be kept: linear trees, or an unknown
        objective.
    sklearn.exceptions.NotFittedError
        If an LGBMModel is not fitted.
    OSError
        If the file cannot be read.
    """
    text, best, classes = _content_of(model)
    head, blocks, tail = _sections(text)
    per_round = head.integer("num_tree_per_iteration", low=1, high=MAX_COLUMNS)
    trees = [_tree(block) for block in blocks[: _n_trees(len(blocks), per_round, n_rounds, best)]]
    n_features = head.integer("max_feature_idx", low=0, high=MAX_SOURCE_FEATURES - 1) + 1
    ensemble, columns = ensemble_of(trees, n_features, False, ROUNDED)
    columns = replace(columns, tiny_is_zero=True)
    leaf_sum = LeafSum(np.arange(len(trees), dtype=np.int32) % per_round, np.zeros(per_round))
    averaged = len(trees) / per_round if "average_output" in head else 1.0
    link, scale, is_classifier = _objective(head)
    schema = _schema(head, n_features, tail)
    link_of = PredictionLink(link, scale, averaged)
    found = ImportedTrees(ensemble, columns, leaf_sum, link_of, schema, LIGHTGBM_NAME)
    if not is_classifier:
        return ImportedEstimator.of(found)
    n_classes = max(2, per_round)
    labels = np.arange(n_classes) if classes is None else np.asarray(classes)
    if len(labels) != n_classes:
        raise ValueError(f"the LightGBM model has {n_classes} classes, but {len(labels)} labels")
    return ImportedEstimator.of(found, labels)


def _content_of(model: Any) -> tuple[str, int | None, Any]:
    """The model text, the best round if there is one, and class labels if they are known."""
    if isinstance(model, (bytes, bytearray)):
        model = bytes(model).decode() + "\n"
    if isinstance(model, str) and "\n" in model:
        return model, None, None
    if isinstance(model, (str, os.PathLike)):
        return Path(model).read_text(encoding="utf-8"), None, None
    booster = model.booster_ if hasattr(type(model), "booster_") else model
    if not hasattr(booster, "model_to_string"):
        raise TypeError(
            "from_lightgbm takes a path, the text or bytes of a file, a Booster or an LGBMModel, "
            f"got {model!r:.80}"
        )
    best = getattr(booster, "best_iteration", -1)
    text = booster.model_to_string(num_iteration=-1)
    return text, best if best and best > 0 else None, getattr(model, "classes_", None)


@dataclass(frozen=True)
class _Tail:
    """What a model says after its trees: the columns of categories, and pandas' categories."""

    categorical_features: list[int]
    pandas_categories: list[list[Any]]


def _sections(text: str) -> tuple[_Text, list[_Text], _Tail]:
    """The head of a model, its trees, and what follows."""
    head, _, rest = text.partition("\nTree=")
    body, end, tail = rest.partition("\nend of trees")
    if not head.startswith("tree") or not end:
        raise ValueError("this is not the text of a LightGBM model, or it is cut short")
    blocks = [_Text(f"Tree={part}") for part in body.split("\nTree=")]
    for number, block in enumerate(blocks):
        block.integer("Tree", low=number, high=number)  # none is lost
    return _Text(head), blocks, _tail(tail)


def _tail(text: str) -> _Tail:
    features: list[int] = []
    categories: Any = []
    for line in text.splitlines():
        key, _, value = line.strip("[]").partition(":")
        if key == "categorical_feature":
            words = [word.strip() for word in value.split(",")]
            features = [int(word) for word in words if word.isdecimal()]
        if key == "pandas_categorical":
            try:
                categories = json.loads(line.partition(":")[2]) or []
            except (ValueError, RecursionError):
                categories = None
    is_lists = isinstance(categories, list) and all(isinstance(own, list) for own in categories)
    is_values = is_lists and all(
        isinstance(each, (str, int, float)) for own in categories for each in own
    )
    if not is_values:
        raise ValueError("the categories of the LightGBM model are damaged")
    return _Tail(features, categories)


class _Text(Source):
    """The lines ``key=value`` of a part of the model text; a line without value is a flag."""

    def __init__(self, text: str) -> None:
        lines = [line.partition("=") for line in text.splitlines() if line.strip()]
        found = {key: value for key, _, value in lines}
        if len(found) < len(lines):
            raise ValueError("a part of the LightGBM model has a field twice; it is damaged")
        super().__init__(found, LIGHTGBM_NAME)

    def numbers(self, key: str, length: int | None = None) -> np.ndarray:
        """A field that is a list of numbers: float64."""
        try:
            found = np.array([float(word) for word in self.text(key).split()], dtype=np.float64)
        except ValueError:
            found = None
        if found is None or length not in (None, len(found)):
            wanted = "numbers" if length is None else f"{length} numbers"
            raise ValueError(f"{key} of a LightGBM tree is not a list of {wanted}; it is damaged")
        return found


def _n_trees(n_all: int, per_round: int, n_rounds: Any, best: int | None) -> int:
    """Number of trees of the rounds that are used."""
    if n_all % per_round:
        raise ValueError("the last round of the LightGBM model lacks trees")
    if n_rounds is None:
        n_rounds = n_all // per_round if best is None else best
    if isinstance(n_rounds, str):
        if n_rounds != "best" or best is None:
            raise ValueError(
                f"n_rounds={n_rounds!r} needs a Booster that stopped early; pass a number or None"
            )
        n_rounds = best
    return integer_between("n_rounds", n_rounds, 1, n_all // per_round) * per_round


def _tree(fields: _Text) -> SourceTree:
    """A tree; LightGBM numbers splits from 0, and leaf k is the child -1 - k."""
    if fields.integer("is_linear", 0, low=0, high=1):
        raise ValueError("this LightGBM model has linear trees, which gpuboost does not have")
    n_leaves = fields.integer("num_leaves", low=1, high=2**31 - 1)
    m = n_leaves - 1
    value = np.concatenate([np.zeros(m), fields.numbers("leaf_value", n_leaves)])[:, None]
    if m == 0:
        none, no_child = np.zeros(1), np.full(1, -1)
        return SourceTree(no_child, no_child, none, none, none.astype(bool), value)
    leaves, children = np.full(n_leaves, -1), []
    for side in ("left", "right"):
        given = fields.integers(f"{side}_child", m, low=-n_leaves, high=m - 1)
        children.append(np.concatenate([np.where(given < 0, m - 1 - given, given), leaves]))
    decision = fields.integers("decision_type", m, high=15)
    threshold = fields.numbers("threshold", m)
    rules = (decision >> _RULE_SHIFT) & 3
    if (rules > 2).any():
        raise ValueError("a LightGBM tree has an unknown rule of missing values; it is damaged")
    return SourceTree(
        children[0],
        children[1],
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
    """The categorical splits, whose thresholds are numbers of bit sets; the set goes left."""
    nodes = np.flatnonzero(decision & _BY_CATEGORY).tolist()
    if not nodes:
        return {}
    n_sets = fields.integer("num_cat", low=1, high=2**31 - 2)
    starts = fields.integers("cat_boundaries", n_sets + 1)
    words = fields.integers("cat_threshold", high=2**32 - 1)
    found = {}
    for node in nodes:
        index = threshold[node]
        if index != index or not 0 <= index < n_sets or index != int(index):
            raise ValueError("a set of categories of a LightGBM tree does not exist; it is damaged")
        start, stop = starts[int(index)], starts[int(index) + 1]
        if not start <= stop <= len(words):
            raise ValueError("the categories of a LightGBM tree are out of range; it is damaged")
        own = words[start:stop]
        bits = np.unpackbits(own.astype("<u4").view(np.uint8), bitorder="little")
        found[node] = CategorySplit(frozenset(np.flatnonzero(bits).tolist()), go_left=True)
    return found


def _objective(head: _Text) -> tuple[str, float, bool]:
    """The link, the factor of a sigmoid, and whether the model is a classifier."""
    words = str(head.get("objective", "custom")).split() or ["custom"]
    name, options = words[0], dict(word.partition(":")[::2] for word in words[1:])
    scale = float(options.get("sigmoid") or 1.0)
    if not 0.0 < scale < np.inf:
        raise ValueError(f"the sigmoid of the LightGBM model is {scale}; it is damaged")
    if name in _CLASS_VALUE_LINKS:
        return _CLASS_VALUE_LINKS[name], scale, True
    if name not in _VALUE_LINKS:
        known = ", ".join((*_VALUE_LINKS, *_CLASS_VALUE_LINKS))
        raise ValueError(f"LightGBM's objective {name!r} is unknown; known are {known}")
    if "sqrt" in options:
        return "signed_square", scale, False
    return _VALUE_LINKS[name], scale, False


def _schema(head: _Text, n_features: int, tail: _Tail) -> FeatureSchema:
    """The names of the features, and the categories of pandas columns, in the order of columns."""
    names = head.text("feature_names").split(" ")
    default = [f"Column_{feature}" for feature in range(n_features)]
    schema = no_schema(n_features, None if names == default else names)
    infos = head.text("feature_infos").split()
    if len(infos) != n_features:
        raise ValueError(
            "feature_infos of the LightGBM model do not have one entry for each feature"
        )
    if not tail.pandas_categories:
        return schema
    known = dict(_pandas_columns(infos, tail))
    return with_categories(schema, {feature: numbered(own) for feature, own in known.items()})


def _pandas_columns(infos: list[str], tail: _Tail) -> list[tuple[int, list[Any]]]:
    """Each column of categories, with these; none if the model does not say which they are.

    The info of such a column lists the codes as a:b:c. That of a column of one value is "none".
    """
    features, lists = tail.categorical_features, tail.pandas_categories
    if len(features) != len(lists):
        features = [f for f, info in enumerate(infos) if not info.startswith(("[", "none"))]
    pairs = list(zip(features, lists, strict=False))
    if len(features) != len(lists) or not all(0 <= f < len(infos) for f in features):
        return []
    fits = all(
        infos[f] == "none" or max(map(_code_of, infos[f].split(":"))) < len(own) for f, own in pairs
    )
    return pairs if fits else []


def _code_of(word: str) -> float:
    """A code in the info of a column of categories; infinity for anything else."""
    return int(word) if word.removeprefix("-").isdecimal() else np.inf
