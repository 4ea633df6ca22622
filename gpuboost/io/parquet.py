"""Parquet files that are written table by table."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

from gpuboost.io.container import check_writable, replaced_file


def write_parquet(path: str | os.PathLike[str], tables: Iterable[Any]) -> None:
    """Write tables of pyarrow to a file, each in a row group of its own or in several.

    The path is replaced when the file is complete.

    Raises
    ------
    ImportError
        pyarrow is not installed.
    OSError
        The file cannot be written.
    """
    try:
        from pyarrow.parquet import ParquetWriter
    except ImportError as error:
        raise ImportError(
            "pyarrow is needed to write Parquet files; pip install gpuboost[tables]"
        ) from error
    check_writable(path)
    writer = None
    with replaced_file(path) as file, ExitStack() as stack:
        for table in tables:
            writer = writer or stack.enter_context(ParquetWriter(file, table.schema))
            writer.write_table(table.cast(writer.schema))
            del table
