"""Gradient boosting prints the scores of its rounds with ``verbose``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuboost

Capture = pytest.CaptureFixture[str]


def lines(capsys: Capture, verbose: int, n: int = 25, **fit: Any) -> list[str]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    words: dict[str, Any] = {"subsample": fit.pop("subsample", 1.0)}
    model = gpuboost.GradientBoostingRegressor(n_estimators=n, verbose=verbose, **words)
    model.fit(X, X[:, 0], **fit)
    return capsys.readouterr().out.splitlines()


def rounds(printed: list[str]) -> list[int]:
    return [int(line.split()[0]) for line in printed[1:]]


def test_rounds_that_are_printed(capsys: Capture) -> None:
    assert lines(capsys, 0) == []
    assert rounds(lines(capsys, 1)) == [*range(1, 11), 20]
    assert rounds(lines(capsys, 2)) == list(range(1, 26))


def test_columns(capsys: Capture) -> None:
    plain = lines(capsys, 1, 3)
    assert plain[0].split("  ")[-1].strip() == "Remaining Time"
    assert " ".join(plain[0].split()) == "Iter Train Loss Remaining Time"
    sampled = lines(capsys, 1, 3, subsample=0.5)
    assert " ".join(sampled[0].split()) == "Iter Train Loss OOB Improve Remaining Time"


def test_scores_of_evaluation_sets(capsys: Capture) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3))
    model = gpuboost.GradientBoostingRegressor(n_estimators=3, verbose=1)
    model.fit(X, X[:, 0], eval_set=[(X, 2.0 * X[:, 0])])
    printed = capsys.readouterr().out.splitlines()
    assert "validation_0" in printed[0]
    expected = next(iter(model.evals_result_["validation_0"].values()))
    for line, train, score in zip(printed[1:], model.train_score_, expected, strict=True):
        assert line.split()[1:3] == [f"{train:.4f}", f"{score:.4f}"]


def test_a_warm_start_goes_on_counting(capsys: Capture) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    model = gpuboost.GradientBoostingRegressor(n_estimators=5, warm_start=True).fit(X, X[:, 0])
    model.set_params(n_estimators=8, verbose=1).fit(X, X[:, 0])
    assert rounds(capsys.readouterr().out.splitlines()) == [6, 7, 8]
