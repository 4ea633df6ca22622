"""Models of XGBoost, from its JSON and UBJSON files.

XGBoost rounds X to float32, sends ``x < threshold`` to the left, and adds float32 values of leaves
to the base score, in the order of the trees. Since no float32 lies between a threshold and the next
smaller float32, ``x < t`` is ``x <= nextafter(t, -inf)``.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from gpuboost.data.frames import FeatureSchema
from gpuboost.data.parameters import integer_between
from gpuboost.estimators.files.models import MAX_COLUMNS
from gpuboost.estimators.imported.columns import MAX_SOURCE_FEATURES, SET
from gpuboost.estimators.imported.estimators import ImportedEstimator
from gpuboost.estimators.imported.model import ALL_COLUMNS, ImportedTrees, LeafSum, PredictionLink
from gpuboost.interchange.fields import Source, no_schema, numbered, with_categories
from gpuboost.interchange.logarithm import log_of_float32
from gpuboost.interchange.trees import LEAF_CHILD, CategorySplit, SourceTree, ensemble_of
from gpuboost.interchange.ubjson import UbjsonReader

XGBOOST_NAME = "XGBoost"
SMALLEST_SCORE = np.float32(1e-6)  # XGBoost clips the base scores of logistic objectives
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

    Raw predictions are equal to those of ``Booster.predict`` on a CPU, bit for bit, and
    probabilities nearly so.

    Parameters
    ----------
    model : str, path-like, bytes, Booster or XGBModel
        A file that XGBoost saved as JSON or UBJSON, its text or bytes, or a fitted object. XGBoost
        need not be installed to read a file. The ``missing`` of an XGBModel is kept; files and
        Boosters do not have it.
    n_rounds : int, "best" or None
        Number of rounds to use; "best" means all up to the one that early stopping chose. None
        means what XGBoost's ``predict`` uses: "best" for scikit-learn's wrappers (XGBModel) that
        stopped early, else all rounds.

    Returns
    -------
    ImportedClassifier or ImportedRegressor
        A classifier for objectives that give probabilities of classes. With several labels of two
        classes each, a regressor that predicts the probability of each label, as Booster does.

    Raises
    ------
    ValueError
        If the model is damaged, or has something that cannot be kept: a linear booster, an unknown
        objective, or a ``missing`` that is the code of a category in a data frame.
    sklearn.exceptions.NotFittedError
        If an object is not fitted.
    OSError
        If the file cannot be read.
    """
    content, is_wrapper = _content_of(model)
    missing = getattr(model, "missing", None) if is_wrapper else None
    learner = Source(_parsed(content), XGBOOST_NAME).part("learner")
    booster = learner.part("gradient_booster")
    kind = booster.text("name")
    if kind not in ("gbtree", "dart"):
        raise ValueError(f"an XGBoost model with booster={kind!r} has no trees; use gbtree or dart")
    holder = booster.part("gbtree") if kind == "dart" else booster
    trees_of = holder.part("model")
    n_all = len(trees_of.parts("trees"))
    weights = booster.float32_numbers("weight_drop", n_all) if kind == "dart" else None
    n_trees = _n_trees(learner, trees_of, n_rounds, is_wrapper)
    parameters = learner.part("learner_model_param")
    n_features = parameters.integer("num_feature", low=1, high=MAX_SOURCE_FEATURES)
    trees = [
        _tree(own, None if weights is None else weights[t])
        for t, own in enumerate(trees_of.parts("trees")[:n_trees])
    ]
    if not trees:
        raise ValueError("the XGBoost model has no trees")
    ensemble, columns = ensemble_of(trees, n_features, True, SET)
    link, is_classifier = _objective(learner)
    base = _base(parameters, link)
    width = ensemble.n_values
    column = trees_of.integers("tree_info", n_all)[:n_trees].astype(np.int32)
    if width > 1:
        column[:] = ALL_COLUMNS
    leaf_sum = LeafSum(column, _as_columns(base, column, width, parameters), float32=True)
    schema = _schema(learner, trees_of, n_features)
    if missing is not None and not math.isnan(missing):
        columns = replace(columns, missing_value=_missing_value(float(missing), schema))
    found = ImportedTrees(ensemble, columns, leaf_sum, PredictionLink(link), schema, XGBOOST_NAME)
    if not is_classifier or parameters.integer("num_target", 1, low=1, high=MAX_COLUMNS) > 1:
        return ImportedEstimator.of(found)
    return ImportedEstimator.of(found, np.arange(max(2, len(leaf_sum.base))))


