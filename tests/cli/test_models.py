"""``gpuboost predict``, ``evaluate`` and ``inspect``."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import csv, feather
from sklearn import ensemble, metrics

import gpuboost
from gpuboost.cli.models.scores import evaluation_of
from gpuboost.cli.tables.data import ArrowData
from gpuboost.cli.tables.read import read_data
from tests.cli.conftest import FEATURES, FEW, drop, features, make_table

# ---- predict -----------------------------------------------------------------------------------


def test_predictions_are_those_of_the_model(trained: Path, run: Any) -> None:
    status, out, err = run("predict", "r", "v.csv")
    assert (status, err) == (0, "")
    name, *lines = out.splitlines()
    assert name == "prediction"
    assert (np.array(lines, float) == gpuboost.load("r").predict(features())).all()
    assert run("predict", "c", "v.csv", "--out", "p.csv") == (0, "", "")
    found = read_data("p.csv").values("prediction")
    assert (found == gpuboost.load("c").predict(features())).all()


def test_probabilities_have_the_names_of_the_classes(trained: Path, run: Any) -> None:
    assert run("predict", "c", "v.csv", "--proba", "--out", "p.parquet")[0] == 0
    table = read_data("p.parquet")
    assert table.names == ["probability_maybe", "probability_no", "probability_yes"]
    expected = gpuboost.load("c").predict_proba(features())
    assert (np.column_stack([table.values(name) for name in table.names]) == expected).all()
    assert run("predict", "c", "v.csv", "--raw", "--out", "p.npy")[0] == 0
    assert (np.load("p.npy") == gpuboost.load("c").decision_function(features())).all()
    assert run("predict", "r", "v.csv", "--raw", "--out", "p.npy")[0] == 0
    assert (np.load("p.npy") == gpuboost.load("r").predict(features())).all()


def test_columns_can_be_kept_and_others_are_ignored(trained: Path, run: Any) -> None:
    table = make_table(5)
    csv.write_csv(table.select(["city", "w", "income", "age"]), "few.csv")
    status, out, _ = run("predict", "c", "few.csv", "--keep", "w")
    assert status == 0 and out.splitlines()[0] == "w,prediction" and len(out.splitlines()) == 6


KEPT = pyarrow.table(
    {
        "day": pyarrow.array([date(2024, 2, 29), None, date(1999, 12, 31)]),
        "at": pyarrow.array([1, None, 3], pyarrow.timestamp("ns")),
        "y": ["yes", None, "no"],
        "n": pyarrow.array([1, None, 2**60 + 1]),
        "kind": pyarrow.array(["a", None, "b"]).dictionary_encode(),
        "on": pyarrow.array([True, None, False]),
    }
)


def test_columns_of_any_type_are_kept_unchanged(trained: Path, run: Any) -> None:
    table = make_table(3).select(FEATURES)
    for name in KEPT.column_names:
        table = table.append_column(name, KEPT[name])
    feather.write_feather(table, "k.arrow")
    words = [word for name in KEPT.column_names for word in ("--keep", name)]
    predicted = gpuboost.load("c").predict(table.select(FEATURES)).tolist()
    for out in ("p.arrow", "p.parquet"):
        assert run("predict", "c", "k.arrow", *words, "--out", out) == (0, "", "")
        found = read_data(out)
        assert isinstance(found, ArrowData)
        assert found.table.select(KEPT.column_names).to_pydict() == KEPT.to_pydict()
        assert found.table["prediction"].to_pylist() == predicted
    status, out, _ = run("predict", "c", "k.arrow", *words)
    assert status == 0 and out.splitlines() == [
        "day,at,y,n,kind,on,prediction",
        f"2024-02-29,1970-01-01 00:00:00.000000001,yes,1,a,True,{predicted[0]}",
        f",,,,,,{predicted[1]}",
        f"1999-12-31,1970-01-01 00:00:00.000000003,no,{2**60 + 1},b,False,{predicted[2]}",
    ]


def test_columns_of_numbers_are_kept_in_arrays(trained: Path, run: Any) -> None:
    words = ("predict", "r", "v.csv", "--out", "p.npy", "--keep")
    assert run(*words, "income")[0] == 0
    assert np.isnan(np.load("p.npy")[:, 0]).any() and np.load("p.npy").shape == (100, 2)
    status, _, err = run(*words, "city")
    assert status == 2 and "an npy file has only numbers, unlike column 'city'" in err


def test_predictions_do_not_replace_columns_that_are_kept(trained: Path, run: Any) -> None:
    table = make_table(3).select(FEATURES)
    for name in ("prediction", "probability_no"):
        csv.write_csv(table.append_column(name, [["x", "y", "z"]]), "k.csv")
        status, out, err = run("predict", "c", "k.csv", "--keep", name, "--proba")
        is_free = name == "prediction"
        assert status == (0 if is_free else 2) and bool(out) == is_free
        assert is_free or "--keep probability_no: the predictions have this name" in err
    csv.write_csv(table.append_column("prediction", [["x", "y", "z"]]), "k.csv")
    assert run("predict", "c", "k.csv", "--keep", "prediction")[0] == 2


def test_strings_that_look_like_numbers(folder: Path, run: Any, run_json: Any) -> None:
    Path("z.csv").write_text("zip,y\n" + "01,a\nX2,b\n" * 30, encoding="utf-8")
    run_json("train", "z.csv", "--target", "y", "--out", "m", *FEW)
    Path("p.csv").write_text("zip\n01\n", encoding="utf-8")
    assert run("predict", "m", "p.csv")[1] == "prediction\na\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("absent", "v.csv"), "absent: No such file"),
        (("v.csv", "v.csv"), "cannot load a model from 'v.csv'"),
        (("r", "v.csv", "--proba"), "GradientBoostingRegressor has no probabilities"),
        (("c", "v.csv", "--proba", "--raw"), "exclude each other"),
        (("c", "v.csv", "--out", "x.doc"), "must end in"),
        (("c", "v.csv", "--drop", "agee"), "no column 'agee'; did you mean 'age'"),
        (("c", "v.csv", "--keep", "agee"), "no column 'agee'; did you mean 'age'"),
        (("c", "v.csv", "--device", "gpu"), "device must be"),
        (("c", "small.csv"), "lacks 2 of the model's 3 columns: 'income', 'city'"),
    ],
)
def test_errors_of_predictions(words: Any, message: str, trained: Path, run: Any) -> None:
    csv.write_csv(make_table(5).select(["age"]), "small.csv")
    status, out, err = run("predict", *words)
    assert (status, out) == (2, "")
    assert message in err and len(err.splitlines()) == 1


def test_forests_have_no_raw_predictions(folder: Path, run: Any, run_json: Any) -> None:
    words = ("--target", "price", *drop("y"), "--out", "m", *FEW, "--model", "forest")
    run_json("train", "t.csv", *words)
    status, _, err = run("predict", "m", "t.csv", "--raw")
    assert status == 2 and "RandomForestRegressor has no raw predictions" in err


# ---- evaluate ----------------------------------------------------------------------------------


def test_evaluate_reads_one_file(folder: Path, run: Any) -> None:
    run("train", "t.csv", "--target", "price", "--out", "m", *FEW)
    status, _, err = run("evaluate", "m", ".", "--target", "price")
    assert status == 2 and "'.' is a folder, but this command reads one file" in err


def test_scores_are_those_of_scikit_learn(trained: Path, run_json: Any) -> None:
    table, model = make_table(100, seed=1), gpuboost.load("c")
    y, w = np.array(table["y"].to_pylist()), table["w"].to_numpy()
    report = run_json("evaluate", "c", "v.csv", "--target", "y", "--weight", "w")
    proba, predicted = model.predict_proba(features()), model.predict(features())
    assert report["classes"] == ["maybe", "no", "yes"] and report["rows"] == 100
    scores = report["scores"]
    assert scores["accuracy"] == pytest.approx(np.average(y == predicted, weights=w))
    loss = metrics.log_loss(y, proba, labels=model.classes_, sample_weight=w)
    assert scores["log_loss"] == pytest.approx(loss)
    each = [metrics.roc_auc_score(y == name, proba[:, k], sample_weight=w)
            for k, name in enumerate(model.classes_)]  # fmt: skip
    assert scores["auc"] == pytest.approx(np.mean(each))
    assert np.sum(report["confusion"]) == pytest.approx(w.sum())
    assert sum(group["rows"] for group in report["calibration"]) == 100


def test_scores_of_a_regressor(trained: Path, run_json: Any) -> None:
    y, predicted = (
        make_table(100, seed=1)["price"].to_numpy(),
        gpuboost.load("r").predict(features()),
    )
    report = run_json("evaluate", "r", "v.csv", "--target", "price")
    assert report["scores"] == {
        "r2": pytest.approx(metrics.r2_score(y, predicted)),
        "rmse": pytest.approx(metrics.root_mean_squared_error(y, predicted)),
        "mae": pytest.approx(metrics.mean_absolute_error(y, predicted)),
    }
    groups = report["calibration"]
    assert len(groups) == 10 and "confusion" not in report
    assert np.mean([group["observed"] for group in groups]) == pytest.approx(y.mean())
    assert [group["predicted"] for group in groups] == sorted(
        group["predicted"] for group in groups
    )


def test_scores_of_several_quantiles(folder: Path, run: Any, run_json: Any) -> None:
    others = drop("y", "count", "w")
    words = ("--set", "loss=quantile", "--set", "alpha=[0.1,0.9]", *FEW)
    report = run_json("train", "t.csv", "--target", "price", "--out", "q", *others, *words)
    assert set(report["scores"]["train"]) == {"d2_pinball", "pinball_loss"}
    y, predicted = (
        make_table(400)["price"].to_numpy(),
        gpuboost.load("q").predict(features(400, seed=0)),
    )
    report = run_json("evaluate", "q", "t.csv", "--target", "price")
    of_levels = (
        metrics.mean_pinball_loss(y, own, alpha=level)
        for own, level in zip(predicted.T, (0.1, 0.9), strict=True)
    )
    assert report["scores"]["pinball_loss"] == pytest.approx(np.mean(list(of_levels)))
    low, high = report["calibration"]
    assert (low["predicted"], high["predicted"]) == (0.1, 0.9) and low["rows"] == 400
    assert high["observed"] == pytest.approx(np.mean(y <= predicted[:, 1]))
    status, out, _ = run("evaluate", "q", "t.csv", "--target", "price")
    assert status == 0 and "D2 pinball" in out and "by level" in out


def test_models_of_several_outputs_have_no_scores(folder: Path, run: Any) -> None:
    y = make_table(400)["price"].to_numpy()
    X = make_table(400).select(["age", "income"])
    two = gpuboost.RandomForestRegressor(n_estimators=2, device="numpy").fit(X, np.c_[y, -y])
    two.save("two")
    status, _, err = run("evaluate", "two", "t.csv", "--target", "price", *drop("y", "count", "w"))
    assert status == 2 and "the model has 2 outputs; scores are of one output" in err


def test_two_classes_have_the_calibration_of_the_second(
    folder: Path, run: Any, run_json: Any
) -> None:
    rng = np.random.default_rng(0)
    lines = [f"{x},{int(rng.random() < x)}" for x in rng.random(400).round(2)]
    Path("b.csv").write_text("x,y\n" + "\n".join(lines), encoding="utf-8")
    run_json("train", "b.csv", "--target", "y", "--out", "m", *FEW, "--set", "max_depth=2")
    report = run_json("evaluate", "m", "b.csv", "--target", "y")
    model, table = gpuboost.load("m"), read_data("b.csv")
    proba = model.predict_proba(table.features(["x"]))[:, 1]
    y = table.values("y")
    assert report["scores"]["auc"] == pytest.approx(metrics.roc_auc_score(y, proba))
    assert report["calibrated"] == "probability of 1"
    assert report["calibration"][0]["predicted"] == pytest.approx(np.sort(proba)[:40].mean())
    out = run("evaluate", "m", "b.csv", "--target", "y")[1]
    assert "calibration of the probability of 1, by tenths of the rows" in out
    assert "confusion: class by predicted class" in out
    assert max(map(len, out.splitlines())) <= 80


def test_unknown_classes_are_an_error(trained: Path, run: Any) -> None:
    table = make_table(5)
    other = table.set_column(4, "y", [["yes", "no", "never", "no", "no"]])
    csv.write_csv(other, "other.csv")
    status, _, err = run("evaluate", "c", "other.csv", "--target", "y")
    assert status == 2 and "has 1 class that the model does not know, such as 'never'; it" in err
    np.save("X.npy", np.column_stack([np.arange(200.0), np.arange(200) % 3, np.arange(200) % 2]))
    words = ("train", "X.npy", "--target", "2", "--out", "m", *FEW)
    assert run(*words)[0] == 0
    text = "\n".join(f"{i},{i % 3},{'abc'[i % 3]}" for i in range(200))
    Path("s.csv").write_text(text, encoding="utf-8")
    status, _, err = run("evaluate", "m", "s.csv", "--target", "2", "--no-header")
    assert status == 2 and "has 3 classes that the model does not know, such as 'a'; it" in err
    status, _, err = run("evaluate", "r", "v.csv", "--target", "y")
    assert status == 2 and "the model is a regressor, but the target has strings" in err


@pytest.mark.parametrize("command", ["train", "evaluate", "valid"])
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -2.0, 3.0], "from -2 to 3, but --weight needs finite numbers from 0"),
        ([1.0, float("inf"), 3.0], "from 1 to inf, but"),
        ([0.0, 0.0, 0.0], "not all 0"),
        (["a", "b", "c"], "has strings, but --weight needs numbers"),
    ],
)
def test_weights_are_checked(
    command: str, weights: Any, message: str, trained: Path, run: Any
) -> None:
    table = make_table(60).drop_columns(["w", "count", "price"])
    csv.write_csv(table.append_column("w", [weights * 20]), "w.csv")
    csv.write_csv(table.append_column("w", [[1.0] * 60]), "t.csv")
    words = {
        "train": ("train", "w.csv", "--out", "m"),
        "evaluate": ("evaluate", "c", "w.csv"),
        "valid": ("train", "t.csv", "--valid", "w.csv", "--out", "m"),
    }
    status, _, err = run(*words[command], "--target", "y", "--weight", "w")
    assert status == 2 and message in err and "column 'w'" in err


def test_scores_that_do_not_exist_are_none(trained: Path) -> None:
    model, table = gpuboost.load("c"), make_table(100, seed=1)
    y = np.array(table["y"].to_pylist())
    rows = np.flatnonzero(y != "yes")
    found = evaluation_of(model, table.select(FEATURES).take(rows), y[rows])
    assert found.scores()["auc"] is None and found.scores()["accuracy"] > 0.5


def test_many_classes_show_their_frequent_errors(folder: Path, run: Any, run_json: Any) -> None:
    rng = np.random.default_rng(0)
    lines = [f"{k},{k}k" if rng.random() < 0.8 else f"{k},0k" for k in rng.integers(0, 15, 600)]
    Path("k.csv").write_text("x,y\n" + "\n".join(lines), encoding="utf-8")
    words = ("--target", "y", "--out", "m", "--model", "tree", "--set", "max_depth=4")
    run_json("train", "k.csv", *words, "--device", "numpy")
    out = run("evaluate", "m", "k.csv", "--target", "y")[1]
    assert "most frequent errors" in out


# ---- inspect -----------------------------------------------------------------------------------


def test_contents_of_a_file(trained: Path, run: Any, run_json: Any) -> None:
    found = run_json("inspect", "c")
    model = gpuboost.load("c")
    assert found["estimator"] == "GradientBoostingClassifier" and found["version"] == 1
    assert (
        found["fingerprint"] == model.fingerprint() and found["bytes"] == Path("c").stat().st_size
    )
    assert len(found["sha256"]) == 64 and found["sha256"].encode() in Path("c").read_bytes()
    assert found["classes"] == ["maybe", "no", "yes"]
    depths = [tree.get_depth() for tree in model.estimators_.ravel()]
    leaves = sum(tree.get_n_leaves() for tree in model.estimators_.ravel())
    trees = found["trees"]
    assert (trees["count"], trees["leaves"]) == (15, leaves)
    assert (trees["min_depth"], trees["max_depth"]) == (min(depths), max(depths))
    assert found["parameters"] == {"n_estimators": 5, "random_state": 0}
    by_name = {own["name"]: own for own in found["features"]}
    assert by_name["city"]["categories"] == ["Lima", "Oslo", "Rome"]
    assert [own["importance"] for own in found["features"]] == model.feature_importances_.tolist()
    out = run("inspect", "c")[1]
    for text in ("SHA-256", "3: Lima, Oslo, Rome", "15, depth", "n_estimators=5", "3 features"):
        assert text in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("name", ["hist", "forest", "tree", "bagging", "adaboost"])
def test_contents_of_all_models(name: str, folder: Path, run: Any, run_json: Any) -> None:
    few = {"hist": "max_iter=3", "tree": "max_depth=2"}.get(name, "n_estimators=3")
    words = ("--model", name, "--set", few, "--device", "numpy", "--out", "m")
    run_json("train", "t.csv", "--target", "price", *drop("y"), *words)
    found = run_json("inspect", "m")
    assert found["classes"] is None and found["trees"]["count"] == (1 if name == "tree" else 3)
    assert run("inspect", "m")[0] == 0


def test_imported_models(folder: Path, run: Any, run_json: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)).astype(np.float32).astype(np.float64)
    np.save("X.npy", X)
    for kind, y in (("Classifier", X[:, 0] > 0.0), ("Regressor", X[:, 0])):
        source = getattr(ensemble, f"RandomForest{kind}")(3, max_depth=3, random_state=0).fit(X, y)
        gpuboost.from_sklearn(source).save("m")
        assert run("predict", "m", "X.npy", "--out", "p.npy")[0] == 0
        assert (np.load("p.npy") == source.predict(X)).all()
        found = run_json("inspect", "m")
        assert found["estimator"] == f"Imported{kind}" and found["trees"]["count"] == 3
        assert run("inspect", "m")[0] == 0 and run("predict", "m", "X.npy", "--raw")[0] == 0
        assert "an imported model" in run("convert", "m", "o", "--to", "json")[2]
        for target in ("treelite", "onnx", "sklearn"):
            status, out, err = run("convert", "m", "o", "--to", target)
            assert (status, out, len(err.splitlines())) == (2, "", 1) and not Path("o").exists()
            assert "export the model with scikit-learn" in err
        with pytest.raises(TypeError, match="a model of scikit-learn, for which there is no comp"):
            gpuboost.load("m").compile_predictor()


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from gpuboost.cli.main import main; main(['--help']); "
        "heavy = {'numpy', 'numba', 'sklearn', 'scipy', 'pyarrow', 'rich', 'tqdm'}; "
        "sys.exit(bool(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "evaluate" in done.stdout
