"""Predictions and SHAP values of sources, equal to those of the whole table."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import gpuboost as gb
from gpuboost.blocks import row_batches
from gpuboost.blocks.row_batches import RowBatches, is_source
from gpuboost.blocks.sources import SourceChangedError, StreamSource, open_source
from gpuboost.explain import mean_absolute_shap, shap_batches, top_shap, write_shap_values
from tests.blocks.test_block_growth import make_table
from tests.blocks.test_sources import SOURCES

N_ROWS = 500


def table_with_gaps() -> tuple[pa.Table, np.ndarray]:
    """A table whose numbers, categories and bools have missing values, and a target."""
    table, y = make_table(N_ROWS)
    city = table["city"].to_pylist()
    city[::7] = [None] * len(city[::7])
    table = table.set_column(table.schema.get_field_index("city"), "city", [city])
    return table.append_column("flag", [[None, True, False, True, False] * (N_ROWS // 5)]), y


TABLE, Y = table_with_gaps()
IDS = TABLE.append_column("id", [np.arange(N_ROWS)])
CLASSES = np.array(["low", "mid", "high"])[np.digitize(Y, [1.5, 3.0])]
FEW: Any = {"n_estimators": 4, "device": "numpy", "random_state": 0}
CASES: dict[str, tuple[Any, Any]] = {
    "boosting of classes": (gb.GradientBoostingClassifier(**FEW), CLASSES),
    "two classes": (gb.GradientBoostingClassifier(**FEW), CLASSES == "low"),
    "boosting": (gb.GradientBoostingRegressor(**FEW), Y),
    "forest of classes": (gb.RandomForestClassifier(**FEW), CLASSES),
    "forest of two outputs": (gb.RandomForestRegressor(**FEW), np.stack([Y, -Y], axis=1)),
    "AdaBoost": (gb.AdaBoostRegressor(**FEW), Y),
}
METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "apply")


@cache
def fitted(name: str) -> Any:
    """A model of the table."""
    model, y = CASES[name]
    return model.fit(TABLE, y)


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_batches, "BATCH_ROWS", 60)


def joined(batches: Any) -> np.ndarray:
    """The values of batches, whose slices are checked."""
    found, start = [], 0
    for rows, values in batches:
        assert rows == slice(start, start + len(values)) and len(values) <= row_batches.BATCH_ROWS
        found, start = [*found, values], rows.stop
    assert len(found) > 1
    return np.concatenate(found)


# ---- rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("size", [7, 100])
def test_rows(name: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows come in their order, with the wanted columns only."""
    monkeypatch.setattr(row_batches, "BATCH_ROWS", size)
    rows = RowBatches(SOURCES[name](IDS, tmp_path))
    assert rows.has_names and rows.names == IDS.column_names
    assert rows.n_rows in (None, N_ROWS)
    batches = list(rows.read(["id", "city"]))
    assert max(map(len, batches)) <= size and min(map(len, batches)) > 0
    found = pl.concat([pl.from_arrow(batch) for batch in batches])
    assert found.to_dict(as_series=False) == IDS.select(["id", "city"]).to_pydict()


def test_batches_have_a_number_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_batches, "BATCH_BYTES", 400)
    pq.write_table(IDS, tmp_path / "t.parquet")
    for source in (tmp_path / "t.parquet", IDS):
        sizes = [len(own) for own in RowBatches(source).read(["id", "few"])]
        assert sizes == [25] * 20
    long = pa.table({"text": ["x" * 100] * 40})
    assert max(len(own) for own in RowBatches(long).read(["text"])) == 4


def test_a_row_group_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_batches, "BATCH_ROWS", 10_000)
    columns = {str(i): np.random.default_rng(i).random(400_000) for i in range(5)}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=400_000)
    before, peak = pa.total_allocated_bytes(), 0
    for batch in RowBatches(tmp_path / "t.parquet").read(list(columns)):
        peak = max(peak, pa.total_allocated_bytes() - before)
        del batch
    assert 10_000 * 5 * 8 <= peak < 12e6  # of 16 MB


def test_columns_in_the_names_of_folders(tmp_path: Path) -> None:
    for year in (2020, 2021):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"a": [1.0 * year, 2.0]}), tmp_path / f"year={year}" / "t.parquet")
    rows = RowBatches(tmp_path)
    assert rows.names == ["a", "year"]
    found = pa.concat_tables(rows.read(["year", "a"]))
    assert found.to_pydict() == {"year": [2020, 2020, 2021, 2021], "a": [2020.0, 2, 2021, 2]}
    assert pa.concat_tables(RowBatches(tmp_path).read(["year"]))["year"].to_pylist() == [
        *(2020, 2020),
        *(2021, 2021),
    ]


