"""Models of XGBoost, from its JSON and UBJSON files.

XGBoost rounds X to float32, sends ``x < threshold`` to the left, and adds float32 values of leaves
to the base score, in the order of the trees. Since no float32 lies between a threshold and the next
smaller float32, ``x < t`` is ``x <= nextafter(t, -inf)``.
"""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from gpuboost.data.frames import FeatureSchema
from gpuboost.engine.numerics import log
from gpuboost.estimators.imported.columns import SET
from gpuboost.estimators.imported.estimators import (
    ImportedClassifier,
    ImportedEstimator,
    ImportedRegressor,
)
from gpuboost.estimators.imported.model import (
    ALL_COLUMNS,
    ImportedTrees,
    LeafSum,
    PredictionLink,
)
from gpuboost.interchange.fields import Source, no_schema
from gpuboost.interchange.trees import CategorySplit, SourceTree, ensemble_of
from gpuboost.interchange.ubjson import UbjsonReader

XGBOOST_NAME = "XGBoost"
_CLASSES, _VALUES = True, False
# Link, and whether predictions are probabilities of classes, by objective. XGBoost has no
# probabilities for binary:logitraw.
OBJECTIVES = {
    **dict.fromkeys(
        (
            *("reg:squarederror", "reg:squaredlogerror", "reg:pseudohubererror"),
            *("reg:absoluteerror", "reg:quantileerror", "binary:logitraw"),
            *("rank:pairwise", "rank:ndcg", "rank:map"),
        ),
        ("identity", _VALUES),
    ),
    **dict.fromkeys(
        ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft"),
        ("exp", _VALUES),
    ),
    "reg:logistic": ("sigmoid", _VALUES),
    "binary:logistic": ("sigmoid", _CLASSES),
    "binary:hinge": ("positive", _CLASSES),
    "multi:softprob": ("softmax", _CLASSES),
    "multi:softmax": ("softmax", _CLASSES),
}


def from_xgboost(model: Any, *, n_rounds: int | str | None = None) -> ImportedEstimator:
    """A model of XGBoost as an estimator of gpuboost.

    Raw predictions are equal to those of XGBoost, bit for bit, and probabilities nearly so.

    Parameters
    ----------
    model : str, path-like, bytes, Booster or XGBModel
        A file that XGBoost saved as JSON or UBJSON, its content, or a fitted object. XGBoost need
        not be installed to read a file.
    n_rounds : int, "best" or None
        Number of rounds to use; "best" means all up to the one that early stopping chose. None
        means what XGBoost's ``predict`` uses: "best" for scikit-learn's wrappers (XGBModel) that
        stopped early, else all rounds.

    Returns
    -------
    ImportedClassifier or ImportedRegressor
        A classifier for objectives that give probabilities of classes.

    Raises
    ------
    ValueError
        If the model is damaged, or has something that cannot be kept: a linear booster, an unknown
        objective, or a split that names more than 255 categories.
    OSError
        If the file cannot be read.
    """
    content, is_wrapper = _content_of(model)
    learner = Source(_parsed(content), XGBOOST_NAME).part("learner")
    booster = learner.part("gradient_booster")
    kind = booster.text("name")
    if kind not in ("gbtree", "dart"):
        raise ValueError(f"an XGBoost model with booster={kind!r} has no trees; use gbtree or dart")
    holder = booster.part("gbtree") if kind == "dart" else booster
    trees_of = holder.part("model")
    weights = booster.numbers("weight_drop") if kind == "dart" else None
    n_trees = _n_trees(learner, trees_of, n_rounds, is_wrapper)
    parameters = learner.part("learner_model_param")
    n_features = parameters.integer("num_feature")
    trees = [
        _tree(own, None if weights is None else np.float32(weights[t]))
        for t, own in enumerate(trees_of.parts("trees")[:n_trees])
    ]
    if not trees:
        raise ValueError("the XGBoost model has no trees")
    ensemble, columns = ensemble_of(trees, n_features, True, SET)
    objective = learner.part("objective").text("name")
    if objective not in OBJECTIVES:
        raise ValueError(
            f"XGBoost's objective {objective!r} is unknown; known are {', '.join(OBJECTIVES)}"
        )
    link, is_classifier = OBJECTIVES[objective]
    base = _base(parameters, link)
    width = ensemble.n_values
    column = trees_of.numbers("tree_info")[:n_trees].astype(np.int32)
    if width > 1:
        column[:] = ALL_COLUMNS
    leaf_sum = LeafSum(column, _as_columns(base, column, width, parameters), single=True)
    schema = _schema(learner, trees_of, n_features)
    found = ImportedTrees(ensemble, columns, leaf_sum, PredictionLink(link), schema, XGBOOST_NAME)
    if not is_classifier:
        return ImportedRegressor.of(found)
    n_classes = max(2, len(leaf_sum.base))
    return ImportedClassifier.of(found, classes_=np.arange(n_classes))


