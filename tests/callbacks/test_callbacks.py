"""Callbacks of all ensembles, time limits, logs and interrupts."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpuboost
from gpuboost.backends.numpy.batches import WATCHED_TREES
from gpuboost.backends.numpy.level_ops import NumpyLevelOps
from gpuboost.callbacks import Callback, Log, Progress, RoundResult, TimeBudget, reports
from tests.callbacks.cases import KINDS, data, fit, make


@pytest.mark.parametrize("device", ["numpy", "numba"])
@pytest.mark.parametrize("name", KINDS)
def test_callbacks_see_every_tree_and_can_end_the_fit(name: str, device: str) -> None:
    seen: list[RoundResult] = []

    def look(result: RoundResult) -> bool:
        seen.append(result)
        return result.number == 5

    model = fit(make(name, 9, device, callbacks=[look]))
    assert [result.number for result in seen] == list(range(6))
    assert {result.n_total for result in seen} == {9}
    assert len(model.estimators_) == 6
    assert model.fingerprint() == fit(make(name, 6, device)).fingerprint()
    boosted = "Boost" in name
    assert all((result.train_score is not None) == boosted for result in seen)


def test_what_ends_a_fit() -> None:
    class Named:
        """Its attributes are no hooks."""

        start, check_data, finish = 1, 2, 3

        def __call__(self, result: RoundResult) -> float:
            return 1.0

    callbacks = [Named(), lambda result: np.bool_(result.number == 2)]
    for name in KINDS:
        assert len(fit(make(name, 5, callbacks=callbacks)).estimators_) == 3


def test_hooks_of_callbacks_are_called_in_order() -> None:
    class Noting(Callback):
        def __init__(self) -> None:
            self.calls: list[Any] = []

        def start(self, estimator: Any, before: Any) -> None:
            self.calls.append(("start", type(estimator).__name__, before))

        def check_data(self, estimator: Any, digest: Any) -> None:
            self.calls.append(("check_data", len(digest())))

        def __call__(self, result: RoundResult) -> None:
            self.calls.append(result.number)

        def finish(self, result: RoundResult) -> None:
            self.calls.append(("finish", result.number))

    for name in KINDS:
        noting = Noting()
        fit(make(name, 2, callbacks=[noting]))
        expected = [("start", name, None), ("check_data", 64), 0, 1, ("finish", 1)]
        assert noting.calls == expected


def test_a_callback_gets_a_fitted_estimator() -> None:
    found: list[Any] = []
    fit(make("RandomForestRegressor", 4, callbacks=lambda result: found.append(result.estimator())))
    X = data()[0]
    for number, part in enumerate(found):
        assert len(part.estimators_) == number + 1 and part.callbacks is None
        other = fit(make("RandomForestRegressor", number + 1))
        np.testing.assert_array_equal(part.predict(X), other.predict(X))


def test_wrong_callbacks_are_refused_before_anything_is_grown() -> None:
    with pytest.raises(TypeError, match="callbacks must be a function"):
        fit(make("RandomForestRegressor", 4, callbacks=3))
    with pytest.raises(TypeError, match=r"callbacks must be a function .* got <class"):
        fit(make("RandomForestRegressor", 4, callbacks=[Progress]))
    with pytest.raises(TypeError, match="keep_on_interrupt must be"):
        fit(make("RandomForestRegressor", 4, keep_on_interrupt="yes"))


# ---- interrupts ----------------------------------------------------------------------------------


def interrupt_after(number: int) -> Any:
    def interrupt(result: RoundResult) -> None:
        if result.number == number:
            raise KeyboardInterrupt

    return interrupt


@pytest.mark.parametrize("device", ["numpy", "numba"])
@pytest.mark.parametrize("name", KINDS)
def test_an_interrupt_can_keep_the_trees_so_far(name: str, device: str) -> None:
    model = make(name, 9, device, keep_on_interrupt=True, callbacks=[interrupt_after(3)])
    with pytest.warns(UserWarning, match=r"interrupted and keeps the 4 (trees|rounds) so far"):
        fit(model)
    assert model.fingerprint() == fit(make(name, 4, device)).fingerprint()


@pytest.mark.parametrize("name", KINDS)
def test_otherwise_an_interrupt_leaves_the_estimator_as_it_was(name: str) -> None:
    model = fit(make(name, 3))
    before = model.fingerprint()
    with pytest.raises(KeyboardInterrupt):
        fit(model.set_params(n_estimators=9, callbacks=[interrupt_after(3)]))
    assert model.fingerprint() == before


@pytest.mark.parametrize("keep", [True, False])
def test_an_interrupt_before_the_first_tree_is_raised(keep: bool) -> None:
    class Interrupts:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gpuboost.RandomForestRegressor(keep_on_interrupt=keep).fit(Interrupts(), [0.0, 1.0])


def test_numpy_grows_few_trees_at_once_if_callbacks_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    start = NumpyLevelOps.start
    monkeypatch.setattr(
        NumpyLevelOps, "start", lambda task, trees: sizes.append(len(trees)) or start(task, trees)
    )
    expected = fit(make("RandomForestRegressor", 30)).fingerprint()
    assert max(sizes) > WATCHED_TREES
    sizes.clear()
    model = make("RandomForestRegressor", 30, callbacks=[lambda result: None])
    assert fit(model).fingerprint() == expected
    assert set(sizes) == {WATCHED_TREES, 30 % WATCHED_TREES}


# ---- the callbacks of the package ----------------------------------------------------------------


def test_time_budget_ends_the_fit() -> None:
    start = time.monotonic()
    slow = lambda result: time.sleep(0.02)  # noqa: E731
    model = fit(make("GradientBoostingRegressor", 500, callbacks=[slow, TimeBudget(0.2)]))
    assert 2 <= model.n_estimators_ < 30
    assert time.monotonic() - start < 5.0
    assert fit(make("AdaBoostRegressor", 9, callbacks=[TimeBudget(60.0)])).fingerprint() == (
        fit(make("AdaBoostRegressor", 9)).fingerprint()
    )
    with pytest.raises(ValueError, match="seconds must be"):
        TimeBudget(-1.0)


def test_the_clock_of_a_time_budget_starts_with_each_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    callbacks = [TimeBudget(1000.0)]
    model = fit(make("GradientBoostingRegressor", 2, callbacks=callbacks, warm_start=True))
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + 2000.0)
    monkeypatch.setattr(reports, "time", later)
    assert fit(model.set_params(n_estimators=4)).n_estimators_ == 4


def test_log_to_a_function_and_a_file(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    path = tmp_path / "log.jsonl"
    callbacks = [Log(seen.append, every=2), Log(path)]
    model = fit(make("GradientBoostingRegressor", 5, callbacks=callbacks))
    assert [facts["number"] for facts in seen] == [1, 3]
    scores = model.evals_result_["validation_0"]["huber"]
    assert seen[1]["validation_0 huber"] == scores[3]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["train_score"] for line in lines] == model.train_score_.tolist()
    assert all(0.0 <= line["seconds"] < 60.0 for line in lines)


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="target must be a function or a path, got 3"):
        Log(3)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        fit(make("RandomForestRegressor", 2, callbacks=[Log(tmp_path / "no" / "log")]))
    path = tmp_path / "log"

    def replace(result: RoundResult) -> None:
        path.unlink(missing_ok=True) if path.is_file() else None
        path.mkdir(exist_ok=True)

    model = make("RandomForestRegressor", 2, callbacks=[replace, Log(path)])
    with pytest.warns(UserWarning, match="the log .* could not be written"):
        assert len(fit(model).estimators_) == 2


def test_progress_shows_the_trees(capsys: pytest.CaptureFixture[str]) -> None:
    fit(make("GradientBoostingRegressor", 5, callbacks=[Progress()]))
    assert "5/5" in capsys.readouterr().err
    fit(make("RandomForestRegressor", 3, callbacks=[Progress()]))
    assert "3/3" in capsys.readouterr().err
