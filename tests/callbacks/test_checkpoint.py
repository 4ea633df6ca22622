"""A fit that was stopped goes on to the model of a fit that was not."""

from __future__ import annotations

import errno
import os
import random
import re
import subprocess
import sys
import time
from copy import deepcopy
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.linear_model
from sklearn.base import clone

import gpuboost
from gpuboost.callbacks import Checkpoint, RoundResult
from gpuboost.estimators.files import estimators as files
from tests import cuda_shim
from tests.callbacks.cases import KINDS, data, fit, make
from tests.fakes import fake_cupy
from tests.fakes.gpu_arrays import to_gpu

N_KILLS = int(os.environ.get("GPUBOOST_TEST_KILLS", "1"))  # of each kind of estimator


needs_compiler = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)


class StopError(Exception):
    """Ends a fit as an error would."""


def stop_after(number: int) -> Any:
    def stop(result: RoundResult) -> None:
        if result.number == number:
            raise StopError

    return stop


def assert_same_fit(one: Any, other: Any) -> None:
    """The same model, scores and other fitted attributes."""
    assert one.fingerprint() == other.fingerprint()
    names = {name for name in vars(other) if name.endswith("_") and name != "estimator_"}
    assert names == {name for name in vars(one) if name.endswith("_") and name != "estimator_"}
    for name in names:
        np.testing.assert_equal(vars(one)[name], vars(other)[name], err_msg=name)