def test_a_filtered_dataset() -> None:
    rows = RowBatches(ds.dataset(IDS).filter(ds.field("id") >= 490))
    assert pa.concat_tables(rows.read(["id"]))["id"].to_pylist() == list(range(490, 500))


def test_one_batch_is_kept() -> None:
    """A stream is read lazily, and a batch is released before the next one is made."""
    alive, made = set[int](), 0

    class Batch(np.ndarray):
        pass

    def batches() -> Iterator[Any]:
        nonlocal made
        for number in range(8):
            batch = TABLE.select(["number 0", "few"]).slice(50 * number, 50)
            array = np.array(batch.to_pandas()).view(Batch)
            weakref.finalize(array, alive.discard, number)
            alive.add(number)
            made += 1
            assert alive == {number}
            yield array
            del array

    X = np.array(TABLE.select(["number 0", "few"]).to_pandas())
    model = gb.DecisionTreeRegressor(device="numpy").fit(X, Y)
    found = gb.predict_batches(model, batches())
    assert made == 1  # the first one has the names of the columns
    next(found)
    assert made == 1
    next(found)
    assert made == 2 and len(list(found)) == 6
    made = 0
    assert len(list(shap_batches(model, batches))) == 8


def test_empty_batches_are_skipped() -> None:
    parts = [IDS[:0], IDS[:9], IDS[9:9], IDS[9:]]
    model = fitted("boosting")
    assert np.array_equal(joined(gb.predict_batches(model, parts)), model.predict(TABLE))


@pytest.mark.parametrize("source", [[], [TABLE[:0]], lambda: iter([])])
def test_no_rows(source: Any) -> None:
    with pytest.raises(ValueError, match="this source has no rows"):
        list(gb.predict_batches(fitted("boosting"), source))


def test_no_rows_in_files(tmp_path: Path) -> None:
    pq.write_table(TABLE[:0], tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="this source has no rows"):
        list(gb.predict_batches(fitted("boosting"), tmp_path))


def test_tables_with_other_columns() -> None:
    found = gb.predict_batches(fitted("boosting"), [TABLE, TABLE.drop_columns("few")])
    with pytest.raises(ValueError, match=r"batch 1 has other columns .* missing \['few'\]"):
        list(found)
    strings = TABLE.set_column(3, "few", [["x"] * N_ROWS])
    with pytest.raises(ValueError, match="column 'few' of batch 1 has type string, but int64"):
        list(gb.predict_batches(fitted("boosting"), [TABLE, strings]))
    with pytest.raises(TypeError, match="batch 1 must be a data frame"):
        list(gb.predict_batches(fitted("boosting"), [TABLE, "table"]))


def test_repeated_names(tmp_path: Path) -> None:
    table = TABLE.append_column("few", TABLE["few"])
    with pytest.raises(ValueError, match=r"(?s)unique column names.*'few' 2 times"):
        list(gb.predict_batches(fitted("boosting"), [table]))
    pq.write_table(table, tmp_path / "1.parquet")
    with pytest.raises(ValueError, match="duplicate field names"):
        gb.predict_batches(fitted("boosting"), tmp_path)


def test_files_that_change(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "1.parquet")
    found = gb.predict_batches(fitted("boosting"), tmp_path)
    next(found)
    pq.write_table(TABLE[:9], tmp_path / "1.parquet")
    with pytest.raises(SourceChangedError, match="changed while they were read"):
        list(found)


def test_what_is_a_source(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "1.parquet")
    frame, X = TABLE.to_pandas(), np.zeros((3, 2))
    sources = ["a.parquet", tmp_path, [tmp_path], ["a"], ds.dataset(TABLE), TABLE.to_reader()]
    sources += [pl.LazyFrame({"a": [1]}), iter([X]), lambda: X, [TABLE], [frame, frame], (X, X)]
    assert all(map(is_source, sources))
    tables = [TABLE, frame, pl.from_arrow(TABLE), X, X.tolist(), (1, 2), [], gb.Dataset(TABLE)]
    assert not any(map(is_source, [*tables, TABLE.to_batches()[0], [X[0], X[1]], None]))


def test_a_column_source_is_a_source() -> None:
    columns = open_source([TABLE])
    assert isinstance(columns, StreamSource) and open_source(columns) is columns


# ---- predictions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOURCES)
def test_predictions_of_every_source(name: str, tmp_path: Path) -> None:
    """Columns that the model does not know are ignored."""
    source = SOURCES[name](IDS, tmp_path)
    model = fitted("boosting of classes")
    found = joined(gb.predict_batches(model, source, method="predict_proba"))
    assert np.array_equal(found, model.predict_proba(TABLE))


