"""Imported models in a file."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuboost.data.frames import FeatureSchema
from gpuboost.estimators.files.trees import Parts, prefixed
from gpuboost.estimators.imported.columns import (
    CATEGORY_RULES,
    LARGEST_CATEGORY,
    MAX_CATEGORIES,
    MAX_SOURCE_FEATURES,
    MISSING_RULES,
    SplitColumn,
    SplitColumns,
)
from gpuboost.estimators.imported.model import (
    ALL_COLUMNS,
    BY_PROBABILITY,
    DECISIONS,
    LINKS,
    ImportedTrees,
    LeafSum,
    PredictionLink,
    bins_of,
)
from gpuboost.io.checks import Arrays, Fields, require
from gpuboost.io.features import categories_from_json, category_to_json, names_from_file
from gpuboost.io.json_values import distinct, from_json, to_json
from gpuboost.io.trees import trees_from_file, trees_to_file

_MIN_FACTOR = 1e-30
_FACTOR_RANGE = f"from {_MIN_FACTOR} to {1.0 / _MIN_FACTOR}"


def imported_to_parts(model: ImportedTrees) -> Parts:
    """The parts of an imported model."""
    columns, rule, schema = model.columns, model.leaf_sum, model.schema
    header = {
        "source": model.source,
        "n_features": columns.n_features,
        "names": None if schema.names is None else schema.names.tolist(),
        "categories": {
            str(feature): [category_to_json(value) for value in known]
            for feature, known in enumerate(schema.codes)
            if known is not None
        },
        "columns": [
            [c.source, c.missing, _list_of(c.categories), *_codes_to_json(c.codes)]
            for c in columns.columns
        ],
        "single": columns.float32,
        "category_rule": columns.category_rule,
        "tiny_is_zero": columns.tiny_is_zero,
        "base_first": rule.base_first,
        "divisor": rule.divisor,
        "single_sums": rule.float32,
        "link": [model.link.name, model.link.scale, model.link.divisor],
    }
    if columns.missing_value is not None:
        header["missing_value"] = to_json(columns.missing_value)
    if model.decision != BY_PROBABILITY:
        header["decision"] = model.decision
    arrays = prefixed("trees", trees_to_file(model.ensemble))
    if rule.median_weights is not None:
        arrays["median_weights"] = rule.median_weights
    return header, arrays | {"column": rule.column, "base": rule.base}


def _list_of(categories: np.ndarray | None) -> list[int] | None:
    return None if categories is None else categories.tolist()


def _codes_to_json(codes: np.ndarray | None) -> list[list[int]]:
    """The codes that categories share, in a list; nothing if each category has a code."""
    return [] if codes is None else [codes.tolist()]


def imported_from_parts(fields: Fields, arrays: Arrays, n_classes: list[int]) -> ImportedTrees:
    """Check and read an imported model; ``n_classes`` has a number for each output of classes."""
    source, n_features = fields.text("source"), fields.integer("n_features", 1, MAX_SOURCE_FEATURES)
    columns = _columns(fields, n_features)
    base = arrays.finite("base", (None,))
    column = arrays.take("column", np.int32, (None,))
    whole = column == ALL_COLUMNS
    in_range = (column >= ALL_COLUMNS) & (column < len(base)) & (whole == whole[:1])
    require(len(column) and in_range.all(), "a tree adds to a column that does not exist")
    width = len(base) if whole[0] else 1
    ensemble = trees_from_file(arrays.part("trees"), bins_of(columns), width)
    require(ensemble.n_trees == len(column), "there is not one column for each tree")
    divisor = fields.take("divisor")
    require(_is_factor(divisor), f"divisor is not a number {_FACTOR_RANGE}")
    flags = fields.flag("base_first"), divisor, fields.flag("single_sums")
    rule = LeafSum(column, base, *flags, _median_weights(arrays, column, len(base), n_classes))
    link = _link(fields)
    schema = _schema(fields, n_features)
    decision = fields.one_of("decision", DECISIONS) if "decision" in fields else BY_PROBABILITY
    fields.end()
    is_choice = decision == BY_PROBABILITY or (len(n_classes) == 1 and n_classes[0] > 1)
    require(is_choice, "raw predictions choose among fewer than two classes")
    model = ImportedTrees(ensemble, columns, rule, link, schema, source, decision)
    if n_classes:
        _check_classes(model, n_classes)
    return model


def _median_weights(
    arrays: Arrays, column: np.ndarray, n_columns: int, n_classes: list[int]
) -> np.ndarray | None:
    """The weights of the trees, if predictions are weighted medians."""
    if "median_weights" not in arrays:
        return None
    weights = arrays.finite("median_weights", (len(column),))
    require((weights >= 0.0).all() and weights.any(), "trees have negative weights, or none")
    fits = n_columns == 1 and not n_classes
    require(fits, "medians are those of several columns, or of classes")
    return weights


def _columns(fields: Fields, n_features: int) -> SplitColumns:
    found = []
    for given in fields.items("columns"):
        is_column = isinstance(given, list) and len(given) in (3, 4)
        require(is_column, "a column is not a list of a source, a rule, categories and codes")
        source, missing, categories, *codes = given
        inside = type(source) is int and 0 <= source < n_features
        require(inside, "a column is of a feature that does not exist")
        require(missing in MISSING_RULES, "a column has an unknown rule of missing values")
        found.append(SplitColumn(source, missing, *_set_of(categories, *codes)))
    float32, rule = fields.flag("single"), fields.one_of("category_rule", CATEGORY_RULES)
    tiny = fields.flag("tiny_is_zero")
    return SplitColumns(tuple(found), n_features, float32, rule, tiny, _missing_value(fields))


def _missing_value(fields: Fields) -> float | None:
    """The number that is missing; files without one have no such field."""
    if "missing_value" not in fields:
        return None
    value = from_json(fields.take("missing_value"))
    require(type(value) is float and value == value, "the missing value is not a number")
    return value


def _set_of(categories: Any, codes: Any = None) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The categories of a column, and the codes that they share."""
    if categories is None:
        return None, None
    is_set = isinstance(categories, list) and (codes or len(categories) <= MAX_CATEGORIES)
    require(is_set, f"a column has more than {MAX_CATEGORIES} categories")
    is_number = all(type(each) is int and 0 <= each < LARGEST_CATEGORY for each in categories)
    require(is_number, "a category is not an integer in range")
    found = np.array(categories, dtype=np.int64)
    require((np.diff(found) > 0).all(), "the categories of a column do not ascend")
    if codes is None:
        return found, None
    fits = (
        isinstance(codes, list)
        and len(codes) == len(found)
        and all(type(each) is int and 0 <= each < MAX_CATEGORIES for each in codes)
    )
    require(fits, f"the categories of a column do not have one code each, below {MAX_CATEGORIES}")
    return found, np.array(codes, dtype=np.uint8)


