"""Rows of a source, in batches of limited size and in their order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import narwhals as nw

from gpuboost.blocks.sources import (
    FileSource,
    arrow_table,
    check_same_columns,
    decoded,
    file_source,
    is_list_of,
    tables_of,
    unreadable,
)

BATCH_ROWS, BATCH_BYTES = 131_072, 64 << 20  # maxima of a batch
_READ_BYTES = 1 << 16  # of a column of a Parquet file, at a time
_VARIABLE_BYTES = 32  # assumed of a string and of other values without a fixed size
_WITHOUT_ROWS = "this source has no rows; give at least one table with rows"


def is_source(X: Any) -> bool:
    """Whether an object is a source of tables (see `Dataset.from_batches`), and no table itself."""
    return (
        isinstance(X, (str, os.PathLike, Iterator))
        or callable(X)
        or nw.dependencies.is_polars_lazyframe(X)
        or hasattr(X, "get_fragments")  # a dataset of pyarrow
        or hasattr(X, "fetch_record_batch")  # a relation of duckdb
        or is_list_of(X, (str, os.PathLike))
        or (isinstance(X, (list, tuple)) and len(getattr((*X, None)[0], "shape", ())) == 2)
    )


class RowBatches:
    """The rows of a source.

    Files are read a few columns of a few rows at a time. The first table of a stream is read at
    once, because it has the names of the columns.

    Attributes
    ----------
    names : list of str
        Names of all columns.
    has_names : bool
        False for arrays and for frames without names, whose columns are called "0", "1" and so on.
    n_rows : int or None
        Number of rows, if it is known before they are read.

    Raises
    ------
    TypeError, ValueError, FileNotFoundError, ImportError
        See `open_source`.
    """

    has_names = True
    n_rows: int | None = None

    def __init__(self, source: Any) -> None:
        self._read: Callable[[Sequence[str]], Iterator[Any]]
        files = file_source(source)
        if files is not None:
            self.names, self.n_rows = files.names, files.n_rows
            self._read = lambda names: _tables_of_files(files, names)
        elif nw.dependencies.is_polars_lazyframe(source):
            self.names = source.collect_schema().names()
            self._read = lambda names: tables_of(source.select(names))
        else:
            tables = tables_of(source)
            first = next(tables, None)
            if first is None:
                raise ValueError(_WITHOUT_ROWS)
            table, self.has_names = arrow_table(first, 0)
            self.names, whole = table.schema.names, _joined(first, tables)
            self._read = lambda names: whole

    def read(self, names: Sequence[str]) -> Iterator[Any]:
        """The rows of some columns, once.

        Yields
        ------
        pyarrow.Table
            At most `BATCH_ROWS` rows and about `BATCH_BYTES`; of a source without names, rows of
            the arrays or frames as given, with all columns.

        Raises
        ------
        ValueError
            There is no row, or a table has other columns or types than the first.
        SourceChangedError
            A file changed while it was read.
        """
        first, number, n_rows = None, 0, 0
        for given in self._read(names):
            table, _ = arrow_table(given, number)
            own = decoded(table.schema.empty_table()).schema
            first = own if first is None else first
            check_same_columns(first, own, f"batch {number}")
            number, n_rows = number + 1, n_rows + table.num_rows
            table = table.select(list(names)) if self.has_names else table
            n_parts = max(1, -(-table.num_rows // BATCH_ROWS), round(table.nbytes / BATCH_BYTES))
            size = max(1, -(-table.num_rows // n_parts))
            if self.has_names:
                given = table
            elif nw.dependencies.is_pandas_dataframe(given):
                given = given.iloc
            starts = range(0, table.num_rows, size)
            del table
            for start in starts:
                yield given[start : start + size]
            del given
        if not n_rows:
            raise ValueError(_WITHOUT_ROWS)


def _joined(first: Any, others: Iterator[Any]) -> Iterator[Any]:
    """All tables of a stream; `itertools.chain` would keep the first."""
    yield first
    del first
    yield from others


def _tables_of_files(files: FileSource, names: Sequence[str]) -> Iterator[Any]:
    """Some columns of files, a few rows at a time."""
    types = dict(zip(files.names, files.schema.types, strict=True))
    row_bytes = sum(_width(types[name]) for name in names)
    size, n_rows = max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, row_bytes))), 0
    try:
        for fragment in files.dataset.get_fragments():
            for batch in _batches_of(fragment, types, names, size):
                n_rows += batch.num_rows
                yield batch
                del batch
    except Exception as error:
        files.check_unchanged()
        if isinstance(error, OSError) and error.errno is None:
            raise unreadable(fragment.path, error) from error
        raise
    files.check_unchanged(n_rows)


def _width(kind: Any) -> int:
    """Bytes of a value of a type of pyarrow, about."""
    try:
        return -(-int(kind.bit_width) // 8)
    except ValueError:
        return _VARIABLE_BYTES


def _batches_of(
    fragment: Any, types: dict[str, Any], names: Sequence[str], size: int
) -> Iterator[Any]:
    """Some columns of a file of a dataset of pyarrow, in batches of at most ``size`` rows.

    Parquet files are not read by the dataset, which reads all of a row group at once.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyarrow.parquet import ParquetFile

    in_file = set(fragment.physical_schema.names)
    inside = [name for name in names if name in in_file]
    if not inside or not isinstance(fragment, ds.ParquetFileFragment):
        few = {"batch_size": size, "batch_readahead": 1, "fragment_readahead": 1}
        yield from fragment.to_batches(schema=pa.schema(types), columns=list(names), **few)
        return
    of_folders = ds.get_partition_keys(fragment.partition_expression)
    with fragment.filesystem.open_input_file(fragment.path) as file:
        reader = ParquetFile(file, pre_buffer=False, buffer_size=_READ_BYTES)
        for batch in reader.iter_batches(size, columns=inside):
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            for name in names:
                if name not in in_file:
                    columns[name] = pa.array([of_folders.get(name)] * batch.num_rows, types[name])
            yield pa.table(columns)
            del batch, columns