def _objective(learner: Source) -> tuple[str, bool]:
    """The link, and whether predictions are probabilities of classes."""
    name = learner.part("objective").text("name")
    if name not in OBJECTIVES:
        raise ValueError(
            f"XGBoost's objective {name!r} is unknown; known are {', '.join(OBJECTIVES)}"
        )
    return OBJECTIVES[name]


def _content_of(model: Any) -> tuple[bytes, bool]:
    """The content of a file, and whether the model is one of scikit-learn's wrappers."""
    if isinstance(model, (bytes, bytearray)):
        return bytes(model), False
    if isinstance(model, str) and model.lstrip()[:1] == "{" and '"learner"' in model:
        return model.strip().encode(), False
    if isinstance(model, (str, os.PathLike)):
        return Path(model).read_bytes(), False
    is_wrapper = hasattr(model, "get_booster")
    booster = model.get_booster() if is_wrapper else model
    if not hasattr(booster, "save_raw"):
        raise TypeError(
            "from_xgboost takes a path, the text or bytes of a file, a Booster or an XGBModel, got "
            f"{model!r:.80}"
        )
    try:
        return bytes(booster.save_raw("ubj")), is_wrapper
    except ValueError as error:  # with a stack trace of C++
        raise NotFittedError("this Booster is neither trained nor loaded from a file") from error


