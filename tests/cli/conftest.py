"""A table with numbers, categories, missing values and targets of all kinds."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import csv

from gpuboost.cli.main import main


def make_table(n_rows: int, seed: int = 0) -> pyarrow.Table:
    """Rows of which ``y`` and ``price`` can be predicted."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n_rows)
    income = rng.normal(50.0, 20.0, n_rows).round(2)
    city = rng.choice(["Rome", "Oslo", "Lima"], n_rows).astype(object)
    label = np.where((age > 40) & (city == "Rome"), "yes", np.where(income > 60.0, "maybe", "no"))
    price = age * 2.5 + (city == "Oslo") * 20.0 + rng.normal(0.0, 5.0, n_rows)
    city[::11] = None
    return pyarrow.table(
        {
            "age": age,
            "income": pyarrow.array(income, mask=np.arange(n_rows) % 7 == 0),
            "city": pyarrow.array(city.tolist()),
            "w": rng.random(n_rows) + 0.5,
            "y": label.tolist(),
            "price": price.round(3),
            "count": rng.integers(0, 3, n_rows),
        }
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with ``t.csv`` of 400 rows and ``v.csv`` of 100 others."""
    monkeypatch.chdir(tmp_path)
    csv.write_csv(make_table(400), "t.csv")
    csv.write_csv(make_table(100, seed=1), "v.csv")
    return tmp_path


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Any:
    """A function that runs a command and returns its status, its output and its messages."""

    def runs(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        status = main([str(word) for word in words])
        return status, *capfd.readouterr()

    return runs


@pytest.fixture
def run_json(run: Any) -> Any:
    """A function that runs a command with ``--json`` and returns the object that it prints."""

    def runs(*words: str) -> Any:
        status, out, err = run(*words, "--json")
        assert status == 0, err + out
        return json.loads(out)

    return runs


def set_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Put bytes on standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


FEW = ("--set", "n_estimators=5", "--device", "numpy")
NO_TARGETS = ("--drop", "y", "--drop", "price", "--drop", "count")


def drop(*names: str) -> list[str]:
    """Options that drop columns."""
    return [word for name in names for word in ("--drop", name)]


FEATURES = ["age", "income", "city"]


@pytest.fixture
def trained(folder: Path, run: Any) -> Path:
    """The folder with a classifier ``c`` and a regressor ``r``."""
    for name, target in (("c", "y"), ("r", "price")):
        others = drop(*({"y", "price", "count", "w"} - {target}))
        status, _, err = run("train", "t.csv", "--target", target, "--out", name, *others, *FEW)
        assert status == 0, err
    return folder


def features(n_rows: int = 100, seed: int = 1) -> Any:
    return make_table(n_rows, seed).select(FEATURES)
