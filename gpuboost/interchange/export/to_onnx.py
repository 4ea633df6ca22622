"""gpuboost's models in the ONNX format."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gpuboost.data.parameters import one_of
from gpuboost.engine.ensembles.adaboost import whole_votes
from gpuboost.engine.losses.formulas import MAX_RAW
from gpuboost.engine.losses.links import HALF_LOGIT, IDENTITY, LOG, SOFTMAX
from gpuboost.interchange.export.category_numbers import (
    LARGEST_INTEGER,
    CategoryNumbers,
    numbers_of_categories,
)
from gpuboost.interchange.export.contents import MEAN, MEDIAN, SUM, ModelContents, contents_of
from gpuboost.interchange.export.onnx_graph import OnnxGraph
from gpuboost.interchange.export.onnx_trees import (
    MISSING_CODE,
    SplitInputs,
    tree_attributes,
    without_single_leaves,
)

TYPES = {"float64": np.float64, "float32": np.float32}


def to_onnx(
    estimator: Any, path: str | os.PathLike[str] | None = None, dtype: str = "float64"
) -> Any:
    """Convert a fitted estimator to a model of ONNX; see the method ``to_onnx`` of estimators."""
    kind = TYPES[one_of("dtype", dtype, tuple(TYPES))]
    contents = contents_of(estimator, "ONNX")
    contents = replace(contents, trees=without_single_leaves(contents.trees))
    graph, categories = OnnxGraph(), numbers_of_categories(contents.schema)
    raw = _raw(graph, contents, _split_inputs(graph, contents, categories, kind))
    if contents.is_classifier:
        _write_classes(graph, contents, raw, kind)
    else:
        _write_values(graph, contents, raw, kind)
    facts = _facts(estimator, contents, categories)
    model = graph.model(contents.name, contents.schema.n_features, kind, facts)
    if path is not None:
        Path(path).write_bytes(model.SerializeToString())
    return model


def _facts(
    estimator: Any, contents: ModelContents, categories: dict[int, CategoryNumbers]
) -> dict[str, str]:
    """The entries of the model's metadata."""
    names = contents.schema.names
    facts = {"estimator": contents.name, "fingerprint": estimator.fingerprint()}
    if names is not None:
        facts["feature_names"] = json.dumps(names.tolist())
    if categories:
        shown = {str(feature): own.pairs() for feature, own in categories.items()}
        facts["categories"] = json.dumps(shown)
    return facts


# ---- the input -----------------------------------------------------------------------------------


def _split_inputs(
    graph: OnnxGraph, contents: ModelContents, categories: dict[int, CategoryNumbers], kind: Any
) -> tuple[str, SplitInputs]:
    """The matrix that trees split on: X, and after it the codes of the categorical features."""
    n_features = contents.schema.n_features
    column, parts = np.arange(n_features), ["X"]
    for number, (feature, own) in enumerate(categories.items()):
        column[feature] = n_features + number
        values = graph.add("Gather", "X", graph.constant([feature], np.int64), axis=1)
        keys, codes = _keys(own, kind)
        missing = np.array([MISSING_CODE], dtype=kind)
        parts.append(
            graph.add(
                "LabelEncoder",
                values,
                keys_tensor=keys,
                values_tensor=codes.astype(kind),
                default_tensor=missing,
            )
        )
    matrix = graph.add("Concat", *parts, axis=1) if categories else "X"
    codes_of = {feature: np.unique(own.codes) for feature, own in categories.items()}
    return matrix, SplitInputs(column, codes_of, kind)


def _keys(own: CategoryNumbers, kind: Any) -> tuple[np.ndarray, np.ndarray]:
    """Numbers that a categorical feature can have, and the code of each.

    A float also matches its nearest float32, unless that is a category or the nearest float32 of
    several, as in `apply_schema`.
    """
    with np.errstate(over="ignore", under="ignore"):
        nearest = own.numbers.astype(np.float32).astype(np.float64)
    is_key = (nearest == own.numbers) | (kind == np.float64)
    floats = np.flatnonzero([isinstance(each, float) for each in own.categories])
    near, first, count = np.unique(nearest[floats], return_index=True, return_counts=True)
    is_new = (count == 1) & ~np.isin(near, own.numbers)
    keys = np.append(own.numbers[is_key], near[is_new])
    codes = np.append(own.codes[is_key], own.codes[floats[first[is_new]]])
    if not len(keys):  # the operator needs a key
        return np.zeros(1, kind), np.full(1, MISSING_CODE)
    return keys.astype(kind), codes


