"""A user's table. Each column is read as numbers, or as codes that are indices of its categories.

Data frames are read through `narwhals`, which does not import data frame libraries; only tables
that it does not know, but that export Arrow data, need pyarrow. Arrays are read by functions of
`arrays`. Python objects are checked by `column_types`.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from gpuboost.data.arrays import as_host_array, is_sparse
from gpuboost.data.column_types import (
    CATEGORY_ADVICE,
    check_array_type,
    check_column_type,
    check_objects,
    holds_strings,
    is_arrow_dictionary,
    is_object_column,
)
from gpuboost.data.sparse_features import SparseFeatures
from gpuboost.data.validation import check_shape, feature_label
from gpuboost.engine.array_modules import copy_to_host, is_cupy_array

_EXACT_IN_FLOAT32 = (nw.Boolean, nw.Int8, nw.Int16, nw.UInt8, nw.UInt16, nw.Float32)
_WIDE = (nw.Int128, nw.UInt128)  # NumPy has no such integers
_CATEGORIES = (nw.Categorical, nw.Enum)

Codes = NDArray[np.int64]
Names = NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class ArrayTable:
    """A 2-d NumPy or CuPy array, whose categories are read on the host."""

    array: np.ndarray
    n_samples: int
    n_features: int
    names = None
    category_types = False  # of all columns: strings in arrays are read as numbers

    def fits_float32(self, feature: int) -> bool:
        return _float_type(self.array.dtype) == np.float32

    def numbers(self, feature: int) -> np.ndarray:
        return to_floats(self.array[:, feature], feature_label(feature, None))

    def categories(self, feature: int) -> tuple[Codes, list[Any]]:
        column = self.array[:, feature]
        if column.dtype.kind in "OUST":
            return _categories_of_objects(column.tolist(), feature_label(feature, None))
        if column.dtype.kind in "iu":
            return _categories_of_numbers(copy_to_host(column))
        return _categories_of_numbers(copy_to_host(self.numbers(feature)))


@dataclass(frozen=True, eq=False)
class SparseTable:
    """A sparse matrix, whose columns become dense one by one."""

    features: SparseFeatures
    n_samples: int
    n_features: int
    names = None
    category_types = False  # no feature has a categorical dtype

    @cached_property
    def by_column(self) -> SparseFeatures:
        """The features in a matrix whose columns are read fast."""
        return self.features.by_column()

    def numbers(self, feature: int) -> np.ndarray:
        return self.by_column.columns([feature])[:, 0]

    def categories(self, feature: int) -> tuple[Codes, list[Any]]:
        return _categories_of_numbers(self.numbers(feature))


@dataclass(frozen=True, eq=False)
class FrameTable:
    """A data frame, as a list of `narwhals` series."""

    columns: list[nw.Series[Any]]
    names: Names | None
    n_samples: int

    @property
    def n_features(self) -> int:
        return len(self.columns)

    @cached_property
    def category_types(self) -> list[bool]:
        """Whether each column has a categorical type or holds strings."""
        return [isinstance(one.dtype, _CATEGORIES) or holds_strings(one) for one in self.columns]

    def fits_float32(self, feature: int) -> bool:
        return isinstance(self.columns[feature].dtype, _EXACT_IN_FLOAT32)

    def numbers(self, feature: int) -> np.ndarray:
        series, label = self.columns[feature], feature_label(feature, self.names)
        dtype = series.dtype
        if isinstance(dtype, _CATEGORIES):
            codes, values = self.categories(feature)
            used, places = np.unique(codes, return_inverse=True)
            found = [values[code] if code >= 0 else np.nan for code in used.tolist()]
            return to_floats(np.array(found, dtype=object), label)[places]
        if dtype == nw.Decimal:
            return _decimals_to_floats(series, label)
        if isinstance(dtype, _WIDE):
            series = series.cast(nw.Float64)
        is_bool = dtype == nw.Boolean
        if (is_bool or dtype.is_integer()) and series.null_count():
            column = to_floats(series.fill_null(False if is_bool else 0).to_numpy(), label)
            return np.where(series.is_null().to_numpy(), np.nan, column)
        column = series.to_numpy()
        if column.dtype.kind == "O" and series.null_count():
            column = np.where(series.is_null().to_numpy(), np.nan, column)
        return to_floats(column, label)

    def categories(self, feature: int) -> tuple[Codes, list[Any]]:
        series, label = self.columns[feature], feature_label(feature, self.names)
        dtype, library = series.dtype, series.implementation
        if dtype.is_integer():
            codes, values = _categories_of_numbers(series.fill_null(0).to_numpy())
            return np.where(series.is_null().to_numpy(), -1, codes), values
        if dtype.is_numeric() or dtype == nw.Boolean:
            return _categories_of_numbers(self.numbers(feature))
        if is_object_column(series) or dtype == nw.Unknown or is_arrow_dictionary(series):
            return _categories_of_objects(series.to_list(), label)
        if library.is_pandas_like():
            codes, values = _encode_pandas(series)
        elif library.is_polars():
            codes, values = _encode_polars(series)
        elif library.is_pyarrow():
            codes, values = _encode_arrow(series)
        else:
            raise TypeError(
                f"{label} is a category of {library}, which is not supported; use pandas, polars "
                "or Arrow, or encode it"
            )
        check_objects(values, label)
        return codes, values


# `numbers` and `categories` return one column. Codes are indices of categories; missing values have
# the code -1 or a category for which `is_missing_label` holds.
Table = ArrayTable | SparseTable | FrameTable


def read_table(X: Any) -> Table:
    """Read a data frame or an array; the entries that a sparse matrix does not store are 0."""
    if type(X) is np.ndarray:  # first, since the checks below take as long as to predict one row
        check_shape(X)
        return ArrayTable(X, *X.shape)
    if is_sparse(X):
        check_shape(X)
        to_floats(np.empty(0, X.dtype), None)  # an error if they are complex
        return SparseTable(SparseFeatures.of(X, _float_type(X.dtype)), *X.shape)
    X = collected(X)
    if nw.dependencies.is_into_dataframe(X):
        return _read_frame(X)
    # Arrow tables and record batches of any library have one of these methods. So have Series of
    # data frames, which are not tables.
    exports_arrow = hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__")
    if exports_arrow and not nw.dependencies.is_into_series(X):
        return _read_frame(_arrow_table(X))
    array = X if is_cupy_array(X) else as_host_array(X, "X")
    check_shape(array)
    return ArrayTable(array, *array.shape)


def collected(X: Any) -> Any:
    """The data frame of a lazy frame of polars; other objects as given."""
    return X.collect() if nw.dependencies.is_polars_lazyframe(X) else X


def _arrow_table(X: Any) -> Any:
    """The pyarrow table of an object that exports Arrow data."""
    import pyarrow

    try:
        return pyarrow.table(X)
    except ValueError as error:
        raise ValueError(
            f"Expected 2D array, got Arrow data of {type(X).__name__} that is not a table instead "
            f"({error}). Reshape your data: a table of one column makes it one feature"
        ) from error


def _read_frame(frame: Any) -> FrameTable:
    """Read a data frame; an error if a column can be neither numbers nor categories."""
    try:
        data = nw.from_native(frame, eager_only=True)
        columns = list(data.iter_columns())
    except nw.exceptions.DuplicateError as error:
        raise ValueError(
            f"Feature names must differ from each other; rename them: {error}"
        ) from error
    names = _string_names(list(data.columns))
    for feature, column in enumerate(columns):
        check_column_type(column, feature_label(feature, names))
    return FrameTable(columns, names, data.shape[0])


def _string_names(names: list[Any]) -> Names | None:
    """The names if all of them are strings, None if no name is a string; an error if mixed."""
    kinds = sorted({type(name).__name__ for name in names})
    if not names or "str" not in kinds:
        return None
    if len(kinds) > 1:
        raise TypeError(
            "Feature names are only supported if all input features have string names, but your "
            f"input has {kinds} as column name types; make them all strings, for example with "
            "X.columns = X.columns.astype(str)"
        )
    return np.array(names, dtype=object)


# ---- numbers -----------------------------------------------------------------------------------


def _float_type(dtype: np.dtype[Any]) -> type[np.floating[Any]]:
    """The float type for values of a dtype: float32 if that is exact, else float64."""
    small = 4 if dtype.kind == "f" else 2
    return np.float32 if dtype.kind in "fbiu" and dtype.itemsize <= small else np.float64


def to_floats(values: np.ndarray, label: str | None) -> np.ndarray:
    """Convert an array to floats; `label` names the column in errors and is None for a matrix."""
    kind = values.dtype.kind
    if kind in "fbiu":
        return values.astype(_float_type(values.dtype), copy=False)
    check_array_type(values, label or "X")
    if label is None:
        columns = [to_floats(c, feature_label(i, None)) for i, c in enumerate(values.T)]
        return np.stack(columns, axis=1) if columns else np.empty(values.shape)
    if kind == "O":
        check_objects(values.tolist(), label)
    try:
        return values.astype(np.float64)
    except TypeError as error:
        raise TypeError(f"{label} has a value that is not a number: {error}") from error
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{label} does not convert to numbers ({error}); {CATEGORY_ADVICE}"
        ) from error


def _decimals_to_floats(series: nw.Series[Any], label: str) -> np.ndarray:
    """The nearest float64 of each decimal.

    Libraries convert to floats that can be off by one bit, from which the whole number of units is
    found if it is below 2**48. Other columns are converted by Python, which takes 0.5 s per million
    values, a hundred times as long.
    """
    scale = getattr(series.dtype, "scale", None)
    if scale is not None and 0 <= scale <= 22:  # 10**22 is exact
        units, found = 10.0**scale, series.cast(nw.Float64).to_numpy()
        if np.nanmax(np.abs(found), initial=0.0) * units < 2.0**48:
            return np.rint(found * units) / units
    column = series.to_numpy()
    return to_floats(np.where(series.is_null().to_numpy(), np.nan, column), label)


# ---- categories ---------------------------------------------------------------------------------


def _categories_of_numbers(column: np.ndarray) -> tuple[Codes, list[Any]]:
    """Codes and categories of numbers; integral categories become int for readability.

    Integers are not converted to floats before, which would merge those above 2**53.
    """
    values, codes = np.unique(column, return_inverse=True)
    if column.dtype.kind != "f":
        return codes, values.tolist()
    categories = [int(v) if v.is_integer() else v for v in values.tolist()]
    return np.where(np.isnan(column), -1, codes), categories


def _categories_of_objects(values: list[Any], label: str) -> tuple[Codes, list[Any]]:
    """Codes and categories of Python objects, which can be of several types."""
    check_objects(values, label)
    try:
        place: dict[Hashable, int] = {value: i for i, value in enumerate(dict.fromkeys(values))}
    except TypeError as error:
        raise TypeError(
            f"{label} is categorical but has a value that cannot be one ({error}); "
            "categories are strings or numbers"
        ) from error
    codes = np.fromiter(map(place.__getitem__, values), dtype=np.int64, count=len(values))
    return codes, list(place)


def _encode_pandas(series: nw.Series[Any]) -> tuple[Codes, list[Any]]:
    native = series.to_native()
    if not hasattr(native.dtype, "categories"):
        native = native.astype("category")
    return native.cat.codes.to_numpy().astype(np.int64), native.cat.categories.tolist()


def _encode_polars(series: nw.Series[Any]) -> tuple[Codes, list[Any]]:
    # Codes of a Categorical are indices of strings that the whole process shares; codes of an Enum
    # are indices of its own categories.
    text = series.cast(nw.String)
    categories = text.drop_nulls().unique().sort().to_list()
    if not categories:  # an Enum of none is an error in some versions
        return np.full(len(text), -1), []
    physical = text.cast(nw.Enum(categories)).to_native().to_physical()
    return physical.cast(int).fill_null(-1).to_numpy(), categories


def _encode_arrow(series: nw.Series[Any]) -> tuple[Codes, list[Any]]:
    native = series.to_native()
    if not hasattr(native.type, "value_type"):
        native = native.dictionary_encode()
    chunks = native.unify_dictionaries().chunks
    if not chunks:
        return np.empty(0, dtype=np.int64), []
    codes = [chunk.indices.cast("int64").fill_null(-1).to_numpy() for chunk in chunks]
    return np.concatenate(codes), chunks[0].dictionary.to_pylist()
