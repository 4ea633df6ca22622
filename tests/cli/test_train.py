"""``gpuboost train``."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import csv, parquet

import gpuboost
from gpuboost.cli.models import training
from gpuboost.cli.models.choice import ESTIMATORS
from gpuboost.cli.models.interruption import interruptible
from tests.cli.conftest import FEW, drop, make_table, set_input

CLASSES = ("--target", "y", *drop("price", "count", "w"), "--out", "m", *FEW)
VALUES = ("--target", "price", *drop("y", "count", "w"), "--out", "m", *FEW)


def test_the_summary_says_what_was_done(folder: Path, run: Any) -> None:
    status, out, err = run("train", "t.csv", *CLASSES, "--valid", "0.25")
    assert status == 0
    assert err.splitlines()[:2] == [
        "t.csv: 400 rows x 7 columns",
        "target 'y' has 3 distinct strings: classification",
    ]
    assert "training GradientBoostingClassifier: 5 rounds, 300 rows" in err
    for word in ("accuracy", "log loss", "AUC", "train ", "valid ", "rows/s", "numpy", "15 trees"):
        assert word in out
    assert not [line for line in (out + err).splitlines() if len(line) > 80]
    assert "\x1b" not in out + err and "\r" not in out + err


def test_json_is_one_object(folder: Path, run_json: Any) -> None:
    report = run_json("train", "t.csv", *VALUES, "--valid", "v.csv")
    model = gpuboost.load("m")
    assert isinstance(model, gpuboost.GradientBoostingRegressor)
    assert report["fingerprint"] == model.fingerprint()
    assert (report["rows"], report["rows_valid"], report["features"]) == (400, 100, 3)
    assert report["task"] == "regression" and report["device"] == "numpy"
    assert model.feature_names_in_.tolist() == ["age", "income", "city"]
    X = make_table(100, seed=1)
    expected = model.score(X.select(["age", "income", "city"]), X["price"].to_numpy())
    assert report["scores"]["valid"]["r2"] == pytest.approx(expected)
    assert set(report["scores"]["train"]) == {"r2", "rmse", "mae"}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("words", [CLASSES, VALUES], ids=["classes", "values"])
def test_every_model_trains(name: str, words: Any, folder: Path, run_json: Any) -> None:
    parameters = words[:-4]  # without FEW
    few = {"hist": "max_iter=5", "tree": "max_depth=3", "extra-tree": "max_depth=3"}
    own = ("--set", few.get(name, "n_estimators=5"), "--device", "numpy")
    report = run_json("train", "t.csv", *parameters, *own, "--model", name, "--valid", "0.2")
    kind = "Classifier" if words is CLASSES else "Regressor"
    assert report["estimator"] == ESTIMATORS[name] + kind
    assert type(gpuboost.load("m")).__name__ == report["estimator"]
    assert report["scores"]["valid"] and report["rows_valid"] > 50


def test_tables_of_all_formats_give_the_same_model(
    folder: Path, run_json: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet.write_table(make_table(400), "t.parquet")
    content = Path("t.csv").read_bytes()
    Path("t.csv.gz").write_bytes(gzip.compress(content))
    set_input(monkeypatch, content)
    tables = ("t.csv", "t.parquet", "t.csv.gz", "-")
    prints = {run_json("train", table, *CLASSES)["fingerprint"] for table in tables}
    assert len(prints) == 1


def test_arrays_have_no_names(folder: Path, run_json: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    np.save("a.npy", np.column_stack([X, X[:, 0] > 0.0]))
    report = run_json("train", "a.npy", "--target", "3", "--out", "m", *FEW)
    assert report["task"] == "classification" and report["features"] == 3
    assert not hasattr(gpuboost.load("m"), "feature_names_in_")


def test_text_without_names(folder: Path, run_json: Any) -> None:
    Path("n.csv").write_text("\n".join(f"{i % 7},{i % 2}" for i in range(60)), encoding="utf-8")
    report = run_json("train", "n.csv", "--no-header", "--target", "1", "--out", "m", *FEW)
    assert report["rows"] == 60 and report["scores"]["train"]["accuracy"] > 0.4


def test_early_stopping_uses_the_rows_held_out(folder: Path, run: Any, run_json: Any) -> None:
    stop = ("--set", "n_estimators=200", "--set", "n_iter_no_change=2", "--valid", "v.csv")
    report = run_json("train", "t.csv", *VALUES, *stop)
    model = gpuboost.load("m")
    assert report["trees"] < 200 and report["best_round"] == model.best_iteration_ + 1
    valid = make_table(100, seed=1)
    predicted = model.predict(valid.select(["age", "income", "city"]))
    mse = float(np.mean((predicted - valid["price"].to_numpy()) ** 2))
    assert model.validation_score_[-1] == pytest.approx(mse, rel=1e-9) or (
        model.validation_score_[-1] == pytest.approx(mse / 2, rel=1e-9)
    )
    assert "by early stopping" in run("train", "t.csv", *VALUES, *stop)[1]


def test_weights_change_the_model_and_are_no_feature(folder: Path, run_json: Any) -> None:
    words = ("train", "t.csv", "--target", "y", *drop("price", "count"), "--out", "m", *FEW)
    weighted = run_json(*words, "--weight", "w", "--valid", "0.2")
    assert weighted["features"] == 3
    assert weighted["fingerprint"] != run_json(*words, "--drop", "w")["fingerprint"]


def test_the_seed_decides_what_is_held_out(folder: Path, run_json: Any) -> None:
    words = ("train", "t.csv", *CLASSES, "--valid", "0.3")
    first, second, other = (run_json(*words, "--seed", seed) for seed in (1, 1, 2))
    assert first["scores"] == second["scores"] != other["scores"]


ERRORS = {
    "no such file": (("absent.csv",), "absent.csv: No such file or directory"),
    "no such column": (("t.csv", "--target", "yy"), "no column 'yy'; did you mean 'y'"),
    "no such weight": (("t.csv", "--weight", "v"), "no column 'v'"),
    "weights of strings": (
        ("t.csv", "--weight", "y"),
        "column 'y' has strings, but --weight needs",
    ),
    "no such parameter": (
        ("t.csv", "--set", "max_deph=3"),
        "GradientBoostingClassifier has no parameter 'max_deph'; did you mean 'max_depth'",
    ),
    "wrong value": (("t.csv", "--set", "max_depth=deep"), "max_depth"),
    "no value": (("t.csv", "--set", "max_depth"), "--set takes name=value, got 'max_depth'"),
    "of the command": (("t.csv", "--set", "device=cpu"), "use --device"),
    "no callbacks": (("t.csv", "--set", "callbacks=1"), "they are Python code"),
    "fraction": (("t.csv", "--valid", "1.5"), "a fraction between 0 and 1, got 1.5"),
    "no such table": (("t.csv", "--valid", "absent.csv"), "absent.csv: No such file"),
    "no folder": (("t.csv", "--out", "absent/m"), "absent/m: No such file or directory"),
    "a folder": (("t.csv", "--out", "."), ".: Is a directory"),
    "standard output": (("absent.csv", "--out", "-"), "name a file instead of -"),
    "a checkpoint in no folder": (
        ("absent.csv", "--checkpoint", "absent/c"),
        "absent/c: No such file or directory",
    ),
    "a checkpoint on standard output": (
        ("absent.csv", "--checkpoint", "-"),
        "name a file instead of -",
    ),
    "device": (("t.csv", "--device", "gpu"), "device must be"),
    "task": (("t.csv", "--task", "regression"), "a regression needs numbers"),
    "option": (("t.csv", "--modle", "tree"), "--modle"),
    "model": (("t.csv", "--model", "trees"), "'trees' is not one of"),
    "no features": (("t.csv", *drop("age", "income", "city")), "no column besides"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_one_line_and_leave_no_file(name: str, folder: Path, run: Any) -> None:
    words, message = ERRORS[name]
    status, out, err = run("train", *CLASSES, *words)
    assert status == 2 and not out
    assert message in err.splitlines()[-1] and err.splitlines()[-1].startswith("gpuboost: ")
    assert not (folder / "m").exists() and "Traceback" not in err


def test_columns_of_dates_are_all_named_before_the_fit(folder: Path, run: Any) -> None:
    table = make_table(40)
    for name in ("day", "last seen"):
        table = table.append_column(name, pyarrow.array([0] * 40, pyarrow.date32()))
    csv.write_csv(table, "d.csv")
    status, _, err = run("train", "d.csv", *CLASSES)
    assert status == 2 and "training" not in err
    assert err.splitlines()[-1] == (
        "gpuboost: 2 columns must become numbers or strings, or be left out by --drop day "
        "--drop 'last seen': 'day' (date32[day]), 'last seen' (date32[day])"
    )
    assert run("train", "d.csv", *CLASSES, *drop("day", "last seen"))[0] == 0


def test_boosting_needs_two_classes(folder: Path, run: Any) -> None:
    Path("one.csv").write_text("x,y\n1,a\n", encoding="utf-8")
    words = ("train", "one.csv", "--target", "y", "--out", "m", "--device", "numpy")
    for name in ("boosting", "hist"):
        status, _, err = run(*words, "--model", name)
        assert status == 2 and "target 'y' has one class, 'a', but boosting needs two" in err
        assert "one.csv: 1 row x 2 columns\n" in err
    status, out, err = run(*words, "--model", "tree")
    assert status == 0 and "1 tree, 1 feature\n" in out
    assert "training DecisionTreeClassifier: 1 tree, 1 row\n" in err


def test_a_table_to_validate_has_the_columns(folder: Path, run: Any) -> None:
    csv.write_csv(make_table(20).drop_columns(["city"]), "small.csv")
    status, _, err = run("train", "t.csv", *CLASSES, "--valid", "small.csv")
    assert status == 2 and "no column 'city'" in err


def test_training_resumes_from_a_checkpoint(folder: Path, run: Any, run_json: Any) -> None:
    words = ("train", "t.csv", *VALUES, "--checkpoint", "c")
    assert run_json(*words)["trees"] == 5
    more = run_json(*words, "--set", "n_estimators=9")
    assert more["trees"] == 9 and gpuboost.load("c").fingerprint() == more["fingerprint"]
    anew = run_json("train", "t.csv", *VALUES, "--set", "n_estimators=9")
    assert anew["fingerprint"] == more["fingerprint"]
    status, _, err = run(*words, "--set", "n_estimators=9", "--set", "max_depth=2")
    assert status == 2 and "is of a fit with other parameters" in err


def test_checkpoints_need_callbacks(folder: Path, run: Any) -> None:
    status, _, err = run("train", "t.csv", *CLASSES[:-4], "--model", "tree", "--checkpoint", "c")
    assert status == 2 and "which --checkpoint needs" in err


# ---- Ctrl-C ------------------------------------------------------------------------------------


def test_the_handler_raises_and_remembers() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interruptible() as found:
        assert not found.is_pressed
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert found.is_pressed
    assert signal.getsignal(signal.SIGINT) is before


def press_after(n_trees: int) -> Any:
    """A function in place of `training._callbacks`, with a callback that presses Ctrl-C."""

    def press(result: Any) -> None:
        if result.number + 1 == n_trees:
            signal.raise_signal(signal.SIGINT)

    return lambda bar, checkpoint: [press]


@pytest.mark.parametrize("name", ["boosting", "forest", "extra-trees", "bagging", "adaboost"])
def test_ctrl_c_leaves_the_trees_so_far(
    name: str, folder: Path, run: Any, run_json: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--set", "n_estimators=1000", "--model", name)
    with monkeypatch.context() as own:
        own.setattr(training, "_callbacks", press_after(4))
        status, out, err = run("train", "t.csv", *VALUES, *words)
    assert status == 130
    assert "interrupted: m has the 4 trees so far" in err and "R2" in out
    assert len(err.splitlines()) == 4
    model = gpuboost.load("m")
    assert len(model.estimators_) == 4 and model.callbacks is None
    whole = run_json("train", "t.csv", *VALUES, *words, "--set", "n_estimators=4")
    assert whole["fingerprint"] == model.fingerprint()


def test_ctrl_c_before_there_is_a_model(folder: Path, run: Any, monkeypatch: Any) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "_fit_rows", stop)
    status, out, err = run("train", "t.csv", *VALUES)
    assert (status, out) == (130, "") and not (folder / "m").exists()
    assert err.endswith("gpuboost: interrupted; no model was saved\n")


def test_warnings_are_one_line(folder: Path) -> None:
    command = [sys.executable, "-m", "gpuboost", "train", "t.csv", *CLASSES]
    words = ["--model", "forest", "--set", "oob_score=true"]  # too few trees for it
    done = subprocess.run([*command, *words], capture_output=True, text=True)
    assert done.returncode == 0
    notes = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert len(notes) == 1 and len(done.stderr.splitlines()) == 4


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_in_a_process_of_its_own(folder: Path) -> None:
    csv.write_csv(make_table(3000), "t.csv")
    words = ["train", "t.csv", *VALUES, "--set", "n_estimators=1000000", "--json"]
    command = [sys.executable, "-m", "gpuboost", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("training"):
            break
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    report = json.loads(out)
    assert report["interrupted"] and 0 < report["trees"] < 1000000
    assert gpuboost.load("m").fingerprint() == report["fingerprint"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_while_numba_compiles(folder: Path) -> None:
    """Python's own exit would sometimes abort while a thread is in the compiler."""
    csv.write_csv(make_table(3000), "t.csv")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "numba")}
    words = ["train", "t.csv", *VALUES[:-2], "--device", "numba"]
    for _ in range(3):
        command = [sys.executable, "-m", "gpuboost", *words]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("gpuboost: compiling"):
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130 and err == "gpuboost: interrupted; no model was saved\n"


def test_a_pipe_through_two_commands(folder: Path) -> None:
    text = Path("t.csv").read_bytes()
    command = [sys.executable, "-m", "gpuboost"]
    done = subprocess.run([*command, "train", "-", *CLASSES], input=text, capture_output=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([*command, "predict", "m", "-"], input=text, capture_output=True)
    lines = done.stdout.decode().splitlines()
    assert lines[0] == "prediction" and len(lines) == 401 and set(lines[1:]) > {"no", "yes"}
    # A reader that stops early is no error.
    pipe = f"{sys.executable} -m gpuboost predict m t.csv | head -n 1"
    done = subprocess.run(pipe, shell=True, capture_output=True)
    assert (done.stdout, done.stderr) == (b"prediction\n", b"")
