"""All nodes of all trees as a data frame."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from gpuboost.data.parameters import one_of
from gpuboost.estimators.adaboost.model import AdaBoostTrees
from gpuboost.explain.trees.conditions import category_text
from gpuboost.explain.trees.shown_model import CLASS_PROBABILITIES, TERMS, ShownModel

# Types of columns: in pandas and polars, and of the function of pyarrow that makes the type.
_INT64, _FLOAT64, _BOOLEAN, _STRING, _STRINGS = "Int64", "Float64", "Boolean", "String", "List"
_PANDAS = {
    _INT64: "Int64",
    _FLOAT64: "float64",
    _BOOLEAN: "boolean",
    _STRING: "str",
    _STRINGS: "object",
}
_ARROW = {_INT64: "int64", _FLOAT64: "float64", _BOOLEAN: "bool_", _STRING: "string"}
_INSTALL = {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}

NodeColumns = dict[str, tuple[str, list[Any]]]  # type and values of each column, None where empty


def trees_to_dataframe(
    model: Any, kind: str = "pandas", *, feature_names: Any = None, class_names: Any = None
) -> Any:
    """All nodes of all trees as a data frame, one row for each node.

    ===================  ===========================================================================
    column               meaning
    ===================  ===========================================================================
    tree, node, depth    number of the tree; of the node, breadth-first; its depth, 0 at the root
    feature              name of the split feature
    threshold            ``x <= threshold`` goes left; infinity if only missing values go right
    categories           the categories that go left, as text
    others_left          whether categories go left that an imported model does not name
    missing_left         whether missing values go left
    left, right          the child nodes
    value                value of the node: a prediction, or what it adds to the raw prediction
    value_NAME           in place of ``value`` if there are several: one column for each class, or
                         each output (value_0, value_1 and so on); of several outputs with classes,
                         value_0_NAME and so on
    output               the class or output that the tree adds to, if trees add to several
    gain                 decrease of the impurity by the split, per weight of the root; as stored in
                         models of other libraries
    cover                total weight of the rows in the node; in gradient boosting, total hessian
    count                number of rows in the node
    impurity             impurity of the node
    tree_weight          AdaBoost only: weight of the tree, ``estimator_weights_``
    ===================  ===========================================================================

    Entries are missing where they make no sense (a leaf has no feature), and where the model does
    not have them: gradient boosting has no impurities, and imported models have values of leaves
    only.

    Parameters
    ----------
    model : estimator of gpuboost
        A fitted model; also one that `gpuboost.from_xgboost` and the like have returned.
    kind : {'pandas', 'polars', 'arrow'}
        Library of the data frame; 'arrow' is a ``pyarrow.Table``.
    feature_names, class_names : array-like of str, optional
        As in `export_text`.

    Returns
    -------
    pandas.DataFrame, polars.DataFrame or pyarrow.Table

    Raises
    ------
    NotFittedError
        The model is not fitted.
    ImportError
        The library is not installed.
    TypeError, ValueError
        It is no such model, or a parameter is invalid.
    """
    one_of("kind", kind, tuple(_INSTALL))
    columns = _columns(ShownModel.of(model, feature_names, class_names))
    try:
        library = import_module(_INSTALL[kind])
    except ImportError as error:
        raise ImportError(
            f"kind={kind!r} needs {_INSTALL[kind]}, which is not installed; run "
            f"pip install {_INSTALL[kind]}, or choose another kind"
        ) from error
    return _MAKERS[kind](library, columns)


def _columns(shown: ShownModel) -> NodeColumns:
    """The columns of the table."""
    trees, sizes = shown.trees, np.diff(shown.trees.offset)
    is_split, is_set = trees.left > 0, trees.category >= 0
    left = np.where(is_split, trees.left, 0)
    feature, categories, others, missing = _splits(shown)
    has_values = np.ones(len(left), bool) if shown.has_inner_values else ~is_split
    found: NodeColumns = {
        "tree": (_INT64, np.repeat(np.arange(len(sizes)), sizes).tolist()),
        "node": (_INT64, np.concatenate([np.arange(size) for size in sizes]).tolist()),
        "depth": (_INT64, np.concatenate([own.depths() for own in trees.trees]).tolist()),
        "feature": (_STRING, feature),
        "threshold": (_FLOAT64, _where(is_split & ~is_set, trees.threshold)),
        "categories": (_STRINGS, categories),
        "others_left": (_BOOLEAN, others),
        "missing_left": (_BOOLEAN, missing),
        "left": (_INT64, _where(is_split, left)),
        "right": (_INT64, _where(is_split, left + 1)),
    }
    for name, values in _values(shown):
        found[name] = _FLOAT64, _where(has_values, values)
    if shown.kind == TERMS and trees.n_values == 1 and shown.n_columns > 1:
        names = [shown.term_name(t) for t in range(trees.n_trees)]
        found["output"] = _STRING, np.repeat(np.array(names, dtype=object), sizes).tolist()
    counts = np.repeat(trees.count[trees.offset[:-1]] > 0, sizes)
    found["gain"] = _FLOAT64, _where(is_split, trees.impurity_decrease)
    found["cover"] = _FLOAT64, trees.weight.tolist()
    found["count"] = _INT64, _where(counts, trees.count)
    found["impurity"] = _FLOAT64, _where(~np.isnan(trees.impurity), trees.impurity)
    if isinstance(shown.estimator._model, AdaBoostTrees):
        weights = shown.estimator._model.tree_votes
        found["tree_weight"] = _FLOAT64, np.repeat(weights, sizes).tolist()
    return found


def _splits(shown: ShownModel) -> tuple[list[Any], ...]:
    """Feature, left categories, and directions of other categories and of missing values."""
    rows: list[tuple[Any, ...]] = []
    for tree in shown.trees.trees:
        for node in range(tree.node_count):
            if not tree.left[node]:
                rows.append((None, None, None, None))
                continue
            left = shown.split(tree, node)[0]
            known = left.known
            others = left.others if known is not None and known.others is not None else None
            texts = [category_text(each) for each in left.categories or ()]
            rows.append((left.name, None if known is None else texts, others, left.missing))
    return tuple(list(column) for column in zip(*rows, strict=True))


def _values(shown: ShownModel) -> list[tuple[str, np.ndarray]]:
    """Names and values of the columns of values."""
    trees = shown.trees
    if trees.n_values == 1:
        return [("value", trees.value[:, 0])]
    if shown.kind == CLASS_PROBABILITIES:
        parts = trees.value.reshape(len(trees.value), len(shown.classes), -1)
        return [
            (f"value_{name}" if len(shown.classes) == 1 else f"value_{output}_{name}", own[:, k])
            for output, names in enumerate(shown.classes)
            for k, name in enumerate(names)
            for own in [parts[:, output]]
        ]
    names = shown.classes[0] if shown.classes else tuple(map(str, range(trees.n_values)))
    return [(f"value_{name}", trees.value[:, k]) for k, name in enumerate(names)]


def _where(mask: np.ndarray, values: np.ndarray) -> list[Any]:
    """The values, None where the mask is false."""
    return [value if own else None for own, value in zip(mask, values.tolist(), strict=True)]


def _to_pandas(pandas: Any, columns: NodeColumns) -> Any:
    return pandas.DataFrame(
        {
            name: pandas.Series(values, dtype=_PANDAS[kind])
            for name, (kind, values) in columns.items()
        }
    )


def _to_polars(polars: Any, columns: NodeColumns) -> Any:
    types = {name: getattr(polars, kind) for name, (kind, _) in columns.items()}
    types["categories"] = polars.List(polars.String)
    return polars.DataFrame({name: values for name, (_, values) in columns.items()}, schema=types)


def _to_arrow(pyarrow: Any, columns: NodeColumns) -> Any:
    types = {kind: getattr(pyarrow, name)() for kind, name in _ARROW.items()}
    types[_STRINGS] = pyarrow.list_(pyarrow.string())
    return pyarrow.table(
        {name: pyarrow.array(values, types[kind]) for name, (kind, values) in columns.items()}
    )


_MAKERS = {"pandas": _to_pandas, "polars": _to_polars, "arrow": _to_arrow}
