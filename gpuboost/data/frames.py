"""Conversion of X to one float matrix and a schema.

A data frame or an array becomes a `Table` (columns as numbers or as categories), so all inputs are
treated alike. The matrix is float32 if that is exact for the types of all numeric columns, else
float64; a categorical column becomes its codes. The categories of a feature are coded in sorted
order (see `FeatureSchema.codes`), so the codes depend only on the values, not on the library of the
data frame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuboost.data.arrays import is_missing_label
from gpuboost.data.column_types import category_kind, is_number
from gpuboost.data.sparse_features import Features
from gpuboost.data.tables import (
    ArrayTable,
    Codes,
    FrameTable,
    Names,
    SparseTable,
    Table,
    read_table,
    to_floats,
)
from gpuboost.data.validation import check_names, feature_label
from gpuboost.engine.array_modules import array_module
from gpuboost.engine.bins import MAX_BINS


@dataclass(frozen=True, eq=False)
class FeatureSchema:
    """The columns of the training data, which `apply_schema` requires of other data.

    Attributes
    ----------
    names : ndarray of object of shape (n_features,), or None
        Column names, if all of them are strings.
    n_features : int
        Number of columns.
    is_categorical : ndarray of bool of shape (n_features,)
        Mask of the categorical features.
    codes : tuple of (dict or None), one per feature
        The code of each known category, in sorted order; of more than 255 categories, the rarest
        come last and share a code. None for a numeric feature, and empty for a feature of a data
        frame without values.
    from_dtype : bool
        Whether the types of the columns said which features are categorical. If so, a numeric
        feature must not be of categories or strings in other data; otherwise these are converted
        to numbers.
    """

    names: Names | None
    n_features: int
    is_categorical: NDArray[np.bool_]
    codes: tuple[dict[Any, int] | None, ...]
    from_dtype: bool

    def check_columns(self, names: Names | None, n_features: int, owner: str) -> None:
        """Check that other data has the same names (see `check_names`) and number of features."""
        check_names(names, self.names, owner)
        if n_features != self.n_features:
            raise ValueError(
                f"X has {n_features} features, but {owner} is expecting {self.n_features} features "
                "as input."
            )

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes of scikit-learn's estimators."""
        facts: dict[str, Any] = {"n_features_in_": self.n_features}
        return facts if self.names is None else {**facts, "feature_names_in_": self.names}

    def select(self, features: Sequence[int] | NDArray[np.integer]) -> FeatureSchema:
        """The columns with these indices, without names."""
        is_categorical = self.is_categorical[features]
        codes = tuple(self.codes[feature] for feature in features)
        return FeatureSchema(None, len(features), is_categorical, codes, self.from_dtype)

    def update_hash(self, sha: Any) -> None:
        """Update a `hashlib` object with all categories and codes; 1 and "1" hash differently."""
        for feature in np.flatnonzero(self.is_categorical).tolist():
            known = self.codes[feature] or {}
            sha.update(f"feature {feature}: {len(known)} categories".encode())
            for category, code in known.items():
                text = _category_text(category).encode("utf-8", "surrogatepass")
                sha.update(f"{code} {len(text)} ".encode() + text)


def fit_schema(X: Any, categorical_features: Any = "from_dtype") -> tuple[Features, FeatureSchema]:
    """Return `X` as a matrix, and the schema of its columns; a CuPy array stays on its device.

    Parameters
    ----------
    X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
    categorical_features : "from_dtype", None, or array-like of bool, int or str
        Which features are categorical: columns of categories or strings in a data frame, no
        features, or the features given by a mask, indices or names.

    Returns
    -------
    X : ndarray of float32 or float64 of shape (n_samples, n_features), or SparseFeatures
        `X` itself if it already is such an array without categorical features. `SparseFeatures` if
        `X` is sparse and has no categorical features.
    schema : FeatureSchema

    Raises
    ------
    TypeError, ValueError
        If `X` is not a table, if column names are repeated or only some are strings, if a column
        is neither numeric nor categorical (dates, for example), or if `categorical_features` is
        invalid.
    """
    table = read_table(X)
    of_table = table.names, table.n_features, table.category_types
    is_categorical = categorical_mask(categorical_features, *of_table)
    known: list[dict[Any, int] | None] = [None] * table.n_features

    def learn(feature: int) -> np.ndarray:
        codes, values = table.categories(feature)
        counts = np.bincount(codes + 1, minlength=len(values) + 1)[1:]
        of_feature = known[feature] = _choose_codes(values, counts)
        return _look_up(codes, values, of_feature)

    matrix = _assemble(table, is_categorical, learn)
    if isinstance(table, FrameTable) and isinstance(matrix, np.ndarray):
        for feature in np.flatnonzero(np.isnan(matrix[:1]).all(axis=0)).tolist():
            if np.isnan(matrix[:, feature]).all():
                known[feature] = {}
    from_dtype = isinstance(categorical_features, str)
    schema = FeatureSchema(table.names, table.n_features, is_categorical, tuple(known), from_dtype)
    return matrix, schema


