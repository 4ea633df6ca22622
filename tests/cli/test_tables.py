"""Tables that commands read and write, and what their targets are."""

from __future__ import annotations

import builtins
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import csv, feather, ipc, parquet

from gpuboost.cli.models.prediction import feature_names_for
from gpuboost.cli.tables.data import ArrayData, ArrowData
from gpuboost.cli.tables.read import read_data
from gpuboost.cli.tables.targets import held_out_rows, target_of
from gpuboost.cli.tables.write import check_output, write_columns
from tests.cli.conftest import FEW, drop, make_table, set_input

NAMES = make_table(2).column_names


def write_stream(table: pyarrow.Table, path: str) -> None:
    with ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table)


def write_tsv(table: pyarrow.Table, path: str) -> None:
    csv.write_csv(table, path, csv.WriteOptions(delimiter="\t"))


WRITERS = {
    "t.csv": csv.write_csv,
    "t.tsv": write_tsv,
    "t.txt": write_tsv,
    "t.parquet": parquet.write_table,
    "t.arrow": feather.write_feather,
    "t.feather": feather.write_feather,
    "t.stream": write_stream,
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("how", ["file", "gzip", "input"])
def test_every_format_gives_the_same_table(
    name: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, path = make_table(30), tmp_path / name
    WRITERS[name](expected, str(path))
    if how == "gzip":
        path = tmp_path / f"{name}.gz"
        path.write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    elif how == "input":
        set_input(monkeypatch, path.read_bytes())
    found = read_data("-" if how == "input" else str(path))
    assert isinstance(found, ArrowData)
    assert found.table.to_pydict() == expected.to_pydict()


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_arrays_have_numbered_columns(suffix: str, tmp_path: Path) -> None:
    array = np.arange(12.0).reshape(4, 3)
    path = tmp_path / f"a.npy{suffix}"
    with (gzip.open if suffix else open)(path, "wb") as file:
        np.save(file, array)
    table = read_data(str(path))
    assert table.names == ["0", "1", "2"] and not table.has_names
    assert (table.values("2") == array[:, 2]).all()
    assert (table.features(["0", "1"]) == array[:, :2]).all()
    assert (table.take(np.array([2])).features(["1"]) == [[7.0]]).all()


def test_arrays_of_other_shapes_or_types_are_refused(tmp_path: Path) -> None:
    for number, array in enumerate((np.zeros(3), np.array([["a"]]), np.zeros((2, 2, 2)))):
        path = str(tmp_path / f"{number}.npy")
        np.save(path, array)
        with pytest.raises(ValueError, match="two-dimensional array of numbers"):
            read_data(path)
    path = str(tmp_path / "pickled.npy")
    np.save(path, np.array([[print]], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle"):
        read_data(path)


@pytest.mark.parametrize("rows", ["1;2;3\n", "1,5;2,5;3\n"])
def test_semicolons_are_named(rows: str, folder: Path, run: Any) -> None:
    (folder / "s.csv").write_text("a;b;y\n" + rows * 3, encoding="utf-8")
    status, _, err = run("train", "s.csv", "--target", "y", "--out", "m")
    assert status == 2 and "seems to be separated by ';', but must be by commas or tabs" in err
    run("train", "t.csv", "--target", "price", "--out", "m", *FEW)
    status, _, err = run("predict", "m", "s.csv")
    assert status == 2 and "seems to be separated by ';'" in err


def test_text_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("1,a\n2,b\n", encoding="utf-8")
    table = read_data(str(path), has_header=False)
    assert table.names == ["0", "1"] and table.n_rows == 2
    assert table.values("1").tolist() == ["a", "b"]


def test_strings_stay_strings_where_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("zip,x\n01,1\n02,2\n", encoding="utf-8")
    assert read_data(str(path)).values("zip").tolist() == [1, 2]
    assert read_data(str(path), ["zip", "absent"]).values("zip").tolist() == ["01", "02"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot read .*t.csv' as CSV or TSV"),
        (b"a,b\n", "has no rows"),
        (b"a,b\n1\n", "as CSV or TSV"),
        (b"a,a\n1,2\n", "several columns 'a'"),
        (b"PAR1 and no more", "as Parquet"),
        (b"ARROW1 and no more", "as Arrow"),
        (b"a\n\xff\xfe\n", "column 'a' is not in UTF-8; convert"),
        (b"b,a\n\xe9,1\n", "column 'b' is not in UTF-8; convert"),
        (b"\x93NUMPY and no more", "cannot read .*t.csv' as npy"),
    ],
)
def test_damaged_tables_are_errors(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_data(str(path)).values("a")


def _damaged_gzips() -> Iterator[Any]:
    text = b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * i % 97) for i in range(500))
    whole = gzip.compress(text, mtime=0)
    yield pytest.param(whole[: len(whole) // 2], id="half")
    yield pytest.param(whole[:12], id="head")
    yield pytest.param(whole[:10] + b"\xff" * 20 + whole[30:], id="deflate")
    yield pytest.param(whole[:-8] + bytes(4) + whole[-4:], id="sum")


@pytest.mark.parametrize("content", _damaged_gzips())
@pytest.mark.parametrize("path", ["t.csv.gz", "-"])
def test_damaged_gzip_is_an_error_of_one_line(
    path: str, content: bytes, folder: Path, run: Any, monkeypatch: Any
) -> None:
    (folder / "t.csv.gz").write_bytes(content)
    set_input(monkeypatch, content)
    status, out, err = run("train", path, "--target", "a", "--out", "m")
    assert (status, out) == (2, "") and len(err.splitlines()) == 1
    shown = "standard input" if path == "-" else "'t.csv.gz'"
    assert f"cannot read {shown}: its gzip is damaged" in err


def test_gzip_is_checked_before_pyarrow_reads(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(csv, "read_csv", lambda *_, **__: pytest.fail("pyarrow was called"))
    text = b"a,b\n" + b"1,2\n" * 100_000
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(text)[:-20])
    with pytest.raises(ValueError, match="its gzip is damaged"):
        read_data(str(path))


def test_columns_without_any_value_and_indices_of_pandas(tmp_path: Path) -> None:
    path = str(tmp_path / "t.parquet")
    parquet.write_table(pyarrow.table({"a": [None, None], "__index_level_0__": [0, 1]}), path)
    table = read_data(path)
    assert table.names == ["a"] and np.isnan(table.features(["a"])["a"].to_numpy()).all()


def test_pyarrow_is_needed_for_tables_but_not_for_arrays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    csv.write_csv(make_table(3), str(tmp_path / "t.csv"))
    np.save(tmp_path / "a.npy", np.zeros((2, 2)))
    real = builtins.__import__

    def imports(name: str, *rest: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", imports)
    assert read_data(str(tmp_path / "a.npy")).n_rows == 2
    with pytest.raises(ImportError, match=r"pip install gpuboost\[tables\]"):
        read_data(str(tmp_path / "t.csv"))
    write_columns([{"a": np.zeros(2)}], str(tmp_path / "a.csv"))
    with pytest.raises(ImportError, match=r"pip install gpuboost\[tables\]"):
        write_columns([{"a": np.zeros(2)}], str(tmp_path / "a.parquet"))


# ---- columns and targets -------------------------------------------------------------------------


def test_unknown_columns_have_similar_names() -> None:
    table = ArrowData(make_table(3))
    with pytest.raises(ValueError, match="no column 'incom'; did you mean 'income'"):
        table.values("incom")


def test_missing_values_and_other_types_are_no_target() -> None:
    table = ArrowData(
        pyarrow.table(
            {
                "a": [1, None],
                "b": [1.0, float("nan")],
                "c": pyarrow.array([0, 1], pyarrow.timestamp("s")),
                "d": pyarrow.array(["x", "x"]).dictionary_encode(),
            }
        )
    )
    for name in "ab":
        with pytest.raises(ValueError, match=f"column '{name}' has 1 missing value;"):
            table.values(name)
    with pytest.raises(ValueError, match=r"timestamp\[s\], but must have numbers, bools or str"):
        table.values("c")
    assert table.values("d").tolist() == ["x", "x"]


TEXT_TYPES = ["string", "large_string", "string_view", "dictionary"]


@pytest.mark.parametrize("kind", TEXT_TYPES)
@pytest.mark.parametrize("valid", ["v.csv", "0.25"])
def test_strings_of_every_layout(kind: str, valid: str, folder: Path, run_json: Any) -> None:
    if kind == "string_view" and int(pyarrow.__version__.split(".")[0]) < 18:
        pytest.skip("this pyarrow cannot cast to or from string_view")
    table = pyarrow.table({"c": ["1", "2"] * 40, "x": range(80), "y": ["1", "2"] * 40})
    csv.write_csv(table, "v.csv")
    for place, name in ((0, "c"), (2, "y")):
        column = table[name]
        other = column.dictionary_encode() if kind == "dictionary" else column.cast(kind)
        table = table.set_column(place, name, other)
    feather.write_feather(table, "t.arrow", compression="uncompressed")
    words = ("train", "t.arrow", "--target", "y", "--valid", valid, "--out", "m", *FEW)
    assert run_json(*words)["scores"]["valid"]["accuracy"] == 1.0
    assert run_json("evaluate", "m", "t.arrow", "--target", "y")["scores"]["accuracy"] == 1.0


def target_table(values: Any) -> ArrowData:
    return ArrowData(pyarrow.table({"y": values}))


@pytest.mark.parametrize(
    ("values", "task", "what"),
    [
        (["a", "b", "c"] * 5, "classification", "3 distinct strings"),
        (["a"] * 5, "classification", "1 distinct string:"),
        ([4] * 5, "classification", "1 distinct whole number:"),
        ([True, False] * 5, "classification", "2 distinct bools"),
        ([0, 1, 2] * 20, "classification", r"3 distinct whole numbers: classification \(--task"),
        ([0.0, 1.0] * 2, "classification", "2 distinct whole numbers"),
        (list(range(15)) * 2, "regression", "15 distinct whole numbers"),
        (list(range(30)) * 20, "regression", "30 distinct whole numbers"),
        ([0.5, 1.0] * 20, "regression", "numbers with fractions"),
    ],
)
def test_the_target_shows_the_task(values: Any, task: str, what: str) -> None:
    found = target_of(target_table(values), "y")
    assert found.task == task and found.is_classification == (task == "classification")
    with pytest.raises(AssertionError, match=what):
        raise AssertionError(found.reason)


def test_the_task_can_be_given() -> None:
    assert target_of(target_table([0, 1] * 9), "y", "regression").task == "regression"
    assert "as --task says" in target_of(target_table([0, 1] * 9), "y", "regression").reason
    assert target_of(target_table([0, 1] * 9), "y", "classification").task == "classification"
    with pytest.raises(ValueError, match="a regression needs numbers"):
        target_of(target_table(["a", "b"]), "y", "regression")


def test_rows_are_held_out_by_class() -> None:
    target = target_of(target_table(["a"] * 80 + ["b"] * 20 + ["c"]), "y")
    mask = held_out_rows(target, 0.25, seed=3)
    names, counts = np.unique(target.values[mask], return_counts=True)
    assert dict(zip(names, counts, strict=True)) == {"a": 20, "b": 5}
    assert (mask == held_out_rows(target, 0.25, seed=3)).all()
    assert (mask != held_out_rows(target, 0.25, seed=4)).any()
    values = target_of(target_table(np.linspace(0.1, 1.0, 10)), "y")
    assert held_out_rows(values, 0.3, seed=0).sum() == 3
    with pytest.raises(ValueError, match="of 10 rows holds out none"):
        held_out_rows(values, 0.01, seed=0)


def test_columns_of_a_model_are_found_by_name() -> None:
    class Named:
        feature_names_in_ = np.array(["b", "a"], dtype=object)
        n_features_in_ = 2

    class Unnamed:
        n_features_in_ = 2

    table = ArrowData(pyarrow.table({"a": [1], "y": [2], "b": [3]}))
    assert feature_names_for(Named(), table, ()) == ["b", "a"]
    assert feature_names_for(Unnamed(), table, ["y"]) == ["a", "b"]
    with pytest.raises(ValueError, match="2 features without names, but the table has 3 columns "):
        feature_names_for(Unnamed(), table, ())
    with pytest.raises(ValueError, match=r"lacks 1 of the model's 2 columns: 'b'; add them$"):
        feature_names_for(Named(), ArrowData(table.table.select(["a", "y"])), ())
    array = ArrayData(np.array([[1.0, 2.0, 3.0]]))
    with pytest.raises(ValueError, match="2 features, but the table has 3 columns without names"):
        feature_names_for(Named(), array, ())


def test_columns_of_an_array_are_in_the_order_of_the_features(folder: Path, run: Any) -> None:
    np.save("v.npy", np.array(make_table(9).drop_columns(["city", "y"]).to_pandas()))
    words = ("train", "t.csv", "--target", "price", *drop("city", "y"), "--out", "m", *FEW)
    assert run(*words)[0] == 0
    status, out, err = run("predict", "m", "v.npy", "--drop", "3")
    assert status == 0 and len(out.splitlines()) == 10
    assert (
        err == "note: the table has no names; its columns are taken in the order of the features\n"
    )


# ---- output ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["o.csv", "o.tsv", "o.csv.gz", "o.parquet", "o.arrow"])
def test_written_columns_can_be_read(name: str, tmp_path: Path) -> None:
    columns = {"a": np.array([0.1, 1 / 3]), "b": np.array(["x", "y"])}
    path = str(tmp_path / name)
    check_output(path)
    write_columns([columns], path)
    found = read_data(path)
    assert found.names == ["a", "b"] and found.values("b").tolist() == ["x", "y"]
    assert (found.values("a") == columns["a"]).all()


def test_an_output_in_no_folder_is_an_error_before_the_predictions(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        check_output(str(tmp_path / "absent" / "o.csv"))


def test_written_arrays_can_be_read(tmp_path: Path) -> None:
    path = str(tmp_path / "o.npy")
    write_columns([{"a": np.array([1.0])}, {"a": np.array([2.0])}], path)
    assert np.load(path).shape == (2,)
    write_columns([{"a": np.array([1.0, 2.0]), "b": np.array([3.0, 4.0])}], path)
    assert np.load(path).tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_other_endings_are_refused() -> None:
    check_output("-")
    with pytest.raises(ValueError, match="must end in csv, tsv"):
        check_output("predictions.xlsx")
