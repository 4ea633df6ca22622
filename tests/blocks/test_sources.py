"""Datasets of files, frames and streams, equal to a Dataset of the whole table."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import gpuboost as gb
from gpuboost import Dataset
from gpuboost.blocks import sources
from gpuboost.blocks.sources import SourceChangedError, open_source
from gpuboost.blocks.spill import SpillError
from tests.blocks.test_block_growth import make_table


def parquet_folder(table: pa.Table, folder: Path) -> Path:
    """A folder of two files, one of them in a subfolder, and of another file."""
    (folder / "b").mkdir()
    pq.write_table(table.slice(0, 200), folder / "a.parquet", row_group_size=64)
    pq.write_table(table.slice(200), folder / "b" / "c.parquet")
    (folder / "readme.txt").write_text("no table")
    return folder


def arrow_file(table: pa.Table, folder: Path) -> str:
    with pa.ipc.new_file(folder / "t.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=100)
    return str(folder / "t.arrow")


def paths(table: pa.Table, folder: Path) -> list[Path]:
    parquet_folder(table, folder)
    return [folder / "a.parquet", folder / "b" / "c.parquet"]


def shuffled(table: pa.Table) -> pd.DataFrame:
    """A frame whose index is not a range."""
    frame = table.to_pandas()
    frame.index = pd.Index(np.random.default_rng(0).permutation(len(frame)), name="key")
    return frame


SOURCES: dict[str, Callable[[pa.Table, Path], Any]] = {
    "folder": parquet_folder,
    "pattern": lambda table, folder: f"{parquet_folder(table, folder)}/**/*.parquet",
    "paths": paths,
    "Arrow file": arrow_file,
    "dataset of pyarrow": lambda table, folder: ds.dataset(paths(table, folder)),
    "table of pyarrow": lambda table, folder: table,
    "reader": lambda table, folder: table.to_reader(max_chunksize=50),
    "polars": lambda table, folder: pl.from_arrow(table),
    "function that returns a table": lambda table, folder: lambda: table,
    "function that returns a frame": lambda table, folder: lambda: pl.from_arrow(table),
    "lazy frame": lambda table, folder: pl.scan_parquet(paths(table, folder)),
    "frames of pandas": lambda table, folder: [table[:77].to_pandas(), table[77:].to_pandas()],
    "shuffled frame of pandas": lambda table, folder: shuffled(table),
    "shuffled frames of pandas": lambda table, folder: [shuffled(table)[:9], shuffled(table)[9:]],
    "dataset in memory": lambda table, folder: ds.dataset(table),
    "small batches": lambda table, folder: table.to_batches(max_chunksize=3),
    "function": lambda table, folder: lambda: iter([pl.from_arrow(table[:9]), table[9:]]),
    "generator": lambda table, folder: (batch for batch in table.to_batches(max_chunksize=111)),
}


@pytest.mark.parametrize("name", SOURCES)
def test_sources(name: str, tmp_path: Path) -> None:
    table, y = make_table()
    table = table.append_column("target", [y])
    whole = Dataset(table.drop_columns("target"))
    found = Dataset.from_batches(SOURCES[name](table, tmp_path), label="target")
    assert np.array_equal(found.y, y)
    assert found.feature_names_in_.tolist() == whole.feature_names_in_.tolist()
    assert found.schema.codes == whole.schema.codes
    assert np.array_equal(found.binned.codes, whole.binned.codes)


def test_duckdb() -> None:
    duckdb = pytest.importorskip("duckdb")
    given, _ = make_table()
    relation = duckdb.from_arrow(given)
    found, whole = Dataset.from_batches(relation), Dataset(given)
    assert np.array_equal(found.binned.codes, whole.binned.codes)


def test_arrays() -> None:
    """Columns of arrays have no names."""
    X = np.random.default_rng(1).standard_normal((90, 3)).astype(np.float32)
    found = Dataset.from_batches([X[:40], X[40:]], categorical_features=None)
    assert not hasattr(found, "feature_names_in_")
    assert np.array_equal(found.binned.codes, Dataset(X).binned.codes)


@pytest.mark.parametrize("choice", [["few"], [3], [False, False, False, True, True], None])
def test_categorical_features(choice: Any) -> None:
    table, _ = make_table()
    table = table.drop_columns("city") if choice != [False, False, False, True, True] else table
    found = Dataset.from_batches([table[:100], table[100:]], categorical_features=choice)
    whole = Dataset(table, categorical_features=choice)
    assert found.schema.codes == whole.schema.codes
    assert np.array_equal(found.binned.codes, whole.binned.codes)


def test_categories_of_pandas() -> None:
    """Integer categories stay categories, though batches have different ones."""
    frame = pd.DataFrame({"a": np.arange(30) % 7, "b": np.arange(30.0)})
    frame["a"] = frame["a"].astype("category")
    parts = [frame[:10].copy(), frame[10:].copy()]
    parts[0]["a"] = parts[0]["a"].cat.remove_unused_categories()
    found, whole = Dataset.from_batches(parts), Dataset(frame)
    assert found.schema.codes == whole.schema.codes
    assert np.array_equal(found.binned.codes, whole.binned.codes)


A = pa.table({"a": [1.0, 2.0], "b": [1, 2]})


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        (3.5, TypeError, "a source of tables must be a path, .* got float"),
        ([A, [1, 2]], TypeError, "batch 1 must be a data frame, .* got list"),
        ([], ValueError, "no rows"),
        ([A.slice(0, 0)], ValueError, "no rows"),
        ([A, A.drop_columns("b")], ValueError, r"batch 1 has other columns .* missing \['b'\]"),
        ([A, A.set_column(1, "b", [["x", "y"]])], ValueError, "column 'b' of batch 1 has type"),
        ("/no/such/file.parquet", FileNotFoundError, "no Parquet or Arrow file found at"),
    ],
)
def test_wrong_sources(source: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        Dataset.from_batches(source)


def test_files_with_other_columns(tmp_path: Path) -> None:
    pq.write_table(A, tmp_path / "1.parquet")
    pq.write_table(A.drop_columns("b"), tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=r"2.parquet has other columns .* missing \['b'\]"):
        Dataset.from_batches(tmp_path)


def test_files_of_other_types(tmp_path: Path) -> None:
    pq.write_table(A, tmp_path / "1.parquet")
    (tmp_path / "2.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"files must all end in .* got"):
        Dataset.from_batches([tmp_path / "1.parquet", tmp_path / "2.csv"])


def test_a_file_that_changes_is_an_error(tmp_path: Path) -> None:
    pq.write_table(A, tmp_path / "1.parquet")
    columns = open_source(tmp_path / "1.parquet")
    assert columns.read(["a"]).num_rows == 2
    pq.write_table(pa.concat_tables([A, A]), tmp_path / "1.parquet")
    os.utime(tmp_path / "1.parquet", (1, 1))
    with pytest.raises(SourceChangedError, match="changed while they were read"):
        columns.read(["b"])


def test_unknown_label() -> None:
    with pytest.raises(ValueError, match=r"label='c' is not a column; the source has \['a'"):
        Dataset.from_batches([A], label="c")


def test_columns_in_the_names_of_folders(tmp_path: Path) -> None:
    table = pa.table({"a": np.arange(6.0), "year": [1, 1, 2, 2, 2, 3]})
    ds.write_dataset(table, tmp_path, format="parquet", partitioning=["year"])
    for path in tmp_path.iterdir():
        path.rename(tmp_path / f"year={path.name}")
    found = Dataset.from_batches(tmp_path, label="a")
    assert found.feature_names_in_.tolist() == ["year"]
    assert found.y.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_filtered_dataset() -> None:
    found = Dataset.from_batches(ds.dataset(A).filter(ds.field("a") > 1.5))
    assert found.shape == (1, 2)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ([7], r"must be in \[0, n_features - 1\]"),
        ([-1], r"must be in \[0, n_features - 1\]"),
        ([True] * 5, r"must have shape \(n_features,\)"),
        (["c"], "not a valid feature name"),
        ("c", "must be 'from_dtype', None"),
    ],
)
def test_wrong_categorical_features(choice: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Dataset.from_batches([A], categorical_features=choice)
    with pytest.raises(ValueError, match=message):
        Dataset(A, categorical_features=choice)


def test_reference_of_arrays() -> None:
    X = np.random.default_rng(1).standard_normal((50, 3))
    X[:, 1] = np.nan
    train = Dataset.from_batches([X], label="2")
    test = Dataset.from_batches([X[:9], X[9:]], label="2", reference=train)
    assert np.array_equal(test.binned.codes, train.binned.codes)
    assert np.array_equal(test.y, X[:, 2])
    assert train.schema.codes == Dataset(X[:, :2]).schema.codes


def test_no_rows_and_no_features(tmp_path: Path) -> None:
    pq.write_table(A.slice(0, 0), tmp_path / "1.parquet")
    with pytest.raises(ValueError, match="this source has 0 rows and 2 features"):
        Dataset.from_batches(tmp_path)
    with pytest.raises(ValueError, match="2 rows and 0 features besides label and weight"):
        Dataset.from_batches([A], label="a", weight="b")


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    pq.write_table(A, tmp_path / "1.parquet")
    columns = open_source(tmp_path / "1.parquet")
    (tmp_path / "1.parquet").unlink()
    with pytest.raises(SourceChangedError, match="changed while they were read"):
        columns.read(["a"])


def test_hidden_and_unfinished_files_of_a_folder_are_left_out(tmp_path: Path) -> None:
    """As pyarrow and Spark name them; folders may be called like files."""
    for folder in ("part.parquet", ".hidden", "_temporary"):
        (tmp_path / folder).mkdir()
        pq.write_table(
            pa.table({"x": [1.0, 2.0], "y": [0.0, 1.0]}), tmp_path / folder / "0.parquet"
        )
    for source in (tmp_path, f"{tmp_path}/*.parquet"):
        assert Dataset.from_batches(source, label="y").n_samples == 2
    with pytest.raises(FileNotFoundError, match="whose names end in"):
        Dataset.from_batches(tmp_path / "part.parquet" / ".none")


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_categories_of_many_files(ending: str, tmp_path: Path) -> None:
    """Each file of pandas has indices of one byte, which do not hold the categories of all."""
    frames = [
        pd.DataFrame(
            {"x": pd.Categorical([f"{part}-{i}" for i in range(60)]), "y": np.arange(60.0)}
        )
        for part in range(4)
    ]
    for part, frame in enumerate(frames):
        getattr(frame, f"to_{ending}")(tmp_path / f"{part}.{ending}")
    found = Dataset.from_batches(tmp_path, label="y")
    whole = Dataset(pd.concat(frames).astype({"x": "category"})[["x"]])
    assert found.schema.codes == whole.schema.codes
    assert np.array_equal(found.binned.codes, whole.binned.codes)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    for part in range(3):
        table = pa.table(
            {"x": np.random.default_rng(part).standard_normal(5000), "y": np.ones(5000)}
        )
        pq.write_table(table, tmp_path / f"{part}.parquet", compression="none")
    content = bytearray((tmp_path / "1.parquet").read_bytes())
    content[4:2000] = b"\xff" * 1996
    (tmp_path / "1.parquet").write_bytes(content)
    with pytest.raises(OSError, match=r"(?s)cannot read .*1\.parquet: .*; write the file again"):
        Dataset.from_batches(tmp_path, label="y")
    model = gb.DecisionTreeRegressor(max_depth=1).fit(pa.table({"x": [0.0, 1.0]}), [0.0, 1.0])
    with pytest.raises(OSError, match=r"(?s)cannot read .*1\.parquet: .*; write the file again"):
        list(gb.predict_batches(model, tmp_path))


def test_too_little_memory_is_no_damaged_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"x": [1.0, 2.0], "y": [0.0, 1.0]}), tmp_path / "t.parquet")
    columns = open_source(tmp_path / "t.parquet")
    full = SimpleNamespace(to_table=lambda **given: raise_(pa.ArrowMemoryError("no memory")))
    monkeypatch.setattr(columns, "dataset", full)
    with pytest.raises(MemoryError, match="no memory"):
        columns.read(["x"])


def raise_(error: Exception) -> Any:
    raise error


def test_a_disk_that_is_full_of_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of a stream may not even take its header."""

    class Full:
        closed = False

        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self) -> None:
            pass

        def __getattr__(self, name: str) -> Any:
            return lambda *given: None

    monkeypatch.setattr(sources, "temporary_file", Full)
    with pytest.raises(SpillError, match="is full; free some space"):
        Dataset.from_batches([pa.table({"x": [1.0], "y": [2.0]})], label="y")


def test_arrays_of_another_byte_order() -> None:
    X = np.random.default_rng(0).standard_normal((50, 2))
    found = Dataset.from_batches([X.astype(">f8")])
    assert np.array_equal(found.binned.codes, Dataset(X).binned.codes)
    with pytest.raises(TypeError, match=r"got ndarray; give a table X as \[X\]"):
        Dataset.from_batches(X)
