"""Writing of predictions: CSV, TSV, Parquet, Arrow, Feather and npy."""

from __future__ import annotations

import csv
import gzip
import os
import re
import sys
from errno import ENOENT
from pathlib import Path
from typing import IO, Any

import numpy as np

from gpuboost.cli.tables.read import STANDARD_STREAM, require_pyarrow
from gpuboost.io.container import check_writable

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


def write_columns(columns: NamedColumns, path: str) -> None:
    """Write columns of equal length to a file, or as CSV to standard output for "-".

    Raises
    ------
    ValueError
        If an npy file would have several columns, not all of numbers.
    OSError
        If the file cannot be written.
    ImportError
        If pyarrow is needed and not installed.
    """
    ending = _ending(path)
    if path == STANDARD_STREAM:
        _write_text(columns, sys.stdout, ",")
    elif ending == "npy":
        np.save(path, _array_of(columns))
    elif ending in ("parquet", "arrow", "feather"):
        _write_arrow(columns, path, ending)
    else:
        opened: Any = gzip.open if ending.endswith(".gz") else open
        with opened(path, "wt", encoding="utf-8", newline="") as file:
            _write_text(columns, file, "\t" if ending.startswith("tsv") else ",")


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


def _write_text(columns: NamedColumns, file: IO[str], delimiter: str) -> None:
    rows = zip(*map(_values_of, columns.values()), strict=True)
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)


def _write_arrow(columns: NamedColumns, path: str, ending: str) -> None:
    pyarrow = require_pyarrow(f"to write {ending} files")
    table = pyarrow.table(
        {
            name: pyarrow.array(own.tolist()) if isinstance(own, np.ndarray) else own
            for name, own in columns.items()
        }
    )
    if ending == "parquet":
        from pyarrow import parquet

        parquet.write_table(table, path)
    else:
        from pyarrow import feather

        feather.write_feather(table, path)