def _content_of(model: Any) -> tuple[bytes, bool]:
    """The content of a file, and whether the model is one of scikit-learn's wrappers."""
    if isinstance(model, (bytes, bytearray)):
        return bytes(model), False
    if isinstance(model, (str, os.PathLike)):
        return Path(model).read_bytes(), False
    is_wrapper = hasattr(model, "get_booster")
    booster = model.get_booster() if is_wrapper else model
    if not hasattr(booster, "save_raw"):
        raise TypeError(
            "from_xgboost takes a path, the bytes of a file, a Booster or an XGBModel, got "
            f"{model!r:.80}"
        )
    return bytes(booster.save_raw("ubj")), is_wrapper


def _parsed(content: bytes) -> Any:
    """The value of JSON or UBJSON; in JSON, a quote or a space follows the first brace."""
    if content[:1] != b"{":
        raise ValueError(
            "this is no JSON or UBJSON of XGBoost; save the model again with a name that ends "
            "with .json or .ubj"
        )
    if content[1:2] in b'"} \n\r\t':
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the JSON of the XGBoost model is damaged: {error}") from error
    return UbjsonReader(content).read()


def _n_trees(learner: Source, trees_of: Source, n_rounds: Any, is_wrapper: bool) -> int:
    """Number of trees of the rounds that are used."""
    best = learner.get("attributes", {})
    best = best.get("best_iteration") if isinstance(best, dict) else None
    n_all = len(trees_of.parts("trees"))
    if n_rounds is None:
        n_rounds = "best" if is_wrapper and best is not None else n_all
        if n_rounds == n_all:
            return n_all
    if isinstance(n_rounds, str):
        if n_rounds != "best" or best is None:
            raise ValueError(
                f"n_rounds={n_rounds!r} needs a model that stopped early; pass a number or None"
            )
        n_rounds = int(best) + 1
    stops = trees_of.numbers("iteration_indptr")
    if isinstance(n_rounds, bool) or not 1 <= n_rounds < len(stops):
        raise ValueError(f"n_rounds must be from 1 to {len(stops) - 1}, got {n_rounds!r}")
    return int(stops[n_rounds])


def _tree(fields: Source, weight: np.float32 | None) -> SourceTree:
    left = fields.numbers("left_children").astype(np.int64)
    m = len(left)
    condition = fields.numbers("split_conditions", m).astype(np.float32)
    width = fields.part("tree_param").integer("size_leaf_vector")
    value = condition[:, None] if width <= 1 else _vectors(fields, m, width)
    if weight is not None:
        value = value * weight  # in float32, as XGBoost multiplies
    with np.errstate(over="ignore"):
        threshold = np.nextafter(condition, np.float32(-np.inf)).astype(np.float64)
    return SourceTree(
        left,
        fields.numbers("right_children", m).astype(np.int64),
        fields.numbers("split_indices", m).astype(np.int64),
        threshold,
        fields.numbers("default_left", m).astype(bool),
        value.astype(np.float64),
        by_category=_category_splits(fields, m),
        gain=fields.numbers("loss_changes", m).astype(np.float64),
        weight=fields.numbers("sum_hessian", m).astype(np.float64),
    )


