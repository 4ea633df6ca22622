"""Parquet and Arrow files that are read in parts: one file, a folder, or those of a pattern."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.blocks.row_batches import RowBatches
from gpuboost.blocks.sources import ColumnSource, open_source
from gpuboost.cli.tables.data import ArrowData, DataTable
from gpuboost.cli.tables.read import (
    STANDARD_STREAM,
    STREAM_FORMAT,
    TO_READ,
    format_of,
    read_data,
    require_pyarrow,
    shown_path,
    with_usual_types,
    without_indices,
)


@dataclass(frozen=True)
class TableBatches:
    """The rows of a table, batch by batch.

    Attributes
    ----------
    header : DataTable
        A table with the names of all columns.
    n_rows : int or None
        Number of rows, if it is known before they are read.
    read : callable
        Returns an iterator of tables with these columns, and maybe others.
    """

    header: DataTable
    n_rows: int | None
    read: Callable[[Sequence[str]], Iterator[DataTable]]


def open_batches(path: str, strings: Iterable[str], has_header: bool) -> TableBatches:
    """The rows of a table: of Parquet and Arrow files in batches, of others in one piece.

    Parameters
    ----------
    path : str
        As in `read_data`, or a folder or pattern of Parquet or Arrow files.
    strings, has_header
        As in `read_data`.

    Raises
    ------
    ValueError, OSError, ImportError
        See `read_data`.
    """
    source = source_of(path)
    if source is None:
        data = read_data(path, strings, has_header)
        return TableBatches(data, data.n_rows, lambda names: iter([data]))
    import pyarrow as pa

    with _errors_of(path):
        rows = RowBatches(source)
    _check_rows(path, rows.n_rows)
    columns = [(name, pa.null()) for name in without_indices(rows.names)]

    def read(names: Sequence[str]) -> Iterator[DataTable]:
        with _errors_of(path):
            for batch in rows.read(names):
                yield ArrowData(with_usual_types(batch))
                del batch

    return TableBatches(ArrowData(pa.schema(columns).empty_table()), rows.n_rows, read)


def open_table(
    path: str,
    strings: Iterable[str] = (),
    has_header: bool = True,
    in_parts: bool = False,
    required: bool = True,
) -> DataTable:
    """A table, of which a few columns are read at a time where possible.

    Parameters
    ----------
    path : str
        As in `read_data`, or a folder or pattern of Parquet or Arrow files.
    strings, has_header
        As in `read_data`.
    in_parts : bool
        Whether a single Parquet or Arrow file is read in parts, too.
    required : bool
        Whether it is an error if ``in_parts``, and the table can only be read in one piece.

    Raises
    ------
    ValueError
        The table cannot be read in parts; or see `read_data`.
    OSError, ImportError
        See `read_data`.
    """
    source = source_of(path)
    exists = path == STANDARD_STREAM or os.path.exists(path)
    if in_parts and required and source is None and exists:
        raise ValueError(
            "--memory-limit needs Parquet or Arrow files that are not compressed by gzip, got "
            f"{shown_path(path)}; convert it to Parquet"
        )
    if source is None or not (in_parts or isinstance(source, str)):
        return read_data(path, strings, has_header)
    with _errors_of(path):
        columns = open_source(source)
    _check_rows(path, columns.n_rows)
    return FileData(columns)


def source_of(path: str) -> Any:
    """A source of tables, see `Dataset.from_batches`; None if the table is read in one piece."""
    if path == STANDARD_STREAM:
        return None
    if os.path.isdir(path) or (glob.has_magic(path) and not os.path.exists(path)):
        require_pyarrow(TO_READ)
        return path
    kind = None
    if os.path.isfile(path):
        with open(path, "rb") as file:
            kind = format_of(file.read(8))
    if kind is None:
        return None
    pyarrow = require_pyarrow(TO_READ)
    from pyarrow import dataset, ipc

    with _errors_of(path):
        if kind == STREAM_FORMAT:
            return ipc.open_stream(pyarrow.OSFile(path))
        return dataset.dataset(path, format={"Parquet": "parquet"}.get(kind, "ipc"))


@contextmanager
def _errors_of(path: str) -> Iterator[None]:
    """Let errors of pyarrow name the path."""
    import pyarrow

    try:
        yield
    except pyarrow.ArrowException as error:
        raise ValueError(f"cannot read {shown_path(path)} as Parquet or Arrow: {error}") from error


def _check_rows(path: str, n_rows: int | None) -> None:
    if n_rows == 0:
        raise ValueError(f"{shown_path(path)} has no rows")


class FileData(DataTable):
    """Columns that are read when they are needed.

    Parameters
    ----------
    columns : ColumnSource
    chosen : ndarray of bool of shape (n_rows of the source,), optional
        The rows that the table has.
    """

    def __init__(self, columns: ColumnSource, chosen: np.ndarray | None = None) -> None:
        self._columns, self._chosen = columns, chosen
        whole = ArrowData(columns.schema.empty_table())
        self._header = ArrowData(whole.features(without_indices(whole.names)))

    @property
    def names(self) -> list[str]:
        return self._header.names

    @property
    def n_rows(self) -> int:
        return self.features(self.names).n_rows

    @property
    def string_columns(self) -> list[str]:
        return self._header.string_columns

    @property
    def unusable_columns(self) -> dict[str, str]:
        return self._header.unusable_columns

    def values(self, name: str) -> np.ndarray:
        return self._read(name).values(name)

    def column(self, name: str) -> Any:
        return self._read(name).column(name)

    def _read(self, name: str) -> ArrowData:
        self.check_name(name)
        return ArrowData(self.features([name]).read([name]))

    def features(self, names: Sequence[str]) -> SelectedColumns:
        return SelectedColumns(self._columns, names, self._chosen)

    def take(self, rows: np.ndarray) -> FileData:
        """The table of the rows with these indices, which ascend."""
        chosen = np.zeros(self._columns.n_rows, dtype=bool)
        chosen[rows if self._chosen is None else np.flatnonzero(self._chosen)[rows]] = True
        return FileData(self._columns, chosen)


class SelectedColumns(ColumnSource):
    """Some columns and rows of a source.

    Parameters
    ----------
    source : ColumnSource
    names : sequence of str
        The columns.
    chosen : ndarray of bool of shape (n_rows of the source,), or None
        The rows; None means all.

    Attributes
    ----------
    after_column : callable
        Is called after each column that was read.
    """

    def __init__(
        self, source: ColumnSource, names: Sequence[str], chosen: np.ndarray | None
    ) -> None:
        self.after_column: Callable[[], Any] = lambda: None
        self._source, self._chosen = source, chosen
        self._extra: tuple[str, np.ndarray] | None = None
        self.names, self.schema = list(names), source.schema
        self.n_rows = source.n_rows if chosen is None else int(np.count_nonzero(chosen))

    def with_column(self, name: str, values: np.ndarray) -> SelectedColumns:
        """These columns and another one, which is read on its own."""
        found = copy(self)
        found.names, found._extra = [*self.names, name], (name, values)
        return found

    def read(self, names: Sequence[str]) -> Any:
        """Some columns of the rows, as a `pyarrow.Table`."""
        import pyarrow as pa

        if self._extra is not None and list(names) == [self._extra[0]]:
            return pa.table(dict([self._extra]))
        table = with_usual_types(self._source.read(names))
        for _ in names:
            self.after_column()
        return table if self._chosen is None else table.filter(pa.array(self._chosen))
