"""Sources of tables that need not fit in memory, read column by column.

Files that pyarrow reads are read where they are, only the columns that are asked for. Everything
else comes as a stream of tables, which is written once to a temporary Parquet file without a name.
"""

from __future__ import annotations

import glob
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from gpuboost.blocks.spill import disk_errors, temporary_file

_FILE_FORMATS = {
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".arrow", ".ipc", ".feather"), "ipc"),
}
ROW_GROUP_BYTES = 16 << 20  # of a row group of the temporary file
_PLAIN: Any = {"compression": "none", "use_dictionary": False, "write_statistics": False}
_ALLOWED = (
    "a path, a glob pattern or a folder of Parquet or Arrow files, a list of paths, a dataset of "
    "pyarrow, a lazy frame of polars, a relation of duckdb, an object that exports an Arrow "
    "stream, an iterable of tables, or a function that returns any but paths"
)


class SourceChangedError(RuntimeError):
    """The files of a source changed while they were read."""


class ColumnSource(ABC):
    """A table, of which some columns are read at a time.

    Attributes
    ----------
    names : list of str
        Names of all columns.
    has_names : bool
        False for batches of arrays, whose columns are called "0", "1" and so on.
    n_rows : int
        Number of rows.
    schema : pyarrow.Schema
        Names and types of all columns.
    """

    names: list[str]
    has_names = True
    n_rows: int
    schema: Any

    @abstractmethod
    def read(self, names: Sequence[str]) -> Any:
        """Some columns of all rows, as a `pyarrow.Table`."""


class FileSource(ColumnSource):
    """Files that pyarrow reads, all with the same columns.

    Raises
    ------
    ValueError
        There is no row, or a file has other columns or types than the first.
    SourceChangedError
        A file changed between two calls of `read`.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset, self.schema = dataset, dataset.schema
        self.names = list(dataset.schema.names)
        first: Any = None  # without the columns that names of folders have
        for fragment in dataset.get_fragments():
            first = fragment.physical_schema if first is None else first
            check_same_columns(first, fragment.physical_schema, f"file {fragment.path}")
        self._paths = [Path(path) for path in dataset.files]
        self._found = self._state()
        self.n_rows = dataset.count_rows()

    def read(self, names: Sequence[str]) -> Any:
        """Some columns of all rows, as a `pyarrow.Table`."""
        import pyarrow as pa

        try:
            # Arrow's own pool keeps what is freed, 10 MB with 1,500 columns.
            table = self.dataset.to_table(columns=list(names), memory_pool=pa.system_memory_pool())
        except MemoryError:
            raise  # no file is damaged
        except Exception as error:
            self.check_unchanged()
            self._name_damaged_file(names, error)
            raise
        self.check_unchanged(table.num_rows)
        return with_wide_indices(table)

    def _name_damaged_file(self, names: Sequence[str], error: Exception) -> None:
        """Raise an OSError that names the file that cannot be read, if there is one."""
        for fragment in self.dataset.get_fragments():
            columns = [name for name in names if name in fragment.physical_schema.names]
            try:
                fragment.to_table(columns=columns)
            except Exception as own:
                raise unreadable(fragment.path, own) from error

    def check_unchanged(self, n_rows: int | None = None) -> None:
        """Check that no file changed since it was found, and the number of rows that were read.

        Raises
        ------
        SourceChangedError
            A file or the number of rows changed.
        """
        if self._state() != self._found or n_rows not in (None, self.n_rows):
            raise SourceChangedError(
                "the files of this source changed while they were read; copy them, or wait until "
                "nothing writes to them, and try again"
            )

    def _state(self) -> list[tuple[int, int]]:
        """Size and time of the last change of each local file."""
        local = [path.stat() for path in self._paths if path.exists()]
        return [(own.st_size, own.st_mtime_ns) for own in local]


class StreamSource(ColumnSource):
    """A stream of tables, written to a temporary Parquet file without a name.

    Raises
    ------
    ValueError
        There is no row, or a table has other columns or types than the first.
    """

    def __init__(self, tables: Iterable[Any]) -> None:
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile, ParquetWriter

        self._file = temporary_file()
        weakref.finalize(self, self._file.close)
        self.n_rows, self._categorical = 0, set[str]()
        groups = self._row_groups(tables)
        first = next(groups, None)
        if first is None:
            raise ValueError("this source has no rows; give at least one table with rows")
        to_file = pa.PythonFile(self._file, "wb")
        with disk_errors():
            writer = ParquetWriter(to_file, first.schema, **_PLAIN)
        for group in chain([first], groups):
            with disk_errors():
                writer.write_table(group)
        with disk_errors():
            writer.close()
        self._reader = ParquetFile(pa.PythonFile(self._file, "rb"))
        self.schema, self.names = first.schema, list(first.schema.names)

    def _row_groups(self, tables: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows of all tables, in tables of `ROW_GROUP_BYTES` or more, except the last."""
        import pyarrow as pa

        waiting, n_waiting, first = list[Any](), 0, None
        for number, given in enumerate(tables):
            table, has_names = arrow_table(given, number)
            is_dictionary = [pa.types.is_dictionary(kind) for kind in table.schema.types]
            self._categorical.update(compress(table.schema.names, is_dictionary))
            table = decoded(table)
            self.has_names &= has_names
            first = table.schema if first is None else first
            check_same_columns(first, table.schema, f"batch {number}")
            waiting.append(table.select(first.names))
            self.n_rows, n_waiting = self.n_rows + table.num_rows, n_waiting + table.nbytes
            if n_waiting >= ROW_GROUP_BYTES:
                yield pa.concat_tables(waiting)
                waiting, n_waiting = [], 0
        if sum(table.num_rows for table in waiting):
            yield pa.concat_tables(waiting)

    def read(self, names: Sequence[str]) -> Any:
        """Some columns of all rows, as a `pyarrow.Table`; categories are dictionaries."""
        import pyarrow as pa

        table = self._reader.read(columns=list(names), use_threads=False)
        columns = {
            name: table[name].dictionary_encode() if name in self._categorical else table[name]
            for name in names
        }
        return pa.table(columns)


