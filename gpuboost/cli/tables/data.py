"""Tables in memory, column by column: of Arrow, or an array whose columns are numbered."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gpuboost.blocks.sources import is_string
from gpuboost.cli.output import counted
from gpuboost.cli.similar import near, separator_hint


class DataTable(ABC):
    """Rows with named columns."""

    has_names = True

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """Names of the columns; the columns of an array are called "0", "1" and so on."""

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows."""

    @abstractmethod
    def values(self, name: str) -> np.ndarray:
        """A column as an array of shape (n_rows,): numbers, bools or strings.

        Raises
        ------
        ValueError
            If values are missing, or are of another type.
        """

    @abstractmethod
    def column(self, name: str) -> Any:
        """A column of any type as it is: of pyarrow or NumPy."""

    @abstractmethod
    def features(self, names: Sequence[str]) -> Any:
        """Some columns, as X of an estimator."""

    @abstractmethod
    def take(self, rows: np.ndarray) -> DataTable:
        """The table of the rows with these indices."""

    @property
    def string_columns(self) -> list[str]:
        """Names of the columns of strings."""
        return []

    @property
    def unusable_columns(self) -> dict[str, str]:
        """Types, by name, of the columns of dates, times, bytes, lists and structs."""
        return {}

    def check_name(self, name: str) -> None:
        """Check that there is a column of this name.

        Raises
        ------
        ValueError
            If there is none; the message lists similar names.
        """
        if name not in self.names:
            hint = separator_hint(self.names[0]) if len(self.names) == 1 else ""
            raise ValueError(f"the table has no column {name!r}{hint or near(name, self.names)}")

    def check_features(self, names: Sequence[str]) -> None:
        """Check that these columns can be features.

        Raises
        ------
        ValueError
            If some are `unusable_columns`; the message lists them all.
        """
        kinds = self.unusable_columns
        found = [name for name in names if name in kinds]
        if found:
            shown = ", ".join(f"{name!r} ({kinds[name]})" for name in found)
            options = " ".join(f"--drop {shlex.quote(name)}" for name in found)
            raise ValueError(
                f"{counted(len(found), 'column')} must become numbers or strings, or be left out "
                f"by {options}: {shown}"
            )


class ArrowData(DataTable):
    """A table of pyarrow."""

    def __init__(self, table: Any) -> None:
        self.table = table
        repeated = {name for name in table.column_names if table.column_names.count(name) > 1}
        if repeated:
            raise ValueError(f"the table has several columns {min(repeated)!r}; rename them")

    @property
    def names(self) -> list[str]:
        return self.table.column_names

    @property
    def n_rows(self) -> int:
        return self.table.num_rows

    @property
    def string_columns(self) -> list[str]:
        kinds = zip(self.names, self.table.schema.types, strict=True)
        return [name for name, kind in kinds if is_string_type(kind)]

    def values(self, name: str) -> np.ndarray:
        from pyarrow import types

        column = self.column(name)
        if types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        _check_no_missing(name, column.null_count)
        if is_string_type(column.type):
            return np.array(column.to_pylist(), dtype=np.str_)
        if types.is_decimal(column.type):
            column = column.cast("float64")
        values = column.to_numpy()
        if values.dtype.kind not in "biuf":
            raise ValueError(
                f"column {name!r} has the type {column.type}, but must have numbers, "
                "bools or strings"
            )
        _check_no_missing(name, int(np.isnan(values).sum()))
        return values

    @property
    def unusable_columns(self) -> dict[str, str]:
        from pyarrow import types

        kinds = zip(self.names, self.table.schema.types, strict=True)
        return {
            name: str(kind)
            for name, kind in kinds
            if types.is_temporal(kind) or types.is_nested(kind) or "binary" in str(kind)
        }

    def column(self, name: str) -> Any:
        self.check_name(name)
        return self.table.column(name)

    def features(self, names: Sequence[str]) -> Any:
        return self.table.select(list(names))

    def take(self, rows: np.ndarray) -> ArrowData:
        return ArrowData(self.table.take(rows))


class ArrayData(DataTable):
    """A two-dimensional array."""

    has_names = False

    def __init__(self, array: np.ndarray) -> None:
        if array.ndim != 2 or array.dtype.kind not in "biuf":
            raise ValueError(
                "an npy file must hold a two-dimensional array of numbers, got "
                f"{array.ndim} dimensions of {array.dtype}"
            )
        self.array = array

    @property
    def names(self) -> list[str]:
        return [str(column) for column in range(self.array.shape[1])]

    @property
    def n_rows(self) -> int:
        return len(self.array)

    def values(self, name: str) -> np.ndarray:
        values = self.column(name)
        _check_no_missing(name, int(np.isnan(values).sum()))
        return values

    def column(self, name: str) -> np.ndarray:
        self.check_name(name)
        return self.array[:, int(name)]

    def features(self, names: Sequence[str]) -> np.ndarray:
        return self.array[:, [int(name) for name in names]]

    def take(self, rows: np.ndarray) -> ArrayData:
        return ArrayData(self.array[rows])


def is_string_type(kind: Any) -> bool:
    """Whether a type of pyarrow is of strings, in any of its layouts or as a dictionary."""
    from pyarrow import types

    return is_string(kind.value_type if types.is_dictionary(kind) else kind)


def without(names: Iterable[str], excluded: Iterable[str]) -> list[str]:
    """The names that are not excluded, in their order."""
    omitted = set(excluded)
    return [name for name in names if name not in omitted]


def _check_no_missing(name: str, n_missing: int) -> None:
    if n_missing:
        raise ValueError(
            f"column {name!r} has {counted(n_missing, 'missing value')}; remove such rows first"
        )
