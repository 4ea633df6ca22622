"""Writing of predictions: CSV, TSV, Parquet, Arrow, Feather and npy."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from errno import ENOENT
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from gpuboost.blocks.sources import with_wide_indices
from gpuboost.cli.tables.read import STANDARD_STREAM, require_pyarrow
from gpuboost.io.container import check_writable, replaced_file
from gpuboost.io.parquet import write_tables

NamedColumns = dict[str, Any]  # arrays of NumPy or columns of pyarrow
_FORMATS = "csv, tsv, csv.gz, tsv.gz, parquet, arrow, feather or npy"


def check_output(path: str) -> None:
    """Check that a file has a folder, and the ending of a format that can be written.

    Raises
    ------
    ValueError
        If the ending is another one.
    OSError
        If there is no such folder.
    """
    if path == STANDARD_STREAM:
        return
    if not _ending(path):
        raise ValueError(f"the name of the output must end in {_FORMATS}, got {path!r}")
    if not Path(path).absolute().parent.is_dir():
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT), path)
    check_writable(path)


def check_can_write(path: str) -> None:
    """Check that a model or a checkpoint can be written to a path, without writing it.

    Raises
    ------
    ValueError
        If it is "-", since these files cannot be written to standard output.
    OSError
        If there is no such folder, or it cannot be written.
    """
    if path == STANDARD_STREAM:
        raise ValueError("only tables can be written to standard output; name a file instead of -")
    check_writable(path)


def joined_columns(kept: NamedColumns, predicted: NamedColumns) -> NamedColumns:
    """The columns of a table that are kept, and the predictions.

    Raises
    ------
    ValueError
        If a name is in both.
    """
    common = kept.keys() & predicted.keys()
    if common:
        raise ValueError(
            f"--keep {min(common)}: the predictions have this name; rename it in the table"
        )
    return kept | predicted


def write_columns(batches: Iterable[NamedColumns], path: str) -> None:
    """Write batches of columns of equal length to a file, or as CSV to standard output for "-".

    All batches have the same columns. The file is replaced when it is complete. Only an npy file
    is written in one piece.

    Raises
    ------
    ValueError
        If an npy file would have several columns, not all of numbers.
    OSError
        If the file cannot be written.
    ImportError
        If pyarrow is needed and not installed.
    """
    if path == STANDARD_STREAM:
        _write_text(batches, sys.stdout, ",")
        return
    ending = _ending(path)
    is_special = os.path.exists(path) and not os.path.isfile(path)  # a pipe, which stays one
    with open(path, "wb") if is_special else replaced_file(path) as file:
        if ending == "npy":
            np.save(file, np.concatenate(list(map(_array_of, batches))))
        elif ending in ("parquet", "arrow", "feather"):
            write_tables(_tables(batches, ending), partial(_arrow_writer, file, ending))
        else:
            delimiter = "\t" if ending.startswith("tsv") else ","
            with gzip.open(file, "wb") if ending.endswith(".gz") else nullcontext(file) as content:
                text = io.TextIOWrapper(content, encoding="utf-8", newline="")
                _write_text(batches, text, delimiter)
                text.detach()  # else it would close the file


def _ending(path: str) -> str:
    found = re.search(r"\.((?:csv|tsv)(?:\.gz)?|parquet|arrow|feather|npy)$", path)
    return found[1] if found else ""


def _array_of(columns: NamedColumns) -> np.ndarray:
    """The array of one column, or of several columns of numbers."""
    arrays = {
        name: own if isinstance(own, np.ndarray) else own.to_numpy()
        for name, own in columns.items()
    }
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise ValueError(f"an npy file has only numbers, unlike column {name!r}; write csv")
    return np.column_stack(list(arrays.values()))


def _values_of(column: Any) -> list[Any]:
    """The values of a column as text shows them: None is an empty cell."""
    if isinstance(column, np.ndarray):
        return column.tolist()
    from pyarrow import types

    kind = column.type
    if types.is_date(kind) or types.is_time(kind) or types.is_timestamp(kind):
        column = column.cast("string")  # Python has no nanoseconds
    return column.to_pylist()


def _write_text(batches: Iterable[NamedColumns], file: IO[str], delimiter: str) -> None:
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    for number, columns in enumerate(batches):
        if not number:
            writer.writerow(columns)
        writer.writerows(zip(*map(_values_of, columns.values()), strict=True))


def _tables(batches: Iterable[NamedColumns], ending: str) -> Iterator[Any]:
    """The batches as tables of pyarrow."""
    pyarrow = require_pyarrow(f"to write {ending} files")
    known: dict[str, Any] = {}  # dictionaries of categories so far
    for columns in batches:
        parts = [
            pyarrow.array(own.tolist()) if isinstance(own, np.ndarray) else own
            for own in columns.values()
        ]
        table = pyarrow.table(parts, list(columns))
        yield table if ending == "parquet" else _with_dictionaries(table, known)
        del columns, parts, table


def _with_dictionaries(table: Any, known: dict[str, Any]) -> Any:
    """The table with dictionaries that begin with those of earlier tables, as Arrow files need.

    ``known`` has a chunk without rows for each column of categories.
    """
    from pyarrow import chunked_array, types

    table = with_wide_indices(table)
    for place, field in enumerate(table.schema):
        if types.is_dictionary(field.type):
            before = known.get(field.name, [])
            chunks = chunked_array([*before, *table.column(place).chunks]).unify_dictionaries()
            known[field.name] = [chunks.chunk(0).slice(0, 0)]
            column = chunked_array(chunks.chunks[len(before) :])
            table = table.set_column(place, field.name, column)
    return table


def _arrow_writer(file: IO[bytes], ending: str, schema: Any) -> Any:
    """The writer of a file of Parquet, or of Arrow as pyarrow's Feather files."""
    import pyarrow
    from pyarrow import ipc, parquet

    if ending == "parquet":
        return parquet.ParquetWriter(file, schema)
    codec = "lz4" if pyarrow.Codec.is_available("lz4_frame") else None
    options = ipc.IpcWriteOptions(compression=codec, emit_dictionary_deltas=True)
    return ipc.new_file(file, schema, options=options)