@pytest.mark.parametrize("size", [1, 60, 499])
@pytest.mark.parametrize("name", CASES)
def test_predictions_of_every_model(name: str, size: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(row_batches, "BATCH_ROWS", size)
    model = fitted(name)
    for method in METHODS:
        if hasattr(model, method):
            found = joined(gb.predict_batches(model, IDS, method=method))
            whole = getattr(model, method)(TABLE)
            assert found.dtype == whole.dtype and np.array_equal(found, whole)


def test_duckdb() -> None:
    duckdb = pytest.importorskip("duckdb")
    relation, model = duckdb.from_arrow(IDS), fitted("boosting")
    assert is_source(relation)
    assert np.array_equal(joined(gb.predict_batches(model, relation)), model.predict(TABLE))


def test_categories_of_pandas() -> None:
    """Batches have different categories; integers stay categories."""
    frame = pd.DataFrame({"a": np.arange(300) % 7, "b": np.arange(300.0) % 11})
    frame["a"] = frame["a"].astype("category")
    model = gb.DecisionTreeRegressor(device="numpy").fit(frame, np.sin(np.arange(300.0)))
    parts = [frame[:3].copy(), frame[3:].copy()]
    parts[0]["a"] = parts[0]["a"].cat.remove_unused_categories()
    assert np.array_equal(joined(gb.predict_batches(model, parts)), model.predict(frame))
    numbers = frame.assign(a=np.arange(300.0))
    model = gb.DecisionTreeRegressor(device="numpy").fit(numbers, np.arange(300.0))
    with pytest.raises(ValueError, match="had numbers in fit, but now has categories"):
        list(gb.predict_batches(model, parts))


@pytest.mark.parametrize("as_frame", [False, True])
def test_arrays(as_frame: bool) -> None:
    """Columns of arrays have no names; those of some frames have none that are strings."""
    X = np.random.default_rng(1).standard_normal((200, 3)).astype(np.float32)
    X[::9, 1] = np.nan
    made: Any = pd.DataFrame if as_frame else np.asarray
    model = gb.RandomForestRegressor(**FEW).fit(X, X[:, 0])
    parts = [made(X[:90]), made(X[90:])]
    assert np.array_equal(joined(gb.predict_batches(model, parts)), model.predict(X))
    found = np.concatenate([values for _, values in shap_batches(model, parts)])
    assert np.array_equal(found, model.shap_values(X))


def test_models_without_names_take_all_columns() -> None:
    X = np.array(TABLE.select(["number 0", "few"]).to_pandas())
    model = gb.DecisionTreeRegressor(device="numpy").fit(X, Y)
    with pytest.warns(UserWarning, match="X has feature names"):
        found = joined(gb.predict_batches(model, TABLE.select(["number 0", "few"])))
    assert np.array_equal(found, model.predict(X))


def test_wrong_predictions(tmp_path: Path) -> None:
    model, path = fitted("boosting"), tmp_path / "p.parquet"
    with pytest.raises(ValueError, match=r"method='score' was given, .* predict, apply; choose"):
        gb.predict_batches(model, TABLE, method="score")
    with pytest.raises(ValueError, match="method='predict_proba' was given, but GradientBoostingR"):
        gb.predict_batches(model, TABLE, method="predict_proba")
    with pytest.raises(ValueError, match="lacks 2 of the model's 6 columns: 'few', 'city'; add"):
        gb.predict_batches(model, TABLE.drop_columns(["few", "city"]))
    with pytest.raises(ValueError, match=r"keep='key' is not a column; the source has \['"):
        gb.write_predictions(model, IDS, path, keep=["key"])
    with pytest.raises(ValueError, match="keep='0' is not a column; the source has no names"):
        gb.write_predictions(model, [np.zeros((2, 6))], path, keep="0")
    with pytest.raises(TypeError, match="a source of tables must be a path"):
        gb.predict_batches(model, 3.5)
    with pytest.raises(ValueError, match="not fitted"):
        gb.predict_batches(gb.DecisionTreeRegressor(), TABLE)


# ---- files of predictions ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "method", "columns"),
    [
        ("boosting", "predict", ["prediction"]),
        ("boosting of classes", "predict", ["prediction"]),
        ("boosting of classes", "predict_proba", ["probability_high", "probability_low"]),
        ("forest of classes", "predict_log_proba", ["log_probability_high"]),
        ("boosting of classes", "decision_function", ["raw_high", "raw_low", "raw_mid"]),
        ("two classes", "decision_function", ["raw"]),
        ("two classes", "predict_proba", ["probability_False", "probability_True"]),
        ("forest of two outputs", "predict", ["prediction_0", "prediction_1"]),
        ("forest of classes", "apply", ["leaf_0", "leaf_1", "leaf_2", "leaf_3"]),
        ("boosting of classes", "apply", ["leaf_0_0", "leaf_0_1", "leaf_0_2", "leaf_1_0"]),
    ],
)
def test_files(name: str, method: str, columns: list[str], tmp_path: Path) -> None:
    model, path = fitted(name), tmp_path / "p.parquet"
    gb.write_predictions(model, IDS, path, method=method, keep=["id", "city"])
    found = pq.read_table(path)
    n = 2 + len(columns)
    assert found.column_names[:n] == ["id", "city", *columns]
    assert found.select(["id", "city"]).equals(IDS.select(["id", "city"]))
    whole = getattr(model, method)(TABLE).reshape(N_ROWS, -1)
    assert len(found.column_names) == 2 + whole.shape[1]
    assert np.array_equal(np.stack([own.to_numpy() for own in found.columns[2:]], 1), whole)
    assert pq.ParquetFile(path).num_row_groups == -(-N_ROWS // 60)


def test_a_file_of_several_outputs_of_classes(tmp_path: Path) -> None:
    y = np.stack([CLASSES == "low", CLASSES == "mid"], axis=1)
    model = gb.RandomForestClassifier(**FEW).fit(TABLE, y)
    batches = list(gb.predict_batches(model, TABLE, method="predict_proba"))
    whole = model.predict_proba(TABLE)
    for k in range(2):
        assert np.array_equal(np.concatenate([values[k] for _, values in batches]), whole[k])
    gb.write_predictions(model, TABLE, tmp_path / "p.parquet", method="predict_proba")
    found = pq.read_table(tmp_path / "p.parquet")
    names = [f"probability_{k}_{label}" for k in range(2) for label in (False, True)]
    assert found.column_names == names
    assert np.array_equal(found["probability_1_True"].to_numpy(), whole[1][:, 1])


def test_kept_strings_of_several_types(tmp_path: Path) -> None:
    """Strings of files may have 32-bit or 64-bit offsets."""
    pq.write_table(IDS[:200], tmp_path / "1.parquet")
    place = IDS.schema.get_field_index("city")
    large = IDS.set_column(place, "city", IDS["city"].cast("large_string"))
    pq.write_table(large[200:], tmp_path / "2.parquet")
    gb.write_predictions(fitted("boosting"), tmp_path, tmp_path / "p", keep=["city"])
    assert pq.read_table(tmp_path / "p")["city"].to_pylist() == IDS["city"].to_pylist()


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    path.write_bytes(b"before")
    with pytest.raises(ValueError, match="batch 1 has other columns"):
        gb.write_predictions(fitted("boosting"), [TABLE, TABLE[:5].drop_columns("few")], path)
    with pytest.raises(ValueError, match="keep='prediction': the predictions have this name"):
        table = TABLE.append_column("prediction", [Y])
        gb.write_predictions(fitted("boosting"), table, path, keep=["prediction"])
    assert list(tmp_path.iterdir()) == [path] and path.read_bytes() == b"before"


# ---- SHAP values ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["boosting", "boosting of classes", "forest of classes"])
@pytest.mark.parametrize("background", [None, TABLE[:4]])
def test_shap_values(name: str, background: Any, tmp_path: Path) -> None:
    model, source = fitted(name), tmp_path / "t.parquet"
    pq.write_table(IDS, source, row_group_size=200)
    words = {"background": background}
    found = joined(shap_batches(model, source, **words))
    assert np.array_equal(found, model.shap_values(TABLE, **words))
    whole = mean_absolute_shap(model, TABLE, **words)
    assert np.array_equal(mean_absolute_shap(model, source, **words), whole)
    tops = [top_shap(model, X, 2, **words) for X in (source, TABLE)]
    assert all(map(np.array_equal, *tops))
    for X, path in ((source, tmp_path / "1"), (TABLE, tmp_path / "2")):
        write_shap_values(model, X, path, **words)
    one, other = pq.read_table(tmp_path / "1"), pq.read_table(tmp_path / "2")
    assert one.equals(other, check_metadata=True)
    assert pq.ParquetFile(tmp_path / "1").num_row_groups == 9  # of 60 rows


def test_interactions() -> None:
    model = fitted("boosting")
    found = joined(shap_batches(model, [TABLE[:70], TABLE[70:]], interactions=True))
    assert np.array_equal(found, model.shap_interaction_values(TABLE))


def test_wrong_sources_of_shap_values(tmp_path: Path) -> None:
    model = fitted("boosting")
    with pytest.raises(ValueError, match="lacks 1 of the model's 6 columns: 'few'"):
        shap_batches(model, [TABLE.drop_columns("few")])
    with pytest.raises(FileNotFoundError, match="no Parquet or Arrow file found"):
        mean_absolute_shap(model, tmp_path / "absent.parquet")
    with pytest.raises(ValueError, match="this source has no rows"):
        top_shap(model, iter([TABLE[:0]]), 1)