def open_source(source: Any) -> ColumnSource:
    """The columns of a source of tables, or of a `ColumnSource`, as given.

    Raises
    ------
    TypeError
        The source is of another kind.
    ValueError, FileNotFoundError
        There are no files or rows, or tables have different columns.
    ImportError
        pyarrow is not installed.
    """
    if isinstance(source, ColumnSource):
        return source
    files = file_source(source)
    return StreamSource(tables_of(source)) if files is None else files


def file_source(source: Any) -> FileSource | None:
    """The files of a source; None for a source that is not of files.

    Raises
    ------
    ValueError, FileNotFoundError
        See `open_source`.
    """
    import pyarrow.dataset as ds

    if isinstance(source, ds.FileSystemDataset):
        return None if _is_filtered(source) else FileSource(source)
    paths = [source] if isinstance(source, (str, os.PathLike)) else source
    if is_list_of(paths, (str, os.PathLike)):
        return FileSource(_dataset_of([os.fspath(path) for path in paths]))
    return None


def is_list_of(given: Any, kinds: tuple[type, ...]) -> bool:
    """Whether an object is a list or another sequence whose first element is of these types."""
    return isinstance(given, Sequence) and len(given) > 0 and isinstance(given[0], kinds)


def _dataset_of(paths: list[str]) -> Any:
    """The dataset of pyarrow of some paths, patterns and folders."""
    import pyarrow.dataset as ds

    found: list[str] = []
    for path in paths:
        matches = [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))
        inside = [own for match in matches for own in _files_of(match)]
        if not inside:
            raise FileNotFoundError(
                f"no Parquet or Arrow file found at {path}; give files, or a folder with files, "
                f"whose names end in {sorted(_FILE_FORMATS)}"
            )
        found += inside
    example = {_FILE_FORMATS.get(Path(path).suffix): path for path in found}
    if len(example) > 1 or None in example:
        raise ValueError(
            f"files must all end in {sorted(_FILE_FORMATS)}, and be of one format, got "
            f"{sorted(example.values())}; convert or leave out some"
        )
    return ds.dataset(found, format=next(iter(example)), partitioning="hive")


