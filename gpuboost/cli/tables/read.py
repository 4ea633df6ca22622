"""Reading of tables: CSV, TSV, Parquet, Arrow, Feather and npy, also compressed by gzip.

The first bytes decide which format a file has, so that standard input can be of any format.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np

from gpuboost.cli.similar import separator_hint
from gpuboost.cli.tables.data import ArrayData, ArrowData, DataTable

TO_READ = "to read tables other than npy"
STREAM_FORMAT = "an Arrow stream"
STANDARD_STREAM = "-"  # standard input or output, in place of a path
_GZIP, _NPY = b"\x1f\x8b", b"\x93NUMPY"
_COPIED_BYTES = 2**20  # at a time
_FORMAT_OF_MAGIC = {b"PAR1": "Parquet", b"ARROW1": "Arrow", b"\xff\xff\xff\xff": STREAM_FORMAT}
_INDEX_OF_PANDAS = re.compile(r"__index_level_\d+__")


def read_data(path: str, strings: Iterable[str] = (), has_header: bool = True) -> DataTable:
    """Read a table.

    Parameters
    ----------
    path : str
        The file, or "-" for standard input.
    strings : iterable of str
        Names of columns of a text file that are strings, whatever they look like; the types of the
        others are inferred.
    has_header : bool
        Whether the first line of a text file has the names of the columns; else they are called
        "0", "1" and so on.

    Raises
    ------
    ValueError
        If the file cannot be read as the format that it begins like, or has no rows.
    OSError
        If there is no such file.
    ImportError
        If pyarrow is needed and not installed.
    """
    if os.path.isdir(path):
        raise ValueError(
            f"{path!r} is a folder, but this command reads one file; `gpuboost train` and "
            "`gpuboost predict` read folders of Parquet or Arrow files"
        )
    with _opened(path) as file:
        head = file.read(8)
        file.seek(0)
        if head.startswith(_NPY):
            found: DataTable = ArrayData(_array(path, file))
        else:
            found = ArrowData(_arrow(path, file, head, (tuple(strings), has_header)))
    if not found.n_rows:
        raise ValueError(f"{shown_path(path)} has no rows")
    return found


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    """The uncompressed bytes of a file or of standard input, which can be sought.

    Raises
    ------
    ValueError
        If compressed bytes are damaged.
    """
    try:
        if path == STANDARD_STREAM:
            data = sys.stdin.buffer.read()
            yield io.BytesIO(gzip.decompress(data) if data.startswith(_GZIP) else data)
            return
        with open(path, "rb") as file:
            is_compressed = file.read(2) == _GZIP
            file.seek(0)
            if not is_compressed:
                yield file
                return
            with gzip.open(file, "rb") as content, tempfile.TemporaryFile() as whole:
                # All of it, since an error in a thread of pyarrow would come from its reader.
                shutil.copyfileobj(content, whole, _COPIED_BYTES)
                whole.seek(0)
                yield whole
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"cannot read {shown_path(path)}: its gzip is damaged: {error}") from error


def _array(path: str, file: IO[bytes]) -> np.ndarray:
    """The array of an npy file."""
    try:
        return np.load(file, allow_pickle=False)
    except ValueError as error:
        raise ValueError(f"cannot read {shown_path(path)} as npy: {error}") from error


def _arrow(path: str, file: IO[bytes], head: bytes, text: tuple[tuple[str, ...], bool]) -> Any:
    """The table of pyarrow in a file that begins with ``head``."""
    pyarrow = require_pyarrow(TO_READ)
    kind = format_of(head)
    try:
        if kind is None:
            table = _read_text(path, file, *text)
        else:
            table = _read_binary(kind, pyarrow.BufferReader(file.read()))
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise ValueError(
            f"cannot read {shown_path(path)} as {kind or 'CSV or TSV'}: {error}"
        ) from error
    if kind is None:
        _check_is_text(path, table)
    names = without_indices(table.column_names)
    return with_usual_types(table.select(names) if len(names) < table.num_columns else table)


def format_of(head: bytes) -> str | None:
    """The format of pyarrow that the first bytes of a file are of; None for others."""
    return next((kind for magic, kind in _FORMAT_OF_MAGIC.items() if head.startswith(magic)), None)


def without_indices(names: Iterable[str]) -> list[str]:
    """The names of columns that are no index of pandas."""
    return [name for name in names if not _INDEX_OF_PANDAS.fullmatch(name)]


def _read_binary(kind: str, buffer: Any) -> Any:
    if kind == "Parquet":
        from pyarrow import parquet

        return parquet.read_table(buffer)
    if kind == STREAM_FORMAT:
        from pyarrow import ipc

        return ipc.open_stream(buffer).read_all()
    from pyarrow import feather

    return feather.read_table(buffer)


def _read_text(path: str, file: IO[bytes], strings: tuple[str, ...], has_header: bool) -> Any:
    import pyarrow
    from pyarrow import csv

    first = file.readline()
    file.seek(0)
    is_tab = re.search(r"\.(tsv|tab)(\.gz)?$", path) or (b"\t" in first and b"," not in first)
    options = {
        "read_options": csv.ReadOptions(autogenerate_column_names=not has_header),
        "parse_options": csv.ParseOptions(
            delimiter="\t" if is_tab else ",", newlines_in_values=True
        ),
        "convert_options": csv.ConvertOptions(
            strings_can_be_null=True, column_types={name: pyarrow.string() for name in strings}
        ),
    }
    try:
        table = csv.read_csv(file, **options)
    except pyarrow.ArrowInvalid as error:
        # The reason ends with the row, which may be of any bytes.
        reason = re.sub(r"(columns, got \d+):.*", r"\1", str(error), flags=re.DOTALL)
        hint = separator_hint(first.decode(errors="replace"))
        raise pyarrow.ArrowInvalid(reason + hint) from error
    if not has_header:
        table = table.rename_columns([str(column) for column in range(table.num_columns)])
    return table


def _check_is_text(path: str, table: Any) -> None:
    """Check that pyarrow has read no column of CSV as bytes, for want of an encoding."""
    from pyarrow import types

    for name, kind in zip(table.column_names, table.schema.types, strict=True):
        if types.is_binary(kind):
            raise ValueError(
                f"cannot read {shown_path(path)} as CSV or TSV: column {name!r} is not in UTF-8; "
                "convert the file to UTF-8"
            )


def with_usual_types(table: Any) -> Any:
    """The table with numbers in columns without any value, and strings whose rows can be taken."""
    for place, kind in enumerate(table.schema.types):
        usual = {"null": "float64", "string_view": "large_string"}.get(str(kind))
        if usual is not None:
            name = table.column_names[place]
            table = table.set_column(place, name, table.column(place).cast(usual))
    return table


def require_pyarrow(purpose: str) -> Any:
    """The module pyarrow.

    Raises
    ------
    ImportError
        If it is not installed; the message names the extra.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(f"pyarrow is needed {purpose}: pip install gpuboost[tables]") from error
    return pyarrow


def shown_path(path: str) -> str:
    """A path as messages show it."""
    return "standard input" if path == STANDARD_STREAM else repr(path)