# ---- from leaves to raw predictions --------------------------------------------------------------


def _raw(graph: OnnxGraph, contents: ModelContents, given: tuple[str, SplitInputs]) -> str:
    """Raw predictions: float64 (n, columns)."""
    trees, (_, inputs) = contents.trees, given
    if contents.aggregation == MEDIAN:
        return _median(graph, contents, _leaf_values(graph, contents, given))
    if trees.n_values == 1 and inputs.dtype == np.float64:
        raw = _sums(graph, contents, given)
    else:
        values = _leaf_values(graph, contents, given)
        if contents.trees_per_round > 1:
            shape = graph.constant([0, -1, contents.trees_per_round], np.int64)
            values = graph.add("Reshape", values, shape)
        raw = graph.add("ReduceSum", values, graph.constant([1], np.int64), keepdims=0)
    divisor = float(trees.n_trees) if contents.aggregation == MEAN else contents.divisor
    if divisor != 1.0:
        raw = graph.add("Div", raw, graph.constant(divisor, np.float64))
    if contents.baseline.any():
        raw = graph.add("Add", raw, graph.constant(contents.baseline[None], np.float64))
    return raw


def _sums(graph: OnnxGraph, contents: ModelContents, given: tuple[str, SplitInputs]) -> str:
    """Sums of trees whose leaves have one value each: float64 (n, columns)."""
    trees, (matrix, inputs) = contents.trees, given
    is_leaf = trees.left == 0
    target = np.arange(trees.n_trees) % contents.trees_per_round
    of_leaf = np.repeat(target, np.diff(trees.offset))[is_leaf]
    attributes = tree_attributes(trees, inputs, trees.value[is_leaf, 0], of_leaf)
    return graph.add("TreeEnsemble", matrix, n_targets=contents.trees_per_round, **attributes)


def _leaf_values(graph: OnnxGraph, contents: ModelContents, given: tuple[str, SplitInputs]) -> str:
    """Values of the leaf of each row in each tree: float64 (n, n_trees, n_values).

    The operator finds the number of the leaf among those of its tree.
    """
    trees, (matrix, inputs) = contents.trees, given
    is_leaf = trees.left == 0
    tree = np.repeat(np.arange(trees.n_trees), np.diff(trees.offset))[is_leaf]
    n_leaves = np.bincount(tree, minlength=trees.n_trees)
    if n_leaves.max() > LARGEST_INTEGER and inputs.dtype == np.float32:
        raise ValueError(
            f"a tree has {n_leaves.max()} leaves, but dtype='float32' allows {LARGEST_INTEGER}; "
            "use dtype='float64'"
        )
    first = np.cumsum(n_leaves) - n_leaves
    attributes = tree_attributes(trees, inputs, np.arange(len(tree)) - first[tree], tree)
    own = graph.add("TreeEnsemble", matrix, n_targets=trees.n_trees, **attributes)
    own = graph.add("Cast", own, to=graph.type_of(np.int64))
    indices = graph.add("Add", own, graph.constant(first[None], np.int64))
    return graph.add("Gather", graph.constant(trees.value[is_leaf]), indices, axis=0)


def _median(graph: OnnxGraph, contents: ModelContents, values: str) -> str:
    """Weighted median of the trees' values (`engine.ensembles.adaboost.weighted_median`)."""
    votes, n_trees = whole_votes(np.asarray(contents.votes)), contents.trees.n_trees
    values = graph.add("Squeeze", values, graph.constant([2], np.int64))
    count = graph.constant([n_trees], np.int64)
    ascending, order = graph.add("TopK", values, count, axis=1, largest=0, sorted=1, n_outputs=2)
    own = graph.add("Gather", graph.constant(votes), order, axis=0)
    reached = graph.add("CumSum", own, graph.constant(1, np.int64))
    twice = graph.add("Add", reached, reached)
    is_half = graph.add("GreaterOrEqual", twice, graph.constant(votes.sum(), np.int64))
    as_number = graph.add("Cast", is_half, to=graph.type_of(np.int32))
    index = graph.add("ArgMax", as_number, axis=1, keepdims=1)
    return graph.add("GatherElements", ascending, index, axis=1)


# ---- outputs -------------------------------------------------------------------------------------


