"""Writing of predictions: CSV, TSV, Parquet, Arrow, Feather and npy."""

from __future__ import annotations

import csv
import gzip
import re
import sys
from typing import IO, Any

import numpy as np

from gpuboost.cli.tables.read import STANDARD_STREAM, require_pyarrow
from gpuboost.io.container import check_writable

NamedColumns = dict[str, np.ndarray]
_FORMATS = "csv, tsv, csv.gz, tsv.gz, parquet, arrow, feather or npy"


def check_output(path: str) -> None:
    """Check that the name of a file has the ending of a format that can be written.

    Raises
    ------
    ValueError
        If it has not.
    """
    if path != STANDARD_STREAM and not _ending(path):
        raise ValueError(f"the name of the output must end in {_FORMATS}, got {path!r}")


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


def write_columns(columns: NamedColumns, path: str) -> None:
    """Write columns of equal length to a file, or as CSV to standard output for "-".

    Raises
    ------
    OSError
        If the file cannot be written.
    ImportError
        If pyarrow is needed and not installed.
    """
    ending = _ending(path)
    if path == STANDARD_STREAM:
        _write_text(columns, sys.stdout, ",")
    elif ending == "npy":
        arrays = list(columns.values())
        np.save(path, arrays[0] if len(arrays) == 1 else np.column_stack(arrays))
    elif ending in ("parquet", "arrow", "feather"):
        _write_arrow(columns, path, ending)
    else:
        opened: Any = gzip.open if ending.endswith(".gz") else open
        with opened(path, "wt", encoding="utf-8", newline="") as file:
            _write_text(columns, file, "\t" if ending.startswith("tsv") else ",")


def _ending(path: str) -> str:
    found = re.search(r"\.((?:csv|tsv)(?:\.gz)?|parquet|arrow|feather|npy)$", path)
    return found[1] if found else ""


def _write_text(columns: NamedColumns, file: IO[str], delimiter: str) -> None:
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)


def _write_arrow(columns: NamedColumns, path: str, ending: str) -> None:
    pyarrow = require_pyarrow(f"to write {ending} files")
    table = pyarrow.table({name: pyarrow.array(own.tolist()) for name, own in columns.items()})
    if ending == "parquet":
        from pyarrow import parquet

        parquet.write_table(table, path)
    else:
        from pyarrow import feather

        feather.write_feather(table, path)