def apply_schema(
    X: Any, schema: FeatureSchema, owner: str = "Dataset", source: str | None = None
) -> Features:
    """Return other data as a matrix, with the categorical codes of the training data.

    Parameters
    ----------
    X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
    schema : FeatureSchema
    owner : str
        Name of the class that expects the features, for error messages.
    source : str, optional
        The library of an imported model, for error messages.

    Returns
    -------
    ndarray of float32 or float64 of shape (n_samples, n_features), or SparseFeatures
        NaN where a value is missing or a category is unknown.

    Raises
    ------
    TypeError, ValueError
        If `X` is not a table, if a numeric feature has values that are not numbers, if a
        categorical feature has values of another type than the known categories, or if the names,
        their order or the number of the features differ.
    """
    table = read_table(X)
    schema.check_columns(table.names, table.n_features, owner)

    def code(feature: int) -> np.ndarray:
        codes, values = table.categories(feature)
        known = schema.codes[feature] or {}
        found = _look_up(codes, values, known)
        if known and np.isnan(found).all():
            _check_kinds(feature_label(feature, schema.names), known, _occurring(codes, values))
        return found

    by_code = schema.is_categorical.copy()
    if schema.from_dtype and np.any(table.category_types):
        for feature in np.flatnonzero(table.category_types & ~by_code).tolist():
            if schema.codes[feature] is None:
                _check_no_categories(feature_label(feature, schema.names), table, feature, source)
            by_code[feature] = True  # all values are missing
    return _assemble(table, by_code, code)


# ---- the matrix ---------------------------------------------------------------------------------


def _assemble(
    table: Table, is_categorical: NDArray[np.bool_], encode: Callable[[int], np.ndarray]
) -> Features:
    """The table as one matrix of numbers and category codes."""
    if not is_categorical.any():
        if isinstance(table, SparseTable):
            return table.features
        if isinstance(table, ArrayTable):
            return to_floats(table.array, None)
    if isinstance(table, SparseTable):
        dense = table.by_column.dense()
        for feature in np.flatnonzero(is_categorical).tolist():
            dense[:, feature] = encode(feature)
        return dense
    numeric = np.flatnonzero(~is_categorical)
    narrow = all(table.fits_float32(feature) for feature in numeric.tolist())
    shape = (table.n_features, table.n_samples)
    xp = array_module(table.array) if isinstance(table, ArrayTable) else np
    matrix: np.ndarray = xp.empty(shape, dtype=np.float32 if narrow else np.float64).T
    for feature in range(table.n_features):
        column = encode if is_categorical[feature] else table.numbers
        matrix[:, feature] = xp.asarray(column(feature))
    return matrix


# ---- categories ---------------------------------------------------------------------------------


def categorical_mask(
    choice: Any, names: Names | None, n_features: int, category_types: Any = False
) -> NDArray[np.bool_]:
    """Mask of the categorical features, of shape (n_features,).

    ``choice`` is as in `fit_schema`, and ``category_types`` the mask that "from_dtype" means.
    """
    mask = np.zeros(n_features, dtype=bool)
    if choice is None:
        return mask
    if isinstance(choice, str):
        if choice != "from_dtype":
            raise ValueError(
                f"categorical_features must be 'from_dtype', None, or a mask, indices or names of "
                f"features, got {choice!r}; to choose one feature by name, pass [{choice!r}]"
            )
        mask[:] = category_types
        return mask
    chosen = np.atleast_1d(np.asarray(choice))
    if chosen.size == 0:
        return mask
    if chosen.dtype.kind == "b":
        if chosen.shape != mask.shape:
            raise ValueError(
                "categorical_features set as a boolean mask must have shape (n_features,), which "
                f"is {mask.shape} here, got {chosen.shape}"
            )
        return chosen
    mask[_feature_places(chosen.ravel(), names, n_features)] = True
    return mask


def _feature_places(chosen: np.ndarray, names: Names | None, n_features: int) -> Any:
    """Indices of the features given by name or index."""
    if chosen.dtype.kind in "iu":
        outside = chosen[(chosen < 0) | (chosen >= n_features)]
        if outside.size:
            raise ValueError(
                "categorical_features set as integer indices must be in [0, n_features - 1], which "
                f"is [0, {n_features - 1}] here, got {outside.tolist()}"
            )
        return chosen
    if not all(isinstance(name, str) for name in chosen.tolist()):
        raise ValueError(
            "categorical_features must be 'from_dtype', None, or a mask, indices or names of "
            f"features, got {chosen.tolist()!r:.80}"
        )
    if names is None:
        raise ValueError(
            "categorical_features should be passed as an array of integers or as a boolean mask "
            "when the model is fitted on data without feature names. Got names, "
            f"{chosen.tolist()!r:.80}: pass a data frame that has them, or indices"
        )
    places = {name: place for place, name in enumerate(names)}
    unknown = sorted(set(chosen.tolist()) - set(places))
    if unknown:
        raise ValueError(
            f"categorical_features has an item value {unknown[0]!r} which is not a valid feature "
            "name of the training data. Choose from its features, "
            f"{names.tolist()!r:.200}"
        )
    return [places[name] for name in chosen.tolist()]