def _vectors(fields: Source, m: int, width: int) -> np.ndarray:
    """Values of the leaves of a tree of several outputs: float32 (m, width)."""
    return fields.numbers("base_weights", m * width).astype(np.float32).reshape(m, width)


def _category_splits(fields: Source, m: int) -> dict[int, CategorySplit]:
    """The splits by category: the categories of the set go right, all others left."""
    nodes, categories = fields.numbers("categories_nodes"), fields.numbers("categories")
    starts = fields.numbers("categories_segments", len(nodes)).astype(int)
    sizes = fields.numbers("categories_sizes", len(nodes)).astype(int)
    found = {}
    for node, start, size in zip(nodes.tolist(), starts.tolist(), sizes.tolist(), strict=True):
        if not (0 <= node < m and 0 <= start <= start + size <= len(categories)):
            raise ValueError("the categories of an XGBoost tree are out of range")
        own = frozenset(int(category) for category in categories[start : start + size])
        found[int(node)] = CategorySplit(own, go_left=False)
    return found


def _base(parameters: Source, link: str) -> np.ndarray:
    """The base score as raw predictions: float32 (1,) or (n_columns,)."""
    given = json.loads(parameters.text("base_score"))
    scores = np.atleast_1d(np.array(given, dtype=np.float32))
    one = np.float32(1.0)
    with np.errstate(all="ignore"):
        if link == "sigmoid":
            odds = (one / scores - one).astype(np.float64)
            found = -log(odds).astype(np.float32)
        elif link == "exp":
            odds = scores.astype(np.float64)
            found = log(odds).astype(np.float32)
        else:
            odds, found = np.ones(1), scores
    if not (np.isfinite(found).all() and (odds > 0.0).all()):
        raise ValueError(f"the base score {given!r} of the XGBoost model is out of range")
    return found


def _as_columns(base: np.ndarray, column: np.ndarray, width: int, parameters: Source) -> np.ndarray:
    """The base score of each column of raw predictions."""
    n_columns = max(
        1, parameters.integer("num_class"), parameters.integer("num_target", 1), width, len(base)
    )
    if len(base) not in (1, n_columns) or column.max() >= n_columns or width not in (1, n_columns):
        raise ValueError("the trees of the XGBoost model are not those of its classes or outputs")
    return np.broadcast_to(base.astype(np.float64), (n_columns,)).copy()


def _schema(learner: Source, trees_of: Source, n_features: int) -> FeatureSchema:
    """The names of the features, and the categories of data frames, if the model has them."""
    names = learner.get("feature_names", [])
    schema = no_schema(n_features, names if isinstance(names, list) and names else None)
    encoded = trees_of.get("cats", {})
    encoded = encoded.get("enc", []) if isinstance(encoded, dict) else []
    for feature, own in enumerate(encoded[:n_features]):
        categories = _categories_of(own)
        if categories:
            schema.is_categorical[feature] = True
            codes = list(schema.codes)
            codes[feature] = {category: code for code, category in enumerate(categories)}
            schema = FeatureSchema(
                schema.names, n_features, schema.is_categorical, tuple(codes), True
            )
    return schema


def _categories_of(encoded: Any) -> list[Any]:
    """The categories of a column: strings as bytes one after another, or numbers."""
    values, ends = encoded.get("values", []), encoded.get("offsets")
    if ends is None:
        return np.asarray(values).tolist()
    text, ends = bytes(np.asarray(values, dtype=np.uint8)), np.asarray(ends).tolist()
    return [text[a:b].decode("utf-8") for a, b in itertools.pairwise(ends)]