def _parsed(content: bytes) -> Any:
    """The value of JSON or UBJSON; in JSON, a quote or a space follows the first brace."""
    if content[:1] != b"{":
        raise ValueError(
            "this is not an XGBoost JSON or UBJSON file; save the model again with a name that "
            "ends with .json or .ubj"
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
        attributes = Source({"best_iteration": best}, XGBOOST_NAME)
        n_rounds = attributes.integer("best_iteration", low=0, high=n_all - 1) + 1
    stops = _ends_of_rounds(trees_of, n_all)
    return int(stops[integer_between("n_rounds", n_rounds, 1, len(stops) - 1)])


def _ends_of_rounds(trees_of: Source, n_all: int) -> np.ndarray:
    """Number of trees of the first 0, 1, 2 and so on rounds; old files lack them."""
    if "iteration_indptr" in trees_of:
        return trees_of.integers("iteration_indptr", high=n_all)
    parameters = trees_of.part("gbtree_model_param")
    n_parallel = parameters.integer("num_parallel_tree", 1, low=0, high=n_all)
    n_columns = int(trees_of.integers("tree_info", n_all, high=MAX_COLUMNS).max(initial=0)) + 1
    size = max(1, n_parallel) * n_columns
    if n_all % size:
        raise ValueError(f"the XGBoost model has {n_all} trees, but {size} in each round")
    return np.arange(0, n_all + 1, size)


def _tree(fields: Source, weight: np.float32 | None) -> SourceTree:
    left = fields.integers("left_children", low=LEAF_CHILD)
    m = len(left)
    right = fields.integers("right_children", m, low=LEAF_CHILD)
    condition = fields.float32_numbers("split_conditions", m)
    width = fields.part("tree_param").integer("size_leaf_vector", low=0, high=MAX_COLUMNS)
    value = condition[:, None] if width <= 1 else _vectors(fields, left, right, width)
    with np.errstate(over="ignore"):
        if weight is not None:
            value = value * weight  # in float32, as XGBoost multiplies
        threshold = np.nextafter(condition, np.float32(-np.inf)).astype(np.float64)
    return SourceTree(
        left,
        right,
        fields.integers("split_indices", m),
        threshold,
        fields.integers("default_left", m, high=1).astype(bool),
        value.astype(np.float64),
        by_category=_category_splits(fields, m),
        gain=fields.numbers("loss_changes", m).astype(np.float64),
        weight=fields.numbers("sum_hessian", m).astype(np.float64),
    )


def _vectors(fields: Source, left: np.ndarray, right: np.ndarray, width: int) -> np.ndarray:
    """Values of the leaves of a tree of several outputs: float32 (m, width).

    Since version 3.2, XGBoost stores them apart from the nodes, and the right child of a leaf is
    its index there.
    """
    m = len(left)
    if "leaf_weights" not in fields:
        return fields.float32_numbers("base_weights", m * width).reshape(m, width)
    vectors = fields.float32_numbers("leaf_weights")
    index = np.where(left == LEAF_CHILD, right, 0)
    if len(vectors) % width or not 0 <= index.min() <= index.max() < len(vectors) // width:
        raise ValueError("the values of the leaves of an XGBoost tree are out of range")
    return vectors.reshape(-1, width)[index]


def _category_splits(fields: Source, m: int) -> dict[int, CategorySplit]:
    """The categorical splits: the categories of the set go right, all others left."""
    if "split_type" not in fields:  # before version 1.3
        return {}
    nodes = fields.integers("categories_nodes", high=m - 1)
    categories = fields.integers("categories")
    starts = fields.integers("categories_segments", len(nodes)).tolist()
    sizes = fields.integers("categories_sizes", len(nodes)).tolist()
    by_category = np.flatnonzero(fields.integers("split_type", m, high=1))
    if len(np.unique(nodes)) < len(nodes) or not np.isin(by_category, nodes).all():
        raise ValueError(
            "a categorical split of an XGBoost tree does not have exactly one category set"
        )
    found = {}
    for node, start, size in zip(nodes.tolist(), starts, sizes, strict=True):
        if start + size > len(categories):
            raise ValueError("the categories of an XGBoost tree are out of range")
        if node in by_category:
            own = frozenset(categories[start : start + size].tolist())
            found[node] = CategorySplit(own, go_left=False)
    return found


def _base(parameters: Source, link: str) -> np.ndarray:
    """The base score as raw predictions: float32 (1,) or (n_columns,)."""
    given, one = parameters.text("base_score"), np.float32(1.0)
    scores = Source({"base_score": _list_of(given)}, XGBOOST_NAME).float32_numbers("base_score")
    if link == "sigmoid":
        scores = np.clip(scores, SMALLEST_SCORE, one - SMALLEST_SCORE)
        return -log_of_float32(one / scores - one)
    if link == "exp" and not (len(scores) and scores.min() > 0.0):
        raise ValueError(f"the base score {given!r:.60} of the XGBoost model is not positive")
    return log_of_float32(scores) if link == "exp" else scores


def _missing_value(missing: float, schema: FeatureSchema) -> float:
    """The parameter ``missing``; an error if it could be the code of a category.

    XGBoost compares it with the codes of the frame that it predicts on, which can be in another
    order than those of the model.
    """
    if 0.0 <= missing < np.inf and missing == np.floor(missing) and schema.is_categorical.any():
        raise ValueError(
            f"missing={missing} is also the code of a category, which cannot be kept; fit with "
            "missing=np.nan or a negative number"
        )
    return missing


def _list_of(text: str) -> list[Any]:
    """The numbers of a base score, which older versions write without brackets."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = [text]
    return found if isinstance(found, list) else [found]


def _as_columns(base: np.ndarray, column: np.ndarray, width: int, parameters: Source) -> np.ndarray:
    """The base score of each column of raw predictions."""
    n_classes = parameters.integer("num_class", 0, low=0, high=MAX_COLUMNS)
    n_targets = parameters.integer("num_target", 1, low=0, high=MAX_COLUMNS)
    n_columns = max(1, n_classes, n_targets, width, len(base))
    if len(base) not in (1, n_columns) or column.max() >= n_columns or width not in (1, n_columns):
        raise ValueError("the trees of the XGBoost model are not those of its classes or outputs")
    return np.broadcast_to(base.astype(np.float64), (n_columns,)).copy()


def _schema(learner: Source, trees_of: Source, n_features: int) -> FeatureSchema:
    """The names of the features, and the categories of data frames, if the model has them."""
    names = learner.get("feature_names", [])
    schema = no_schema(n_features, names if isinstance(names, list) and names else None)
    if not trees_of.get("cats"):
        return schema
    encoded = trees_of.part("cats")
    parts = encoded.parts("enc")[:n_features] if "enc" in encoded else []
    known = {feature: numbered(_categories_of(own)) for feature, own in enumerate(parts)}
    return with_categories(schema, {feature: own for feature, own in known.items() if own})


def _categories_of(encoded: Source) -> list[Any]:
    """The categories of a column: numbers, or strings as signed bytes one after another.

    XGBoost cuts off strings that are not ASCII; such a column has no known categories.
    """
    if "offsets" not in encoded:
        return encoded.numbers("values").tolist()
    values = encoded.integers("values", low=-128, high=255)
    ends = encoded.integers("offsets", high=len(values)).tolist()
    if ((values < 0) | (values > 127)).any():
        return []
    text = bytes(values.tolist()).decode("ascii")
    return [text[a:b] for a, b in itertools.pairwise(ends)]
