"""The columns of a model and their bins, in a file."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuboost.data.arrays import is_missing_label
from gpuboost.data.frames import FeatureSchema
from gpuboost.engine.bins import MAX_BINS, BinMapper
from gpuboost.io.checks import Arrays, Fields, require
from gpuboost.io.json_values import NotStorable, distinct, from_json, to_json

MAX_FEATURES = 2**31 - 1


def features_to_file(
    schema: FeatureSchema, mapper: BinMapper
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of the columns.

    Raises
    ------
    NotStorable
        If a category is neither a string, a number nor a bool.
    """
    categories = {
        str(feature): [[category_to_json(value) for value in known], list(known.values())]
        for feature, known in enumerate(schema.codes)
        if known is not None
    }
    header = {
        "n_features": schema.n_features,
        "names": None if schema.names is None else schema.names.tolist(),
        "categorical": np.flatnonzero(schema.is_categorical).tolist(),
        "categories": categories,
        "from_dtype": schema.from_dtype,
    }
    arrays: dict[str, np.ndarray] = {
        "n_bins": mapper.n_bins,
        "lowest": mapper.lowest,
        "highest": mapper.highest,
    }
    return header, arrays


def category_to_json(value: Any) -> Any:
    """JSON of a category, which is a string, a number or a bool."""
    if not isinstance(value, (str, bool, int, float, np.bool_, np.integer, np.floating)):
        raise NotStorable(
            f"the category {value!r:.80} is of type {type(value).__name__}; a file holds strings, "
            "numbers and bools: convert the column before the fit"
        )
    return to_json(value)


def features_from_file(fields: Fields, arrays: Arrays) -> tuple[FeatureSchema, BinMapper]:
    """Check and read the columns and their bins."""
    n_features = fields.integer("n_features", 1, MAX_FEATURES)
    n_bins = arrays.take("n_bins", np.int32, (n_features,))
    names = names_from_file(fields, n_features)
    is_categorical = np.zeros(n_features, dtype=bool)
    for feature in fields.items("categorical"):
        require(type(feature) is int and 0 <= feature < n_features, "a feature is out of range")
        is_categorical[feature] = True
    codes = _categories(fields.part("categories"), is_categorical)
    schema = FeatureSchema(names, n_features, is_categorical, codes, fields.flag("from_dtype"))
    fields.end()
    return schema, _bins(n_bins, arrays, is_categorical)


def names_from_file(fields: Fields, n_features: int) -> np.ndarray | None:
    """Check and read the names of the features, or None."""
    names = fields.take("names")
    if names is None:
        return None
    is_named = isinstance(names, list) and all(isinstance(name, str) for name in names)
    require(is_named, "the feature names are not strings")
    require(len(names) == n_features, "there is not one name for each feature")
    require(len(set(names)) == n_features, "two features have the same name")
    return np.array(names, dtype=object)


def _categories(fields: Fields, is_categorical: np.ndarray) -> tuple[dict[Any, int] | None, ...]:
    """The codes of the categories of each feature."""
    found: list[dict[Any, int] | None] = [None] * len(is_categorical)
    for feature in range(len(is_categorical)):
        if str(feature) in fields:
            values, codes = fields.items(str(feature), 2)
            found[feature] = _codes(values, codes)
            known = is_categorical[feature] or not values
            require(known, f"feature {feature} is numeric, but has categories")
    fields.end()
    return tuple(found)


def categories_from_json(values: list[Any]) -> list[Any]:
    """The categories in JSON made by `category_to_json`, which may repeat."""
    categories = [from_json(value) for value in values]
    is_scalar = all(isinstance(value, (str, bool, int, float)) for value in categories)
    require(is_scalar, "a category is neither a string, a number nor a bool")
    return categories


def _codes(values: Any, codes: Any) -> dict[Any, int]:
    is_lists = isinstance(values, list) and isinstance(codes, list) and len(values) == len(codes)
    require(is_lists, "there is not one code for each category")
    in_range = all(type(code) is int and 0 <= code < MAX_BINS for code in codes)
    require(in_range, f"the code of a category is not from 0 to {MAX_BINS - 1}")
    categories = categories_from_json(values)
    require(not any(map(is_missing_label, categories)), "a category is NaN")
    distinct(categories, "a feature has the same category twice")
    return dict(zip(categories, codes, strict=True))


def _bins(n_bins: np.ndarray, arrays: Arrays, is_categorical: np.ndarray) -> BinMapper:
    in_range = (n_bins >= 1) & (n_bins <= MAX_BINS)
    require(in_range.all(), f"a feature does not have 1 to {MAX_BINS} bins")
    shape = (int(n_bins.sum()),)
    lowest, highest = (arrays.take(name, np.float64, shape) for name in ("lowest", "highest"))
    mapper = BinMapper(n_bins, lowest, highest, is_categorical)
    require((lowest <= highest).all(), "a bin has no smallest and largest value")
    is_last = np.zeros(len(lowest), dtype=bool)
    is_last[mapper.first[1:] - 1] = True
    ascending = highest[:-1] < lowest[1:]
    require((ascending | is_last[:-1]).all(), "the bins of a feature are not in ascending order")
    of_category = np.repeat(is_categorical, n_bins)
    code = np.arange(len(lowest)) - np.repeat(mapper.first[:-1], n_bins)
    is_code = (lowest == code) & (highest == code)
    require((is_code | ~of_category).all(), "the bins of a categorical feature are not its codes")
    return mapper
