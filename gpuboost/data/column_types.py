"""Types of columns: which of them are numbers or categories, and errors for the others."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from numbers import Number
from typing import Any, NoReturn

import narwhals as nw
import numpy as np

from gpuboost.data.arrays import is_missing_type

CATEGORY_ADVICE = (
    "make it a category (pandas, polars and Arrow have a type for that), name it in "
    "categorical_features, or encode it"
)
_DATE_ADVICE = (
    "make numbers of it, such as days since a date, the month or the weekday, or strings, if each "
    "value is a category"
)
_PARTS_ADVICE = "make columns of numbers, strings or categories of it"
_DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
_PARTS = (bytes, bytearray, memoryview, list, tuple, set, frozenset, np.ndarray)


def check_array_type(values: np.ndarray, label: str) -> None:
    """Check that an array, which is not one of numbers, has strings or Python objects.

    Raises
    ------
    ValueError
    """
    kind = values.dtype.kind
    if kind == "c":
        _refuse_complex(label)
    if kind not in "OUST":
        _refuse(label, values.dtype, _DATE_ADVICE if kind in "Mm" else _PARTS_ADVICE)


def check_column_type(series: nw.Series[Any], label: str) -> None:
    """Check that a column of a data frame is not of dates, times, bytes, lists or structs.

    Raises
    ------
    ValueError
    """
    dtype = series.dtype
    if dtype.is_temporal() or dtype.is_nested() or dtype == nw.Binary:
        native = series.to_native()
        name = native.dtype if hasattr(native, "dtype") else native.type
        _refuse(label, name, _DATE_ADVICE if dtype.is_temporal() else _PARTS_ADVICE)


def check_objects(values: Sequence[Any], label: str) -> None:
    """Check that no Python object is a date, complex, bytes, a list, a tuple or a set.

    Raises
    ------
    ValueError
    """
    for kind in sorted(set(map(type, values)), key=str):
        if issubclass(kind, (complex, np.complexfloating)):
            _refuse_complex(label)
        if issubclass(kind, _PARTS):
            _refuse(label, kind.__name__, _PARTS_ADVICE)
        is_date = issubclass(kind, _DATES) or kind.__name__ == "Period"
        if is_date and not is_missing_type(kind):
            _refuse(label, kind.__name__, _DATE_ADVICE)


def _refuse(label: str, kind: Any, advice: str) -> NoReturn:
    raise ValueError(f"{label} has type {kind}, which is not numeric or categorical; {advice}")


def _refuse_complex(label: str) -> NoReturn:
    raise ValueError(
        f"Complex data not supported: {label} is complex; pass the real and imaginary parts as "
        "columns"
    )


def is_object_column(series: nw.Series[Any]) -> bool:
    """Whether a column of a data frame holds Python objects of any type."""
    if series.implementation.is_cudf():  # whose strings have the dtype object
        return False
    dtype = getattr(series.to_native(), "dtype", None)
    return series.dtype == nw.Object or dtype == np.dtype(object)


def is_arrow_dictionary(series: nw.Series[Any]) -> bool:
    """Whether a column of a pandas frame is a dictionary of Arrow, not a pandas category."""
    dtype = getattr(series.to_native(), "dtype", None)
    return series.dtype == nw.Categorical and hasattr(dtype, "pyarrow_dtype")


def holds_strings(series: nw.Series[Any]) -> bool:
    """Whether a column of a data frame has a string type, or Python objects that are all strings.

    The type that narwhals finds for Python objects depends on the first 100 rows only.
    """
    if not is_object_column(series):
        return bool(series.dtype == nw.String)
    values = series.to_numpy()
    if not any(issubclass(kind, str) for kind in set(map(type, values.tolist()))):
        return False
    present = values[~series.is_null().to_numpy()].tolist()
    return all(issubclass(kind, str) for kind in set(map(type, present)))


def category_kind(category: Any) -> str:
    """The type of a category in messages; equal ints, floats and bools have the same type."""
    if isinstance(category, str):
        return "strings"
    return "numbers" if is_number(category) else f"of type {type(category).__name__}"


def is_number(category: Any) -> bool:
    """Whether a category is a number or a bool."""
    return isinstance(category, (Number, np.bool_))