def _write_values(graph: OnnxGraph, contents: ModelContents, raw: str, kind: Any) -> None:
    """The output ``prediction`` of a regression, in the shape of `predict`."""
    if contents.link == LOG:
        bounds = graph.constant(-MAX_RAW, np.float64), graph.constant(MAX_RAW, np.float64)
        raw = graph.add("Exp", graph.add("Clip", raw, *bounds))
    elif contents.link != IDENTITY:
        raise AssertionError(f"{contents.name} has an unknown link")
    is_vector = contents.columns == 1
    _output_columns(graph, "prediction", raw, (kind, contents.columns), is_vector)


def _output_columns(
    graph: OnnxGraph, name: str, value: str, form: tuple[Any, int], is_vector: bool
) -> None:
    """An output of shape (n,) or (n, columns); ``form`` is its type and number of columns."""
    dtype, columns = form
    if is_vector:
        value = graph.add("Squeeze", value, graph.constant([1], np.int64))
    graph.output(name, value, dtype, [None] if is_vector else [None, columns])


def _write_classes(graph: OnnxGraph, contents: ModelContents, raw: str, kind: Any) -> None:
    """The outputs ``label``, ``probabilities`` and, if there is one, ``decision_function``.

    With several outputs, names end in the number of the output, as in "label_0".
    """
    width = contents.columns // contents.n_outputs
    for k, classes in enumerate(contents.classes):
        end = f"_{k}" if contents.n_outputs > 1 else ""
        own = raw if contents.n_outputs == 1 else _columns(graph, raw, k * width, len(classes))
        probabilities = _probabilities(graph, contents, own)
        if contents.votes is None:
            index = graph.add("ArgMax", probabilities, axis=1, keepdims=0)
        else:
            index = _voted_class(graph, own, len(classes))
        labels = class_labels(classes)
        label = graph.add("Gather", graph.constant(labels), index, axis=0)
        graph.output(f"label{end}", label, labels.dtype, [None])
        graph.output(f"probabilities{end}", probabilities, kind, [None, len(classes)])
    if contents.aggregation == SUM:
        is_vector = len(contents.classes[0]) == 2
        _output_columns(graph, "decision_function", raw, (kind, contents.columns), is_vector)


def _columns(graph: OnnxGraph, raw: str, start: int, count: int) -> str:
    ends = (graph.constant([end], np.int64) for end in (start, start + count, 1))
    return graph.add("Slice", raw, *ends)


def _probabilities(graph: OnnxGraph, contents: ModelContents, raw: str) -> str:
    """Class probabilities: float64 (n, n_classes)."""
    if contents.link == IDENTITY:
        return raw
    factor = 2.0 if contents.link == HALF_LOGIT else 1.0 / contents.link_divisor
    if factor != 1.0:
        raw = graph.add("Mul", raw, graph.constant(factor, np.float64))
    if contents.link == SOFTMAX:
        return graph.add("Softmax", raw, axis=1)
    second = graph.add("Sigmoid", raw)
    first = graph.add("Sub", graph.constant(1.0, np.float64), second)
    return graph.add("Concat", first, second, axis=1)


def _voted_class(graph: OnnxGraph, decisions: str, n_classes: int) -> str:
    """Index of the class with the largest sum of votes, the first of those that tie."""
    if n_classes != 2:
        return graph.add("ArgMax", decisions, axis=1, keepdims=0)
    second = graph.add("Greater", decisions, graph.constant(0.0, np.float64))
    column = graph.add("Cast", second, to=graph.type_of(np.int64))
    return graph.add("Squeeze", column, graph.constant([1], np.int64))


def class_labels(classes: np.ndarray) -> np.ndarray:
    """Class labels in a type of ONNX: int64, bool, float64, or object for strings.

    Raises
    ------
    ValueError
        If they are of different types, or integers of more than 64 bits.
    """
    kind = classes.dtype.kind
    if kind in "iu" and classes.max() <= np.iinfo(np.int64).max:
        return classes.astype(np.int64)
    if kind in "bf":
        return classes.astype(bool if kind == "b" else np.float64)
    if all(isinstance(each, str) for each in classes.tolist()):
        return classes.astype(object)
    raise ValueError(
        f"ONNX has class labels that are all integers, all floats, all bools or all strings, got "
        f"{classes.tolist()!r:.80}; fit with such labels"
    )
