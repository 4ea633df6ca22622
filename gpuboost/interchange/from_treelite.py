"""Models of treelite, which reads those of many libraries.

treelite's reference predictor (GTIL) rounds X to the type of the thresholds, and adds up leaves in
the type of the leaves, in the order of the trees; base scores come last.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from gpuboost.data.frames import FeatureSchema
from gpuboost.estimators.imported.columns import SET
from gpuboost.estimators.imported.estimators import ImportedEstimator
from gpuboost.estimators.imported.model import ALL_COLUMNS, ImportedTrees, LeafSum, PredictionLink
from gpuboost.interchange.fields import no_schema, with_categories
from gpuboost.interchange.trees import LEAF_CHILD, CategorySplit, SourceTree, ensemble_of

TREELITE_NAME = "treelite"
_CATEGORY_NODE = 2  # node_type
_LESS, _AT_MOST, _GREATER, _AT_LEAST = 2, 3, 4, 5  # cmp
_BINARY, _REGRESSION, _MULTICLASS, _RANKING = 0, 1, 2, 3  # task_type
_LINK_OF_POSTPROCESSOR = {
    "identity": "identity",
    "identity_multiclass": "identity",
    "sigmoid": "sigmoid",
    "multiclass_ova": "sigmoid",
    "softmax": "softmax",
    "exponential": "exp",
    "hinge": "positive",
    "signed_square": "signed_square",
    "logarithm_one_plus_exp": "softplus",
}


def from_treelite(model: Any) -> ImportedEstimator:
    """A model of treelite as an estimator of gpuboost.

    Raw predictions are equal to those of treelite's reference predictor (GTIL), bit for bit.
    treelite does not keep everything of other libraries: a model of LightGBM with
    ``zero_as_missing`` predicts something else there, so read such a model by `from_lightgbm`.

    A model that `to_treelite` made has the names of the features and, where these are not integers
    from 0, the categories. Class labels are lost.

    Parameters
    ----------
    model : treelite.Model
        Of version 4.

    Returns
    -------
    ImportedClassifier or ImportedRegressor
        A regressor of probabilities if there are several outputs of two classes each.

    Raises
    ------
    TypeError
        If it is not such a model.
    ValueError
        If it has something that cannot be kept: an unknown postprocessor, tests for
        equality, or leaves with the probabilities of only some classes.
    """
    if not hasattr(model, "get_tree_accessor"):
        raise TypeError(f"from_treelite takes a treelite.Model of version 4, got {model!r:.80}")
    head = model.get_header_accessor()
    task = int(_field(head, "task_type")[0])
    if task not in (_BINARY, _REGRESSION, _MULTICLASS, _RANKING):
        raise ValueError(f"treelite's task type {task} is unknown; isolation forests are not kept")
    float32 = model.input_type == "float32"
    trees = [_tree(model.get_tree_accessor(t), float32) for t in range(model.num_tree)]
    ensemble, columns = ensemble_of(trees, model.num_feature, float32, SET)
    rule = _leaf_sum(head, ensemble.n_values, len(trees), model.output_type == "float32")
    name = str(_field(head, "postprocessor"))
    if name not in _LINK_OF_POSTPROCESSOR:
        raise ValueError(
            f"treelite's postprocessor {name!r} is unknown; known are "
            f"{', '.join(_LINK_OF_POSTPROCESSOR)}"
        )
    link = PredictionLink(_LINK_OF_POSTPROCESSOR[name], float(_field(head, "sigmoid_alpha")[0]))
    schema = _schema(head, model.num_feature)
    found = ImportedTrees(ensemble, columns, rule, link, schema, TREELITE_NAME)
    n_classes = _field(head, "num_class").tolist()
    several = len(n_classes) > 1
    # Several outputs of two classes each are values: the probability of each output.
    if task in (_REGRESSION, _RANKING) or (several and max(n_classes) == 1):
        return ImportedEstimator.of(found)
    if several and link.name != "identity":
        raise ValueError(
            f"treelite's postprocessor {name!r} is for one output, but this model has several"
        )
    classes = [np.arange(max(2, own)) for own in n_classes]
    return ImportedEstimator.of(found, classes if several else classes[0])


def _field(accessor: Any, name: str) -> Any:
    """A field of a header or a tree."""
    found = accessor.get_field(name)
    return found if isinstance(found, str) else np.asarray(found)


def _schema(head: Any, n_features: int) -> FeatureSchema:
    """Names and categories that gpuboost has written into the attributes, if it made the model.

    Categories with the numbers 0, 1, 2 and so on are known; others are these numbers themselves.
    """
    try:
        facts = json.loads(_field(head, "attributes") or "{}").get("gpuboost", {})
        schema = no_schema(n_features, facts.get("feature_names"))
        pairs = {int(feature): dict(own) for feature, own in facts.get("categories", {}).items()}
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"the attributes of this model are damaged: {error}") from error
    known = {
        feature: {category: int(number) for category, number in own.items()}
        for feature, own in pairs.items()
        if list(own.values()) == list(range(len(own)))
    }
    if not all(
        0 <= feature < n_features and all(isinstance(each, (str, int, float)) for each in own)
        for feature, own in known.items()
    ):
        raise ValueError("the categories in the attributes of this model are damaged")
    return with_categories(schema, known)


def _leaf_sum(head: Any, width: int, n_trees: int, float32: bool) -> LeafSum:
    """The columns that trees add to, and the base scores."""
    n_targets, n_classes = int(_field(head, "num_target")[0]), _field(head, "num_class")
    n_columns = int(n_targets * n_classes.max())
    if n_targets > 1 and n_classes.max() > 1:
        whole = (_field(head, "target_id") < 0).all() and (_field(head, "class_id") < 0).all()
        if not whole or width != n_columns or n_classes.min() < 2:
            raise ValueError(
                f"this model has {n_targets} outputs of classes whose leaves do not have the "
                "probabilities of all classes"
            )
    ids = _field(head, "target_id" if n_targets > 1 else "class_id").astype(np.int32)
    if width == 1 and n_columns == 1:
        ids = np.zeros(n_trees, dtype=np.int32)
    if width not in (1, n_columns) or (width == 1 and (ids < 0).any()):
        raise ValueError("the leaves of this model are not those of its classes or outputs")
    column = np.full(n_trees, ALL_COLUMNS, dtype=np.int32) if width > 1 else ids
    divisor = 1.0
    if _field(head, "average_tree_output")[0]:
        counts = np.bincount(column, minlength=n_columns) if width == 1 else np.array([n_trees])
        if len(np.unique(counts)) > 1:
            raise ValueError(
                "the outputs of this model are averages over different numbers of trees"
            )
        divisor = float(counts[0])
    base = _field(head, "base_scores").astype(np.float64)
    if len(base) != n_columns:
        raise ValueError(
            "the number of base scores of this model is not that of its classes or outputs"
        )
    return LeafSum(column, base, base_first=False, divisor=divisor, float32=float32)


def _tree(accessor: Any, float32: bool) -> SourceTree:
    """A tree with ``x <= threshold`` to the left, whatever its comparisons are."""
    left, right = _field(accessor, "cleft").astype(int), _field(accessor, "cright").astype(int)
    missing_left = _field(accessor, "default_left").astype(bool)
    inner = left != LEAF_CHILD
    by_category = _category_splits(accessor, inner)
    is_number = inner & (_field(accessor, "node_type") != _CATEGORY_NODE)
    compare = np.where(is_number, _field(accessor, "cmp"), _AT_MOST)
    if not np.isin(compare, (_LESS, _AT_MOST, _GREATER, _AT_LEAST)).all():
        raise ValueError("this model tests for equality; only <, <=, > and >= can be kept")
    # x > t to the left is x <= t to the right, and x >= t is not x < t.
    swapped = np.isin(compare, (_GREATER, _AT_LEAST))
    left, right = np.where(swapped, right, left), np.where(swapped, left, right)
    missing_left = np.where(swapped, ~missing_left, missing_left)
    threshold = _field(accessor, "threshold").astype(np.float32 if float32 else np.float64)
    with np.errstate(over="ignore"):
        below = np.nextafter(threshold, threshold.dtype.type(-np.inf))
    strict = np.isin(compare, (_LESS, _AT_LEAST)) & is_number
    if (strict & (threshold == -np.inf)).any():
        raise ValueError("this model compares with -inf by < or >=, which no <= can express")
    optional = {name: _field(accessor, name) for name in ("gain", "sum_hess", "data_count")}
    known = {name: own for name, own in optional.items() if len(own) == len(left)}
    return SourceTree(
        left,
        right,
        _field(accessor, "split_index").astype(int),
        np.where(strict, below, threshold).astype(np.float64),
        missing_left,
        _values(accessor, inner),
        by_category=by_category,
        gain=known.get("gain"),
        weight=known.get("sum_hess", known.get("data_count")),
        count=None if "data_count" not in known else known["data_count"].astype(np.int64),
    )


def _values(accessor: Any, inner: np.ndarray) -> np.ndarray:
    """Values of the nodes: float64 (m, 1) or (m, n_columns)."""
    vector, starts = _field(accessor, "leaf_vector"), _field(accessor, "leaf_vector_begin")
    widths = np.unique((_field(accessor, "leaf_vector_end") - starts)[~inner])
    if not len(vector):
        return _field(accessor, "leaf_value").astype(np.float64)[:, None]
    if len(widths) != 1:
        raise ValueError("the leaves of a tree of this model have values of several lengths")
    index = np.where(inner, 0, starts).astype(int)[:, None] + np.arange(int(widths[0]))
    return vector.astype(np.float64)[index]


def _category_splits(accessor: Any, inner: np.ndarray) -> dict[int, CategorySplit]:
    """The categorical splits."""
    names = ("category_list", "category_list_begin", "category_list_end")
    categories, starts, stops = (_field(accessor, name) for name in names)
    to_right = _field(accessor, "category_list_right_child").astype(bool)
    nodes = np.flatnonzero((_field(accessor, "node_type") == _CATEGORY_NODE) & inner)
    return {
        node: CategorySplit(
            frozenset(categories[int(starts[node]) : int(stops[node])].astype(int).tolist()),
            go_left=not to_right[node],
        )
        for node in nodes.tolist()
    }