def _is_factor(value: Any) -> bool:
    """Whether a value is a positive float that neither makes sums infinite nor 0."""
    return type(value) is float and _MIN_FACTOR <= value <= 1.0 / _MIN_FACTOR


def _link(fields: Fields) -> PredictionLink:
    given = fields.items("link", 3)
    require(isinstance(given[0], str) and given[0] in LINKS, "the link is unknown")
    is_number = all(map(_is_factor, given[1:]))
    require(is_number, f"the scale and the divisor of the link are not numbers {_FACTOR_RANGE}")
    return PredictionLink(*given)


def _schema(fields: Fields, n_features: int) -> FeatureSchema:
    names, categories = names_from_file(fields, n_features), fields.part("categories")
    is_categorical = np.zeros(n_features, dtype=bool)
    codes: dict[int, dict[Any, int]] = {}
    for feature in range(n_features if len(categories) else 0):
        if str(feature) not in categories:
            continue
        values = categories_from_json(categories.items(str(feature)))
        distinct(values, "a feature has the same category twice")
        codes[feature] = {value: code for code, value in enumerate(values)}
        is_categorical[feature] = True
    categories.end()
    of_feature = tuple(map(codes.get, range(n_features)))
    return FeatureSchema(names, n_features, is_categorical, of_feature, True)


def _check_classes(model: ImportedTrees, n_classes: list[int]) -> None:
    """Check that raw predictions become probabilities of the classes."""
    n_columns, rule, width = len(model.leaf_sum.base), model.leaf_sum, max(n_classes)
    if len(n_classes) == 1:
        fits = n_columns == (1 if width <= 2 and n_columns == 1 else width)
    else:
        fits = n_columns == width * len(n_classes) and model.link.name == "identity"
    require(fits, "an imported model does not have the columns of its classes")
    if model.link.name == "identity":
        value = model.ensemble.value
        per_column = np.bincount(np.maximum(rule.column, 0)).max() if len(rule.column) else 1
        is_mean = rule.divisor >= per_column and model.link.divisor >= 1.0
        is_mean = is_mean and value.min() >= 0.0 and value.max() <= 1.0 and not rule.base.any()
        require(is_mean, "leaves are not probabilities of classes")
        return
    is_probability = model.link.name in ("sigmoid", "softmax", "positive")
    require(is_probability, "the link of a classifier gives no probabilities")
