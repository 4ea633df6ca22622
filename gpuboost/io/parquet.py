"""Files of Parquet and Arrow that are written table by table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
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
    with replaced_file(path) as file:
        write_tables(tables, partial(ParquetWriter, file))


def write_tables(tables: Iterable[Any], open_writer: Callable[[Any], Any]) -> None:
    """Write tables with the schema of the first one, from which ``open_writer`` makes the writer.

    No table is kept until the next one is made.
    """
    writer, schema = None, None
    with ExitStack() as stack:
        for table in tables:
            if writer is None:
                schema = table.schema
                writer = stack.enter_context(open_writer(schema))
            writer.write_table(table.cast(schema))
            del table
