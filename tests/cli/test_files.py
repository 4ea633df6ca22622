"""Folders, patterns, and Parquet and Arrow files that are read in parts."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import csv, feather, ipc, parquet

import gpuboost
from gpuboost.blocks import row_batches
from gpuboost.cli.models import prediction
from gpuboost.cli.models.choice import ESTIMATORS
from gpuboost.cli.tables.read import read_data
from gpuboost.cli.tables.write import write_columns
from tests.cli.conftest import FEATURES, FEW, drop, make_table, set_input

LIMIT = ("--memory-limit", "1GB")
CLASSES = ("--target", "y", *drop("price", "count", "w"), "--out", "m", *FEW)
VALUES = ("--target", "price", *drop("y", "count"), "--weight", "w", "--out", "m", *FEW)


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_batches, "BATCH_ROWS", 30)


@pytest.fixture
def files(trained: Path) -> Path:
    """The folder with the rows of ``v.csv`` in other files, and those of ``t.csv`` in two."""
    write_files(make_table(100, seed=1), "v")
    train = make_table(400)
    Path("train/more").mkdir(parents=True)
    parquet.write_table(train[:150], "train/a.parquet")
    parquet.write_table(train[150:], "train/more/b.parquet")
    parquet.write_table(train, "t.parquet")
    return trained


def write_files(table: pyarrow.Table, name: str) -> None:
    parquet.write_table(table, f"{name}.parquet", row_group_size=70)
    parquet.write_table(table, f"{name}.data")  # the content says what it is
    feather.write_feather(table, f"{name}.arrow", chunksize=40)
    with ipc.new_stream(f"{name}.stream", table.schema) as stream:
        stream.write_table(table, max_chunksize=35)
    Path(f"{name}.parquet.gz").write_bytes(gzip.compress(Path(f"{name}.parquet").read_bytes()))
    Path(name).mkdir()
    parquet.write_table(table[:64], f"{name}/1.parquet")
    parquet.write_table(table[64:], f"{name}/2.pq")


# ---- predict -------------------------------------------------------------------------------------

TABLES = ["v.parquet", "v.data", "v.arrow", "v.stream", "v.parquet.gz", "v", "v/[12].p*"]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("words", [("c", "--proba"), ("c",), ("r", "--raw")], ids=str)
def test_predictions_are_those_of_the_whole_table(table: str, words: Any, files: Path, run: Any):
    model, *others = words
    keep = ("--keep", "city", "--keep", "age")
    own = ("v.csv", table)
    expected, found = (run("predict", model, name, *others, *keep) for name in own)
    assert expected == found and found[0] == 0 and len(found[1].splitlines()) == 101
    for out in ("o.csv", "o.tsv", "o.csv.gz", "o.parquet", "o.arrow"):
        tables = []
        for name in own:
            assert run("predict", model, name, *others, *keep, "--out", out) == (0, "", "")
            tables.append(read_data(out).table)
        assert tables[0].equals(tables[1]) and tables[1].num_rows == 100
        assert tables[1]["city"].null_count
    for number, name in enumerate(own):
        assert run("predict", model, name, *others, "--out", f"{number}.npy")[0] == 0
    assert np.array_equal(np.load("0.npy"), np.load("1.npy"))


def test_only_a_batch_is_predicted_at_a_time(files: Path, run: Any, monkeypatch: Any) -> None:
    sizes, original = [], prediction.predicted_columns

    def predicted(model: Any, X: Any, kind: str) -> Any:
        sizes.append(X.shape)
        return original(model, X, kind)

    monkeypatch.setattr(prediction, "predicted_columns", predicted)
    assert run("predict", "c", "v.parquet", "--keep", "w")[0] == 0
    assert max(sizes) <= (30, 3) and sum(n_rows for n_rows, _ in sizes) == 100


def test_kept_categories_of_several_files(files: Path, run: Any) -> None:
    """Arrow files have one dictionary for each column, to which later batches add."""
    table = make_table(90, seed=2).select(FEATURES)
    kinds = [f"kind {place % (1 + place // 20)}" for place in range(90)]
    Path("k").mkdir()
    for first in (0, 30, 60):
        own = pyarrow.array(kinds[first : first + 30]).dictionary_encode()
        part = table[first : first + 30].append_column("kind", own)
        parquet.write_table(part, f"k/{first}.parquet")
    for out in ("o.arrow", "o.feather", "o.parquet"):
        assert run("predict", "c", "k", "--keep", "kind", "--out", out) == (0, "", "")
        found = read_data(out).table
        assert pyarrow.types.is_dictionary(found.schema.field("kind").type)
        assert found["kind"].to_pylist() == kinds
    kept = [{"kind": part["kind"], "n": np.arange(30)} for part in (found[:30], found[60:])]
    write_columns(kept, "own.arrow")
    assert read_data("own.arrow").column("kind").to_pylist() == kinds[:30] + kinds[60:]


def test_columns_without_values_and_indices_of_pandas(files: Path, run: Any) -> None:
    table = make_table(50, seed=3).select(FEATURES)
    empty = table.set_column(1, "income", [[None] * 50])
    empty = empty.append_column("__index_level_0__", [np.arange(50)])
    parquet.write_table(empty, "e.parquet")
    csv.write_csv(empty, "e.csv")
    assert run("predict", "c", "e.parquet") == run("predict", "c", "e.csv")
    status, _, err = run("predict", "c", "e.parquet", "--keep", "__index_level_0__")
    assert status == 2 and "no column '__index_level_0__'" in err


@pytest.mark.filterwarnings("default:X has feature names")
def test_a_model_without_names_takes_the_columns_in_order(files: Path, run: Any) -> None:
    rng = np.random.default_rng(0)
    np.save("a.npy", rng.normal(size=(80, 4)))
    assert run("train", "a.npy", "--target", "3", "--out", "n", *FEW)[0] == 0
    columns = dict(zip("abcd", np.load("a.npy").T, strict=True))
    parquet.write_table(pyarrow.table(columns), "a.parquet")
    status, out, err = run("predict", "n", "a.parquet", "--drop", "d")
    assert status == 0 and len(out.splitlines()) == 81 and err.count("X has feature names") == 1
    predicted = gpuboost.load("n").predict(np.load("a.npy")[:, :3])
    assert np.array_equal(np.array(out.splitlines()[1:], float), predicted)
    status, _, err = run("predict", "n", "a.parquet")
    assert status == 2 and "has 4 columns for them; leave out the others by --drop" in err


def damage(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)


WRONG_FILES = {
    "x.parquet": "cannot read 'x.parquet' as Parquet or Arrow: ",
    "x.arrow": "cannot read 'x.arrow' as Parquet or Arrow: ",
    "x.stream": "cannot read 'x.stream' as Parquet or Arrow: ",
    "none.parquet": "'none.parquet' has no rows",
    "twice.parquet": "cannot read 'twice.parquet' as Parquet or Arrow: ",
    "absent.parquet": "absent.parquet: No such file or directory",
    "absent*.parquet": "no Parquet or Arrow file found at absent*.parquet",
    "texts": "no Parquet or Arrow file found at texts",
    "*.csv": "files must all end in",
    "mixed": "has other columns than the first: missing ['city']",
}


@pytest.mark.parametrize("name", WRONG_FILES)
@pytest.mark.parametrize("command", ["predict", "train"])
def test_wrong_files_are_one_line(name: str, command: str, files: Path, run: Any) -> None:
    Path("x.parquet").write_bytes(b"PAR1 and no more")
    Path("x.arrow").write_bytes(b"ARROW1 and no more")
    Path("x.stream").write_bytes(Path("v.stream").read_bytes()[:300])
    table = make_table(20)
    parquet.write_table(table[:0], "none.parquet")
    parquet.write_table(table.append_column("age", table["age"]), "twice.parquet")
    for folder in ("texts", "mixed"):
        Path(folder).mkdir()
    csv.write_csv(table, "texts/t.csv")
    parquet.write_table(table, "mixed/1.parquet")
    parquet.write_table(table.drop_columns("city"), "mixed/2.parquet")
    Path("o.csv").write_text("before")
    words = {"predict": ("c", name, "--out", "o.csv"), "train": (name, *CLASSES, *LIMIT)}
    status, out, err = run(command, *words[command])
    assert (status, out) == (2, "") and len(err.splitlines()) == 1
    assert err.startswith("gpuboost: ") and WRONG_FILES[name] in err
    assert Path("o.csv").read_text() == "before" and not Path("m").exists()
    assert not list(files.glob(".*"))


def test_an_error_in_a_later_batch_leaves_the_old_file(files: Path, run: Any) -> None:
    for name, table in (("1", make_table(40)), ("2", make_table(40))):
        if name == "2":
            table = table.set_column(1, "income", [np.repeat([1.0, np.inf], 20)])
        Path("late").mkdir(exist_ok=True)
        parquet.write_table(table, f"late/{name}.parquet")
    for out in ("o.csv", "o.csv.gz", "o.parquet", "o.arrow", "o.npy"):
        Path(out).write_text("before")
        status, _, err = run("predict", "c", "late", "--out", out)
        assert status == 2 and "infinity" in err
        assert Path(out).read_text() == "before"
    assert not list(files.glob(".o*"))


# ---- train ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("words", [CLASSES, VALUES], ids=["classes", "values"])
def test_models_are_those_without_a_limit(name: str, words: Any, files: Path, run_json: Any):
    """With weights and rows held out; a limit of 1 kB puts the codes into a file."""
    few = {"hist": "max_iter=3", "tree": "max_depth=3", "extra-tree": "max_depth=3"}
    own = ("--set", few.get(name, "n_estimators=3"), "--model", name, "--valid", "0.3")
    others = (*words[:-4], "--device", "numpy", *own)
    whole = run_json("train", "t.parquet", *others)
    for table, limit in (("t.parquet", "1GB"), ("train", "1kB")):
        found = run_json("train", table, *others, "--memory-limit", limit)
        same = ("fingerprint", "estimator", "task", "rows", "rows_valid", "features", "trees")
        assert {key: found[key] for key in same} == {key: whole[key] for key in same}
        assert found["scores"]["train"] == whole["scores"]["train"]
        score = "accuracy" if words is CLASSES else "r2"
        valid = found["scores"]["valid"][score]
        tolerance = 0.1 if limit == "1kB" else 0.0  # by bins
        assert valid == pytest.approx(whole["scores"]["valid"][score], abs=tolerance, rel=1e-12)
    assert gpuboost.load("m").fingerprint() == whole["fingerprint"]


@pytest.mark.parametrize("table", ["t.parquet", "train", "train/**/*.parquet", "t.stream"])
def test_tables_and_parameters(table: str, files: Path, run: Any, run_json: Any) -> None:
    with ipc.new_stream("t.stream", make_table(400).schema) as stream:
        stream.write_table(make_table(400), max_chunksize=90)
    others = ("--set", "max_bins=9", "--set", 'categorical_features=["age","city"]')
    whole = run_json("train", "t.csv", *VALUES, *others, "--valid", "v.csv")
    for valid in ("v.csv", "v.parquet", "v"):
        found = run_json("train", table, *VALUES, *others, "--valid", valid, *LIMIT)
        assert found["fingerprint"] == whole["fingerprint"] and found["rows_valid"] == 100
    model = gpuboost.load("m")
    assert model.max_bins == 9 and model.categorical_features == ["age", "city"]
    _, _, err = run("train", table, *VALUES, *LIMIT)
    assert err.splitlines()[:2] == [
        f"{table}: 400 rows x 7 columns",
        "target 'price' has numbers with fractions: regression",
    ]


@pytest.mark.parametrize("valid", ["0.25", "v"])
def test_early_stopping_is_that_of_a_table(valid: str, files: Path, run_json: Any) -> None:
    stop = ("--set", "n_estimators=200", "--set", "n_iter_no_change=2")
    given = "v.csv" if valid == "v" else valid
    whole = run_json("train", "t.csv", *VALUES, *stop, "--valid", given)
    found = run_json("train", "train", *VALUES, *stop, "--valid", valid)
    assert found["trees"] == whole["trees"] < 200
    assert found["fingerprint"] == whole["fingerprint"]


def test_a_folder_needs_no_limit(files: Path, run_json: Any) -> None:
    whole = run_json("train", "t.csv", *CLASSES, "--valid", "v.csv")
    for table, valid in (("train", "v"), ("t.csv", "v"), ("t.parquet", "v/*"), ("train", "v.csv")):
        found = run_json("train", table, *CLASSES, "--valid", valid)
        assert found["fingerprint"] == whole["fingerprint"] and found["rows_valid"] == 100


def test_training_in_parts_resumes_from_a_checkpoint(files: Path, run_json: Any) -> None:
    words = ("train", "train", *VALUES, *LIMIT)
    first = run_json(*words, "--checkpoint", "c.state")
    more = run_json(*words, "--checkpoint", "c.state", "--set", "n_estimators=9")
    assert (first["trees"], more["trees"]) == (5, 9)
    anew = run_json("train", "t.csv", *VALUES, "--set", "n_estimators=9")
    assert anew["fingerprint"] == more["fingerprint"]


def test_a_task_can_be_given(files: Path, run_json: Any) -> None:
    words = ("--target", "count", *drop("y", "price", "w"), "--out", "m", *FEW)
    assert run_json("train", "train", *words)["task"] == "classification"
    found = run_json("train", "train", *words, "--task", "regression")
    whole = run_json("train", "t.csv", *words, "--task", "regression")
    assert found["task"] == "regression" and found["fingerprint"] == whole["fingerprint"]


def test_wrong_columns_of_tables_in_parts(files: Path, run: Any) -> None:
    table = make_table(40)
    for name in ("day", "last seen"):
        table = table.append_column(name, pyarrow.array([0] * 40, pyarrow.date32()))
    parquet.write_table(table, "d.parquet")
    for words in (CLASSES, (*CLASSES, *drop("absent")), (*CLASSES, *drop(*FEATURES))):
        parts = run("train", "d.parquet", *words, *LIMIT)
        assert parts == run("train", "d.parquet", *words) and parts[0] == 2
    assert run("train", "d.parquet", *CLASSES, *drop("day", "last seen"), *LIMIT)[0] == 0
    parquet.write_table(table.select(["y"]), "y.parquet")
    words = ("y.parquet", "--target", "y", "--out", "m", *LIMIT)
    status, _, err = run("train", *words)
    assert status == 2 and "y.parquet has no column besides y" in err
    parquet.write_table(make_table(40).drop_columns("city"), "small.parquet")
    status, _, err = run("train", "train", *CLASSES, "--valid", "small.parquet")
    assert status == 2 and "no column 'city'" in err
    status, _, err = run("train", "train", *VALUES[:-6], "--weight", "city", "--out", "m")
    assert status == 2 and ("'city' has 37 missing" in err or "has strings" in err)


@pytest.mark.parametrize("table", ["t.csv", "-", "a.npy", "v.parquet.gz"])
def test_a_limit_needs_parquet(table: str, files: Path, run: Any, monkeypatch: Any) -> None:
    np.save("a.npy", np.zeros((3, 2)))
    set_input(monkeypatch, b"a,y\n1,2\n")
    status, _, err = run("train", table, *CLASSES, *LIMIT)
    shown = "standard input" if table == "-" else repr(table)
    assert (status, len(err.splitlines())) == (2, 1)
    assert f"compressed by gzip, got {shown}; convert it to Parquet" in err


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [("500MB", 500_000_000), ("4 GB", 4 * 10**9), ("2GiB", 2 << 30), ("1.5kB", 1500),
     ("64b", 64), ("1TB", 10**12)],
)  # fmt: skip
def test_sizes(text: str, n_bytes: int, files: Path, run_json: Any, monkeypatch: Any) -> None:
    given: list[int] = []
    original = gpuboost.Dataset.from_batches.__func__

    def from_batches(cls: Any, *words: Any, memory_limit: Any, **others: Any) -> Any:
        given.append(memory_limit)
        return original(cls, *words, memory_limit=memory_limit, **others)

    monkeypatch.setattr(gpuboost.Dataset, "from_batches", classmethod(from_batches))
    Path("c.toml").write_text(f'memory-limit = "{text}"', encoding="utf-8")
    run_json("train", "t.parquet", *CLASSES, "--config", "c.toml", "--valid", "0.25")
    held_out = 100 * 3 * 16  # bytes of the table of rows held out
    assert given == [n_bytes * 3 // 4, *([n_bytes // 4] if n_bytes // 4 < held_out else [])]


@pytest.mark.parametrize(
    "text", ["4", "0GB", "GB", "-1GB", "4 apples", "1e3MB", "0.5B", "1iB", "9" * 400 + "B"]
)
def test_wrong_sizes(text: str, folder: Path, run: Any) -> None:
    status, _, err = run("train", "t.csv", *CLASSES, f"--memory-limit={text}")
    assert status == 2 and f"must be a size such as 500MB, 4GB or 2GiB, got {text}" in err
    Path("c.toml").write_text("memory-limit = 4000000", encoding="utf-8")
    status, _, err = run("train", "t.csv", *CLASSES, "--config", "c.toml")
    assert status == 2 and "memory-limit must be a size in quotes, got 4000000" in err


# ---- progress ------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("predict", "c", "v", "--out", "o.csv"), r"predicting .* 100/100 rows"),
        (("train", "t.parquet", *CLASSES, *LIMIT), r"reading .* 3/3 columns"),
    ],
)
def test_progress(words: Any, shown: str, files: Path) -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "gpuboost", *words]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    content = b""
    with suppress(OSError):  # the end of a pseudo-terminal
        while part := os.read(ours, 4096):
            content += part
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", content.decode())
    assert process.wait() == 0 and re.search(shown, text), text


def test_no_progress_beside_predictions(files: Path) -> None:
    """A bar would be in the lines of CSV on the same terminal."""
    command = [sys.executable, "-m", "gpuboost", "predict", "c", "v"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == "" and len(done.stdout.splitlines()) == 101


def test_json_is_the_only_output(files: Path, run: Any) -> None:
    status, out, _ = run("train", "train", *CLASSES, "--json")
    assert status == 0 and len(out.splitlines()) == 1 and json.loads(out)["rows"] == 400