def _files_of(path: str) -> list[str]:
    """A file, or the files of a folder without those that are hidden or unfinished.

    Writers give these, and their folders, names that begin with a dot or an underscore.
    """
    if not os.path.isdir(path):
        return [path]
    files = (own for own in Path(path).rglob("*") if own.suffix in _FILE_FORMATS and own.is_file())
    return sorted(
        str(own)
        for own in files
        if not any(part.startswith((".", "_")) for part in own.relative_to(path).parts)
    )


def _is_filtered(dataset: Any) -> bool:
    """Whether a dataset of pyarrow has a filter; its fragments are then those of all rows."""
    try:
        dataset.get_fragments()
    except ValueError:
        return True
    return False


def tables_of(source: Any) -> Iterator[Any]:
    """The tables of a source that is not of files.

    Raises
    ------
    TypeError
        The source is of another kind.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    if callable(source):
        source = source()
    if isinstance(source, ds.Dataset):
        return iter(source.to_batches())
    if nw.dependencies.is_polars_lazyframe(source):
        has_batches = hasattr(source, "collect_batches")
        return iter(source.collect_batches() if has_batches else [source.collect()])
    if nw.dependencies.is_into_dataframe(source):
        return iter([source])
    if hasattr(source, "__arrow_c_stream__"):
        return iter(pa.RecordBatchReader.from_stream(source))
    if hasattr(source, "fetch_record_batch"):  # a relation of duckdb
        return iter(source.fetch_record_batch())
    if isinstance(source, Iterable) and not isinstance(source, (np.ndarray, dict)):
        return iter(source)
    raise TypeError(
        f"a source of tables must be {_ALLOWED}, got {type(source).__name__}; give a table X as [X]"
    )


def arrow_table(given: Any, number: int) -> tuple[Any, bool]:
    """A batch as a `pyarrow.Table`, and whether its columns have names."""
    import pyarrow as pa

    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given]), True
    if isinstance(given, np.ndarray) and given.ndim == 2:
        given = given.astype(given.dtype.newbyteorder("="), copy=False)
        arrays = [np.ascontiguousarray(column) for column in given.T]
        return pa.table({str(i): column for i, column in enumerate(arrays)}), False
    if nw.dependencies.is_pandas_dataframe(given):
        has_names = all(isinstance(name, str) for name in given.columns)
        return pa.Table.from_pandas(given, preserve_index=False), has_names
    if nw.dependencies.is_into_dataframe(given):
        return nw.from_native(given, eager_only=True).to_arrow(), True
    if hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__"):
        return pa.table(given), True
    raise TypeError(
        f"batch {number} must be a data frame, an Arrow table or an array of two dimensions, got "
        f"{type(given).__name__}"
    )


def decoded(table: Any) -> Any:
    """A table with values in place of dictionaries and one type of strings, as in all batches."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if is_string(kind):
            kind = pa.string()
        if kind != field.type:
            table = table.set_column(place, field.name, table.column(place).cast(kind))
    return table.replace_schema_metadata(None)


def with_wide_indices(table: Any) -> Any:
    """A table whose dictionaries can be joined: pandas writes indices of one byte in each file."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type) and field.type.index_type.bit_width < 32:
            column = table.column(place).cast(field.type.value_type).dictionary_encode()
            table = table.set_column(place, field.name, column)
    return table


def unreadable(path: str, error: Exception) -> OSError:
    """The error of a file that cannot be read."""
    return OSError(f"cannot read {path}: {error}; write the file again")


def is_string(kind: Any) -> bool:
    """Whether a type of pyarrow is one of its types of strings."""
    return str(kind) in ("string", "large_string", "string_view")


def check_same_columns(first: Any, other: Any, where: str) -> None:
    """Check that a schema of pyarrow has the columns and types of the first.

    Raises
    ------
    ValueError
        A column is missing, additional, or of another type.
    """
    known = dict(zip(first.names, first.types, strict=True))
    found = dict(zip(other.names, other.types, strict=True))
    missing, extra = sorted(known.keys() - found.keys()), sorted(found.keys() - known.keys())
    if missing or extra:
        raise ValueError(
            f"{where} has other columns than the first: missing {missing[:5]}, additional "
            f"{extra[:5]}; give tables with the same columns"
        )
    for name, kind in known.items():
        if found[name] != kind and not (is_string(kind) and is_string(found[name])):
            raise ValueError(
                f"column {name!r} of {where} has type {found[name]}, but {kind} in the first; cast "
                "it to one type"
            )