@pytest.mark.parametrize("device", ["numpy", "numba", pytest.param("cuda", marks=needs_compiler)])
@pytest.mark.parametrize("name", KINDS)
def test_a_resumed_fit_is_the_whole_fit(
    name: str, device: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if device == "cuda":
        request.getfixturevalue("machine")
    path = tmp_path / "checkpoint"
    whole = fit(make(name, 14, device))
    for stop in (4, 9):
        checkpoint = Checkpoint(path, every_trees=2)
        with pytest.raises(StopError):
            fit(make(name, 14, device, callbacks=[checkpoint, stop_after(stop)]))
    part = gpuboost.load(path)
    assert len(part.estimators_) == 10
    assert_same_fit(fit(make(name, 14, device, callbacks=[Checkpoint(path)])), whole)
    assert gpuboost.load(path).fingerprint() == whole.fingerprint()
    again = fit(make(name, 14, device, callbacks=[Checkpoint(path), stop_after(0)]))  # all known
    assert_same_fit(again, whole)


@needs_compiler
@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores")
@pytest.mark.parametrize("name", ["AdaBoostClassifier", "AdaBoostRegressor", KINDS[0], KINDS[-1]])
def test_a_resumed_fit_on_arrays_of_a_gpu(
    name: str, tmp_path: Path, machine: fake_cupy.Machine
) -> None:
    X, y, classes = data()
    given = to_gpu(X), to_gpu(classes if name == "AdaBoostClassifier" else y)
    whole = make(name, 7, "cuda")
    path = tmp_path / "file"
    with pytest.raises(StopError):
        part = clone(whole).set_params(callbacks=[Checkpoint(path, every_trees=2), stop_after(4)])
        part.fit(*given)
    resumed = clone(whole).set_params(callbacks=[Checkpoint(path)]).fit(*given)
    assert resumed.fingerprint() == whole.fit(*given).fingerprint()


@pytest.mark.parametrize("name", ["RandomForestRegressor", "GradientBoostingRegressor"])
def test_a_fit_goes_on_on_another_device_with_more_trees(name: str, tmp_path: Path) -> None:
    fit(make(name, 6, "numpy", callbacks=[Checkpoint(tmp_path / "file")]))
    other = fit(make(name, 11, "numba", callbacks=[Checkpoint(tmp_path / "file")]))
    assert other.fingerprint() == fit(make(name, 11, "numpy")).fingerprint()


def test_early_stopping_remembers(tmp_path: Path) -> None:
    """The fit was stopped in the rounds without an improvement."""
    options = {"n_iter_no_change": 3, "tol": 1e-3}
    whole = fit(make("GradientBoostingClassifier", 100).set_params(**options))
    last = whole.n_estimators_ - 1
    assert 3 < last < 99
    for stop in (last - 1, last):
        path = tmp_path / f"after{stop}"
        callbacks = [Checkpoint(path, every_trees=1), stop_after(stop)]
        with pytest.raises(StopError):
            fit(make("GradientBoostingClassifier", 100, callbacks=callbacks).set_params(**options))
        model = make("GradientBoostingClassifier", 100, callbacks=[Checkpoint(path)])
        assert_same_fit(fit(model.set_params(**options)), whole)


def test_the_seed_of_the_first_fit_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(StopError):
        callbacks = [Checkpoint(path, every_trees=1), stop_after(2)]
        fit(make("RandomForestRegressor", 9, callbacks=callbacks).set_params(random_state=None))
    part = gpuboost.load(path)
    model = make("RandomForestRegressor", 9, callbacks=[Checkpoint(path)])
    fit(model.set_params(random_state=None))
    trees = model._ensemble.first(3)
    assert trees.fingerprint(model._model.mapper) == part._ensemble.fingerprint(part._model.mapper)
    assert len({batch.sampler.seed for batch in model._model.batches}) == 1


@pytest.mark.parametrize(
    "change, what",
    [
        (lambda m, X, y: m.set_params(max_depth=2), "parameters"),
        (lambda m, X, y: y.__setitem__(0, 9.0), "data, weights or evaluation sets"),
        (lambda m, X, y: X.__setitem__((0, 0), 9.0), "data, weights or evaluation sets"),
    ],
)
def test_other_fits_are_refused(change: Any, what: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    X, y, _ = data()
    gpuboost.RandomForestRegressor(4, random_state=0, callbacks=[Checkpoint(path)]).fit(X, y)
    model = gpuboost.RandomForestRegressor(6, random_state=0, callbacks=[Checkpoint(path)])
    change(model, X, y)
    with pytest.raises(ValueError, match=f"is of a fit with other {what}; delete it"):
        model.fit(X, y)
    assert not hasattr(model, "classes_")
    model.set_params(callbacks=[Checkpoint(path, resume=False)]).fit(X, y)
    assert len(gpuboost.load(path).estimators_) == 6


def test_other_weights_and_evaluation_sets_are_refused(tmp_path: Path) -> None:
    X, y, _ = data()
    checkpoint = Checkpoint(tmp_path / "file")
    model = gpuboost.GradientBoostingRegressor(
        n_estimators=3, random_state=0, callbacks=[checkpoint]
    )
    model.fit(X, y, eval_set=[(X[:9], y[:9])])
    model.set_params(n_estimators=5)
    with pytest.raises(ValueError, match="other data, weights"):
        model.fit(X, y, eval_set=[(X[:8], y[:8])])
    with pytest.raises(ValueError, match="other data, weights"):
        model.fit(X, y, np.arange(len(y)) + 1.0, eval_set=[(X[:9], y[:9])])


def test_files_that_are_no_checkpoints_are_refused(tmp_path: Path) -> None:
    X, y, _ = data()
    path = tmp_path / "file"
    model = gpuboost.RandomForestRegressor(2, device="numpy").fit(X, y)
    model.save(path)
    with pytest.raises(ValueError, match="is a model file, but not a checkpoint"):
        model.set_params(callbacks=[Checkpoint(path)]).fit(X, y)
    fit(make("AdaBoostRegressor", 3, callbacks=[Checkpoint(tmp_path / "other")]))
    with pytest.raises(ValueError, match="is of a AdaBoostRegressor, not of a RandomForest"):
        model.set_params(callbacks=[Checkpoint(tmp_path / "other")]).fit(X, y)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="cannot load a checkpoint"):
        model.set_params(callbacks=[Checkpoint(path)]).fit(X, y)


class NeverRead:
    """Features that no fit may read."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise AssertionError


def test_a_path_that_cannot_be_written_is_an_error_before_the_data_are_read(tmp_path: Path) -> None:
    for path, error in ((tmp_path / "no" / "file", FileNotFoundError), (tmp_path, OSError)):
        model = make("RandomForestRegressor", 3, callbacks=[Checkpoint(path)])
        with pytest.raises(error, match=re.escape(str(path))):
            model.fit(NeverRead(), [0.0, 1.0])
    assert not list(tmp_path.iterdir())


def test_a_full_disk_does_not_end_the_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    fit(make("AdaBoostRegressor", 3, callbacks=[Checkpoint(path)]))
    before = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "write_file", full)
    model = make("AdaBoostRegressor", 7, callbacks=[Checkpoint(path, every_trees=1)])
    with pytest.warns(UserWarning, match="could not be written after tree or round .: .*No space"):
        fit(model)
    assert model.fingerprint() == fit(make("AdaBoostRegressor", 7)).fingerprint()
    assert path.read_bytes() == before


def test_a_model_of_python_code_is_an_error_after_the_first_tree(tmp_path: Path) -> None:
    seen: list[int] = []
    callbacks = [lambda result: seen.append(result.number), Checkpoint(tmp_path / "file")]
    model = make("GradientBoostingRegressor", 5, callbacks=callbacks)
    model.set_params(init=sklearn.linear_model.LinearRegression())
    with pytest.raises(ValueError, match="only gpuboost's own estimators can be saved"):
        fit(model)
    assert seen == [0]


# ---- trees added to a model ----------------------------------------------------------------------


def extend(name: str, before: Any, by_init_model: bool, callbacks: Any = None) -> Any:
    """A copy of a fitted estimator to which 9 trees are added."""
    X, y, classes = data()
    if by_init_model:
        model = make(name, 9, callbacks=callbacks)
        more: dict[str, Any] = {"init_model": before}
    else:
        model = deepcopy(before).set_params(warm_start=True, callbacks=callbacks)
        model.set_params(n_estimators=len(before.estimators_) + 9)
        more = {}
    if name == "GradientBoostingRegressor":
        more["eval_set"] = [(X[:50], y[:50])]
    return model.fit(X, classes if name.endswith("Classifier") else y, **more)


@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores")
@pytest.mark.parametrize(
    "name, by_init_model",
    [
        ("ExtraTreesClassifier", False),
        ("RandomForestRegressor", False),
        ("GradientBoostingClassifier", False),
        ("GradientBoostingClassifier", True),
        ("GradientBoostingRegressor", True),
    ],
)
def test_trees_added_to_a_model_are_resumed(name: str, by_init_model: bool, tmp_path: Path) -> None:
    path, before = tmp_path / "file", fit(make(name, 5))
    fingerprint = before.fingerprint()
    whole = extend(name, before, by_init_model)
    n_known = len(before.estimators_)
    for stop in (n_known + 3, n_known + 5):
        with pytest.raises(StopError):
            callbacks = [Checkpoint(path, every_trees=1), stop_after(stop)]
            extend(name, before, by_init_model, callbacks)
        assert len(gpuboost.load(path).estimators_) == stop + 1
    assert_same_fit(extend(name, before, by_init_model, [Checkpoint(path)]), whole)
    assert before.fingerprint() == fingerprint
    other = fit(make(name, 4))
    with pytest.raises(ValueError, match="a fit with another model to which it adds trees"):
        extend(name, other, by_init_model, [Checkpoint(path)])


def test_a_warm_start_goes_on_from_the_model_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    model = fit(make("RandomForestRegressor", 4, callbacks=[Checkpoint(path)], warm_start=True))
    fit(model.set_params(n_estimators=7))
    assert model.fingerprint() == gpuboost.load(path).fingerprint()
    assert model.fingerprint() == fit(make("RandomForestRegressor", 7)).fingerprint()


def test_fewer_trees_than_in_the_file_are_refused(tmp_path: Path) -> None:
    for name, what in zip(KINDS, ("trees",) * 3 + ("rounds",) * 4, strict=True):
        fit(make(name, 6, callbacks=[Checkpoint(tmp_path / name)]))
        with pytest.raises(ValueError, match=f"n_estimators=4 is less than the 6 {what} in the"):
            fit(make(name, 4, callbacks=[Checkpoint(tmp_path / name)]))


def test_a_checkpoint_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    callbacks = [Checkpoint(tmp_path / "file")]
    fit(make("RandomForestRegressor", 3, callbacks=callbacks))
    monkeypatch.setattr(metadata, "version", lambda name: "0.0.1")
    with pytest.raises(ValueError, match="is of a fit with another version of gpuboost"):
        fit(make("RandomForestRegressor", 3, callbacks=callbacks))


def test_an_interrupt_while_the_last_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "write_file", interrupt)
    for name in KINDS:
        callbacks = [Checkpoint(tmp_path / "file")]
        model = make(name, 4, callbacks=callbacks, keep_on_interrupt=True)
        with pytest.warns(UserWarning, match="interrupted and keeps the 4"):
            fit(model)
        assert model.fingerprint() == fit(make(name, 4)).fingerprint()


@pytest.mark.parametrize("name", KINDS)
def test_an_interrupt_writes_the_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / "file"

    def interrupt(result: RoundResult) -> None:
        if result.number == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(make(name, 8, callbacks=[Checkpoint(path, every_seconds=3600), interrupt]))
    assert len(gpuboost.load(path).estimators_) == 5
    assert_same_fit(fit(make(name, 8, callbacks=[Checkpoint(path)])), fit(make(name, 8)))


def test_errors_of_other_data_name_the_checkpoint(tmp_path: Path) -> None:
    X, _y, classes = data()
    callbacks = [Checkpoint(tmp_path / "file")]
    model = gpuboost.RandomForestClassifier(3, device="numpy", callbacks=callbacks)
    model.fit(X, classes)
    for own, labels in ((X[:, :3], classes), (X, classes + 1)):
        with pytest.raises(ValueError, match="This fit is resumed from a checkpoint"):
            clone(model).fit(own, labels)


def test_a_saved_model_needs_no_callbacks(tmp_path: Path) -> None:
    model = fit(make("RandomForestRegressor", 3, callbacks=[Checkpoint(tmp_path / "file")]))
    model.save(tmp_path / "model")  # warnings are errors
    assert gpuboost.load(tmp_path / "model").callbacks is None


def test_parameters_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="every_trees must be"):
        Checkpoint(tmp_path / "file", every_trees=0)
    with pytest.raises(ValueError, match="every_seconds must be"):
        Checkpoint(tmp_path / "file", every_seconds=-1.0)


def test_by_time(tmp_path: Path) -> None:
    written = []

    class Counted(Checkpoint):
        def __call__(self, result: RoundResult) -> None:
            super().__call__(result)
            written.append(self.path.exists())

    fit(make("RandomForestRegressor", 3, callbacks=[Counted(tmp_path / "a", every_seconds=0.0)]))
    fit(make("RandomForestRegressor", 3, callbacks=[Counted(tmp_path / "b", every_seconds=99.0)]))
    assert written == [True, True, True, False, False, False]
    assert len(gpuboost.load(tmp_path / "b").estimators_) == 3  # written after the last tree


# ---- processes that are killed -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_killed_at_random_moments(name: str, tmp_path: Path) -> None:
    """SIGKILL, `N_KILLS` times; ``GPUBOOST_TEST_KILLS`` sets the number."""
    n_trees, device = 60, "numpy"
    whole = fit(make(name, n_trees, device), 2000)
    draw = random.Random(time.time_ns())
    for kill in range(N_KILLS):
        path = tmp_path / f"checkpoint{kill}"
        killed_after = draw.uniform(0.0, 2.0)
        start_and_kill(name, n_trees, path, device, killed_after)
        if draw.random() < 0.5:
            start_and_kill(name, n_trees, path, device, draw.uniform(0.0, 2.0))
        resumed = make(name, n_trees, device, callbacks=[Checkpoint(path, every_trees=5)])
        assert_same_fit(fit(resumed, 2000), whole)


def start_and_kill(name: str, n_trees: int, path: Path, device: str, seconds: float) -> None:
    """Start a fit in a process of its own, and kill it some time after the fit began."""
    command = [sys.executable, "-m", "tests.callbacks.cases", name, str(n_trees), str(path), device]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "starts\n"
        time.sleep(seconds)
        process.kill()
