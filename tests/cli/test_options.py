"""Options of ``gpuboost train`` in a file, and parameters of estimators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gpuboost
from gpuboost.cli.models.choice import make_estimator, parsed_parameters
from tests.cli.test_train import CLASSES


def test_options_of_a_file_are_replaced_by_those_given(folder: Path, run_json: Any) -> None:
    Path("c.toml").write_text(
        """
        table = "t.csv"
        target = "price"
        out = "from_file"
        drop = ["y", "count", "w"]
        device = "numpy"
        valid = 0.2
        [set]
        n_estimators = 7
        max_depth = 2
        """,
        encoding="utf-8",
    )
    report = run_json("train", "--config", "c.toml", "--out", "m", "--set", "n_estimators=3")
    assert report["model"] == "m" and report["trees"] == 3 and report["rows_valid"] == 80
    assert gpuboost.load("m").max_depth == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tarhet = 'y'", "no option 'tarhet'; did you mean 'target'"),
        ("target = ", "is not valid TOML"),
        ("set = 3", "only [set] is a table"),
        ("[target]\na = 1", "only [set] is a table"),
        ("model = 'nothing'", "'nothing' is not one of 'boosting'"),
        ("drop = 'v'", "c.toml: drop must be a list of strings, got 'v'"),
        ("drop = [3]", "c.toml: drop must be a list of strings, got [3]"),
        ("valid = true", "c.toml: valid must be a fraction, or a table in quotes, got True"),
        ("target = 3", "c.toml: target must be a string in quotes, got 3"),
        ("table = ['t.csv']", "c.toml: table must be a string in quotes, got ['t.csv']"),
        ("no-header = 'no'", "c.toml: no-header must be true or false, got 'no'. See gpuboost tr"),
        ("seed = 1.5", "c.toml: seed must be a whole number from 0 to 4294967295, got 1.5"),
        ("seed = -1", "must be a whole number from 0 to 4294967295, got -1. See gpuboost train"),
    ],
)
def test_wrong_files_of_options(text: str, message: str, folder: Path, run: Any) -> None:
    Path("c.toml").write_text(text, encoding="utf-8")
    status, out, err = run("train", "t.csv", *CLASSES, "--config", "c.toml")
    assert status == 2 and not out
    assert message in err and len(err.splitlines()) == 1


def test_values_of_parameters() -> None:
    texts = {
        "3": 3,
        "0.5": 0.5,
        "1e-3": 1e-3,
        "null": None,
        "None": None,
        "true": True,
        "False": False,
        "sqrt": "sqrt",
        '"3"': "3",
        "[0.1, 0.9]": [0.1, 0.9],
        "['a', 'b']": ["a", "b"],
        '{"age": 1}': {"age": 1},
        "{age = 1}": {"age": 1},
    }
    for text, value in texts.items():
        found = parsed_parameters([f"name = {text}"])
        assert found == {"name": value} and type(found["name"]) is type(value)
    assert parsed_parameters(["a=1", "a=2=3"]) == {"a": "2=3"}


def test_parameters_of_the_trees_of_an_ensemble() -> None:
    for name, depth in (("adaboost", 1), ("bagging", None)):
        made = make_estimator(name, True, {"estimator__min_samples_leaf": 3})
        assert made.estimator.min_samples_leaf == 3 and made.estimator.max_depth == depth
    with pytest.raises(ValueError, match="no parameter 'estimator__max_dept'"):
        make_estimator("bagging", False, {"estimator__max_dept": 3})
    with pytest.raises(ValueError, match="no parameter 'estimator__max_depth'"):
        make_estimator("forest", False, {"estimator__max_depth": 3})