def _choose_codes(values: Sequence[Any], counts: NDArray[np.int64]) -> dict[Any, int]:
    """Codes of the categories that occur, in sorted order; of over 255, the rarest share one."""
    weight: dict[Any, int] = {}
    for value, count in zip(values, counts.tolist(), strict=True):
        if count and not is_missing_label(value):
            weight[value] = weight.get(value, 0) + count
    ordered = sorted(weight, key=_category_order)
    rare: set[Any] = set()
    if len(ordered) > MAX_BINS:
        by_count = sorted(ordered, key=lambda category: -weight[category])  # ties stay sorted
        rare = set(by_count[MAX_BINS - 1 :])
    common = [category for category in ordered if category not in rare]
    last = dict.fromkeys((category for category in ordered if category in rare), MAX_BINS - 1)
    return {category: code for code, category in enumerate(common)} | last


def _look_up(codes: Codes, values: Sequence[Any], known: dict[Any, int]) -> NDArray[np.float32]:
    """The code of each row's category; NaN where the category is missing or unknown."""
    near = _by_float32(known)
    table = [
        np.nan if is_missing_label(value) else _code_of(value, known, near) for value in values
    ]
    return np.array([*table, np.nan], dtype=np.float32)[codes]  # code -1 is the last entry


def _occurring(codes: Codes, values: Sequence[Any]) -> list[Any]:
    """The categories of a column that have rows, without missing values."""
    found = [values[code] for code in np.unique(codes).tolist() if code >= 0]
    return [value for value in found if not is_missing_label(value)]


def _check_kinds(label: str, known: dict[Any, int], values: list[Any]) -> None:
    """Check that some values, none of which is a known category, have the type of one."""
    if values and set(map(category_kind, values)).isdisjoint(map(category_kind, known)):
        raise ValueError(
            f"{label} had categories that are {_some_of(list(known))} in fit, but now has "
            f"{_some_of(values)}; convert the column to the type that it had in fit"
        )


def _check_no_categories(label: str, table: Table, feature: int, source: str | None) -> None:
    """Check that a column of a categorical or string type has only missing values."""
    values = _occurring(*table.categories(feature))
    if values and source is not None:
        raise ValueError(
            f"{label} has categories that are {_some_of(values)}, but the model of {source} does "
            "not hold the categories of this feature; pass the numbers that it was trained on"
        )
    if values:
        raise ValueError(
            f"{label} had numbers in fit, but now has categories that are {_some_of(values)}; "
            "convert the column to numbers"
        )


def _some_of(categories: list[Any]) -> str:
    """The types of categories in messages, with an example."""
    kinds = sorted(set(map(category_kind, categories)))
    return f"{' and '.join(kinds)} (such as {min(categories, key=_category_order)!r:.40})"


def _by_float32(known: dict[Any, int]) -> dict[float, float]:
    """The codes of float categories by their nearest float32; NaN if several share one."""
    codes: dict[float, float] = {}
    for category, code in known.items():
        if isinstance(category, float):
            near = _nearest_float32(category)
            codes[near] = np.nan if near in codes else code
    return codes


def _code_of(category: Any, known: dict[Any, int], by_float32: dict[float, float]) -> float:
    """The code of a category; NaN if the category is unknown.

    A float also matches a category that is its nearest float32, or of which it is the nearest
    float32: 0.2 in float32 is 0.20000000298, so both are found if only one of them is known.
    """
    code = known.get(category, np.nan)
    if code == code or not isinstance(category, float):
        return code
    near = _nearest_float32(category)
    return by_float32.get(near, np.nan) if near == category else known.get(near, np.nan)


def _nearest_float32(category: float) -> float:
    with np.errstate(over="ignore", under="ignore"):
        return float(np.float32(category))


def _category_text(category: Any) -> str:
    """A category as text; equal ints, floats and bools have the same text."""
    if isinstance(category, str):
        return f"text {category}"
    if isinstance(category, Integral):
        return f"number {int(category)}"
    if is_number(category):
        value = float(category)
        return f"number {int(value) if value.is_integer() else value!r}"
    return f"{type(category).__name__} {category!r}"


def _category_order(category: Any) -> tuple[bool, Any, str]:
    """Sort key of a category: numbers come first, by value, then everything else as text."""
    if is_number(category):
        return False, category, ""
    return True, 0, str(category)
