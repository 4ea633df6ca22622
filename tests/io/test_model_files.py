"""Model files: what is saved is loaded, on any device, and nothing is lost by a crash."""

from __future__ import annotations

import json
import os
import pickle
import stat
import subprocess
import sys
import tracemalloc
from dataclasses import fields
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
from sklearn.linear_model import LinearRegression, LogisticRegression

import gpuboost
from gpuboost.estimators.files.estimators import FILE_VERSION, model_file_parts
from gpuboost.io import container
from tests.estimators.estimator_cases import NAMES, data_for, frame_of, make
from tests.io.old_files import FOLDER, expected


def reloaded(model: Any, path: Path, **machine: Any) -> Any:
    model.save(path)
    return gpuboost.load(path, **{"device": "numpy", **machine})


def assert_same(model: Any, other: Any, X: Any) -> None:
    """The same bits in predictions, and the same fitted attributes and parameters."""
    assert type(other) is type(model) and other.fingerprint() == model.fingerprint()
    np.testing.assert_array_equal(model.predict(X), other.predict(X))
    if hasattr(model, "predict_proba"):
        np.testing.assert_array_equal(model.predict_proba(X), other.predict_proba(X))
    assert sorted(vars(other)) == sorted(vars(model))
    for name, value in vars(model).items():
        if name.endswith("_") and not name.startswith(("estimator_", "init_")):
            assert_equal(value, vars(other)[name])
    hidden = {"device", "n_jobs", "estimator", "init"}
    for name, value in model.get_params(deep=False).items():
        if name not in hidden:
            assert_equal(value, getattr(other, name))


def assert_equal(one: Any, other: Any) -> None:
    assert type(one) is type(other), (one, other)
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
    np.testing.assert_equal(other, one)


@pytest.mark.parametrize("name", NAMES)
def test_every_estimator_is_loaded_as_it_was_saved(name: str, tmp_path: Path) -> None:
    X, y = data_for(name)
    model = make(name).fit(X, y)
    other = reloaded(model, tmp_path / "model")
    assert_same(model, other, X)
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize("name", NAMES)
def test_an_estimator_with_categories_and_names(name: str, tmp_path: Path) -> None:
    frame, y = frame_of("pandas")
    y = np.digitize(y, [0.5, 1.5]).astype(str) if name.endswith("Classifier") else y
    model = make(name).fit(frame, y)
    assert_same(model, reloaded(model, tmp_path / "model"), frame)


@pytest.mark.parametrize(
    "labels",
    [
        np.array([3, 7, 9], np.uint8),
        np.array([True, False, True]),
        np.array([-1.0, 0.0, 2.0]),
        np.array(["a", "b\udc80", "日本"]),
        np.array(["a", "b", "cc"], dtype=object),
        np.array([2**63 - 1, -(2**63), 0]),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_class_labels_keep_their_type(labels: np.ndarray, tmp_path: Path) -> None:
    X = np.arange(30.0)[:, None]
    model = gpuboost.DecisionTreeClassifier(device="numpy").fit(X, labels[np.arange(30) % 3])
    assert_same(model, reloaded(model, tmp_path / "model"), X)


def test_categories_keep_their_types(tmp_path: Path) -> None:
    X = np.empty((40, 3), dtype=object)
    X[:, 0] = np.array([1, 2.5, True, "1", np.int64(7)], dtype=object)[np.arange(40) % 5]
    X[:, 1] = np.array(["x", None], dtype=object)[np.arange(40) % 2]
    X[:, 2] = np.arange(40)
    model = gpuboost.DecisionTreeRegressor(device="numpy", categorical_features=[0, 1])
    model.fit(X, np.arange(40) % 7)
    assert_same(model, reloaded(model, tmp_path / "model"), X)


def test_a_category_of_another_type_is_refused(tmp_path: Path) -> None:
    X = np.array([[Decimal(1)], [Decimal(2)]] * 5, dtype=object)
    model = gpuboost.DecisionTreeRegressor(device="numpy", categorical_features=[0])
    model.fit(X, np.arange(10))
    with pytest.raises(ValueError, match=r"Decimal\('1'\) is of type Decimal; a file holds"):
        model.save(tmp_path / "model")


def test_a_model_predicts_the_same_on_any_device(tmp_path: Path) -> None:
    X, y = data_for("GradientBoostingRegressor")
    model = gpuboost.GradientBoostingRegressor(n_estimators=9, device="numpy").fit(X, y)
    other = reloaded(model, tmp_path / "model", device="numba", n_jobs=2)
    assert (other.device, other.n_jobs) == ("numba", 2)
    np.testing.assert_array_equal(model.predict(X), other.predict(X))


@pytest.mark.parametrize("bootstrap", [True, False])
def test_rows_drawn_by_weight_are_known_after_loading(bootstrap: bool, tmp_path: Path) -> None:
    X, y = data_for("BaggingRegressor")
    weights = np.random.default_rng(0).random(len(y)) + 0.1
    draw = {"max_samples": 100.0 / len(y)} if not bootstrap else {}
    model = make("BaggingRegressor", bootstrap=bootstrap, max_features=0.5, **draw)
    if bootstrap:
        model.fit(X, y, weights)
    else:
        with pytest.warns(UserWarning, match="bootstrap=True"):
            model.fit(X, y, weights)
    other = reloaded(model, tmp_path / "model")
    for one, own in zip(model.estimators_samples_, other.estimators_samples_, strict=True):
        np.testing.assert_array_equal(one, own)


@pytest.mark.parametrize("name", ["RandomForestClassifier", "GradientBoostingRegressor"])
def test_a_warm_start_goes_on_from_a_loaded_model(name: str, tmp_path: Path) -> None:
    X, y = data_for(name)
    model = make(name, warm_start=True).fit(X, y)
    other = reloaded(model, tmp_path / "model")
    for each in (model, other):
        each.set_params(n_estimators=9).fit(X, y)
    assert_same(model, other, X)


def test_sizes_of_files_and_pickles(tmp_path: Path) -> None:
    X, y = data_for("GradientBoostingRegressor")
    model = gpuboost.GradientBoostingRegressor(n_estimators=100, max_depth=6, device="numpy")
    model.fit(X, y).save(tmp_path / "model")
    size = (tmp_path / "model").stat().st_size
    assert len(pickle.dumps(model)) <= 1.2 * size
    # 42 bytes for each node, and 16 for each bin
    bytes_of_nodes = size - 16 * len(model._model.mapper.lowest)
    assert bytes_of_nodes < 42 * len(model._ensemble.feature) + 20_000


def test_pickles_of_version_0_1_0_are_loaded() -> None:
    """They hold all arrays of the trees."""
    model = make("RandomForestRegressor").fit(*data_for("RandomForestRegressor"))
    ensemble, mapper = model._ensemble, model._model.mapper
    old = object.__new__(type(ensemble))
    old.__setstate__({f.name: getattr(ensemble, f.name) for f in fields(ensemble)})
    assert old.fingerprint(mapper) == ensemble.fingerprint(mapper)


# ---- code ----------------------------------------------------------------------------------------


class RawSquares:
    """A loss whose predictions are raw predictions."""

    def gradient(self, y: np.ndarray, raw: np.ndarray) -> np.ndarray:
        return raw - y

    def hessian(self, y: np.ndarray, raw: np.ndarray) -> np.ndarray:
        return np.ones_like(y)


class Doubled(RawSquares):
    def predict(self, raw: np.ndarray) -> np.ndarray:
        return 2.0 * raw


def test_parameters_that_are_code_are_left_out(tmp_path: Path) -> None:
    X, y = data_for("GradientBoostingRegressor")
    model = make("GradientBoostingRegressor", callbacks=[print], loss=RawSquares())
    model.set_params(callbacks=[lambda result: None]).fit(X, y)
    with pytest.warns(UserWarning, match="the file does not hold loss=") as caught:
        model.save(tmp_path / "model")
    assert len(caught) == 1  # callbacks belong to the fit
    other = gpuboost.load(tmp_path / "model")
    assert other.callbacks is None and other.loss == "squared_error"
    np.testing.assert_array_equal(model.predict(X), other.predict(X))
    other.set_params(warm_start=True)
    with pytest.warns(UserWarning, match="without increasing n_estimators"):
        other.fit(X, y)
    other.set_params(n_estimators=other.n_estimators + 1)
    with pytest.raises(ValueError, match="this model was read without its loss; set the parameter"):
        other.fit(X, y)
    further = model.set_params(warm_start=True, n_estimators=other.n_estimators).fit(X, y)
    assert other.set_params(loss=RawSquares()).fit(X, y).fingerprint() == further.fingerprint()


def test_models_that_need_code_are_refused(tmp_path: Path) -> None:
    X, y = data_for("GradientBoostingRegressor")
    model = make("GradientBoostingRegressor", loss=Doubled()).fit(X, y)
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="has a method predict"):
        model.save(tmp_path / "model")
    model = make("GradientBoostingRegressor", init=LinearRegression()).fit(X, y)
    with pytest.warns(UserWarning), pytest.raises(ValueError, match=r"only gpuboost's own"):
        model.save(tmp_path / "model")
    model = gpuboost.BaggingClassifier(LogisticRegression(max_iter=10_000), n_estimators=2)
    with pytest.raises(TypeError, match="was fitted by scikit-learn"):
        model.fit(X, y > 100).save(tmp_path / "model")

    class Own(gpuboost.DecisionTreeRegressor):
        pass

    with pytest.raises(ValueError, match=r"only gpuboost's own estimators"):
        Own(device="numpy").fit(X, y).save(tmp_path / "model")
    assert not os.listdir(tmp_path)


def test_an_unfitted_estimator_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not fitted yet"):
        gpuboost.RandomForestRegressor().save(tmp_path / "model")


# ---- files ---------------------------------------------------------------------------------------


def small_tree() -> Any:
    return gpuboost.DecisionTreeRegressor(max_depth=2, device="numpy").fit(*data_for("Regressor"))


def test_the_same_model_gives_the_same_file(tmp_path: Path) -> None:
    model = small_tree()
    model.save(tmp_path / "one")
    gpuboost.load(tmp_path / "one").save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_the_format_is_safetensors_with_json(tmp_path: Path) -> None:
    small_tree().save(tmp_path / "model")
    with safetensors.safe_open(tmp_path / "model", "numpy") as file:
        header = json.loads(file.metadata()["gpuboost"])
        assert "model/trees/threshold" in file.keys()  # noqa: SIM118  # it is no dict
    assert header["version"] == 1 and header["estimator"] == "DecisionTreeRegressor"


def test_permissions_are_those_of_the_old_file_or_of_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "umask")  # another thread may create a file between two calls
    model, path = small_tree(), tmp_path / "model"
    (tmp_path / "new").touch()
    model.save(path)
    assert path.stat().st_mode == (tmp_path / "new").stat().st_mode
    path.chmod(0o640)
    model.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, path = small_tree(), tmp_path / "model"
    path.write_bytes(b"old")

    def fail(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(container.os, step, fail)
    with pytest.raises(OSError, match="No space"):
        model.save(path)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["model"]


def test_paths_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        gpuboost.load(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError):
        small_tree().save(tmp_path / "nothing" / "model")
    with pytest.raises(IsADirectoryError):
        gpuboost.load(tmp_path)
    with pytest.raises(IsADirectoryError):
        small_tree().save(tmp_path)


def test_devices_and_pipes_are_not_replaced_and_links_stay(tmp_path: Path) -> None:
    pipe, link, real = (tmp_path / name for name in ("pipe", "link", "real"))
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="it is not a regular file"):
        small_tree().save(pipe)
    assert pipe.is_fifo()
    link.symlink_to("real")
    small_tree().save(link)
    assert link.is_symlink() and gpuboost.load(real).fingerprint() == small_tree().fingerprint()
    with pytest.raises(OSError, match="not_there"):
        container.check_writable(tmp_path / "not_there" / "model")


def test_old_temporary_files_are_deleted(tmp_path: Path) -> None:
    old, new, other = (tmp_path / f".{name}.tmp" for name in ("model.1", "model.2", "other.1"))
    for file in (old, new, other):
        file.touch()
    for file in (old, other):
        os.utime(file, (0, 0))
    container.check_writable(tmp_path / "model")
    assert sorted(tmp_path.iterdir()) == [new, other]


def test_boosting_may_start_from_boosting_of_means(tmp_path: Path) -> None:
    X, y = data_for("GradientBoostingRegressor")
    few: dict[str, Any] = {"device": "numpy", "random_state": 0, "loss": "poisson"}
    hist = gpuboost.HistGradientBoostingRegressor(loss="poisson", max_iter=3, device="numpy")
    for init in (gpuboost.GradientBoostingRegressor(n_estimators=3, **few), hist):
        model = gpuboost.GradientBoostingRegressor(n_estimators=3, init=init, **few)
        model.fit(X, np.exp(y / np.abs(y).max())).save(tmp_path / "model")
        np.testing.assert_array_equal(
            gpuboost.load(tmp_path / "model").predict(X), model.predict(X)
        )


def test_sets_are_parameters(tmp_path: Path) -> None:
    X, y = data_for("GradientBoostingRegressor")
    constraints = [{0, 1}, {2}]
    model = make("GradientBoostingRegressor", interaction_cst=constraints).fit(X, y)
    model.save(tmp_path / "model")
    assert gpuboost.load(tmp_path / "model").interaction_cst == constraints


@pytest.mark.parametrize(
    "content, reason",
    [
        (b"", "is damaged"),
        (b"x" * 100, "is damaged"),
        (pickle.dumps({"a": 1}), "is not a model file of gpuboost"),
        (container.safetensors.numpy.save({"x": np.ones(2)}), "no field '__metadata__'"),
    ],
)
def test_other_files_are_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(ValueError, match=f"cannot load a model from '.*other': .*{reason}"):
        gpuboost.load(tmp_path / "other")


def test_a_later_version_is_named(tmp_path: Path) -> None:
    header, arrays = model_file_parts(small_tree())
    (tmp_path / "model").write_bytes(container.to_bytes({**header, "version": 2}, arrays))
    with pytest.raises(ValueError, match="its version is 2, but this gpuboost reads version 1"):
        gpuboost.load(tmp_path / "model")


def test_wrong_devices_are_refused(tmp_path: Path) -> None:
    small_tree().save(tmp_path / "model")
    with pytest.raises(ValueError, match="device must be"):
        gpuboost.load(tmp_path / "model", device="tpu")
    with pytest.raises(TypeError, match="n_jobs must be"):
        gpuboost.load(tmp_path / "model", n_jobs="two")


@pytest.mark.parametrize("depth", [0, 20])
def test_loading_needs_at_most_three_times_the_memory_of_the_file(
    depth: int, tmp_path: Path
) -> None:
    """With stumps of one node, and with large trees."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(8000, 2)).astype(np.float32), rng.normal(size=8000)
    n_trees = 30 if depth else 20_000
    model = gpuboost.RandomForestRegressor(
        n_trees, max_depth=depth or 1, min_samples_split=2 if depth else 100, device="numpy"
    )
    model.set_params(max_samples=None if depth else 10).fit(X, y)
    model.save(tmp_path / "model")
    size = (tmp_path / "model").stat().st_size
    gpuboost.load(tmp_path / "model")
    tracemalloc.start()
    try:
        gpuboost.load(tmp_path / "model")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size > 500_000
    assert peak < 3 * size, peak / size


def test_loading_imports_nothing_that_the_file_names(tmp_path: Path) -> None:
    """A fresh process loads and predicts without pickle."""
    small_tree().save(tmp_path / "model")
    program = (
        "import sys, pickle\n"
        "pickle.loads = pickle.load = pickle.Unpickler = None\n"
        "import gpuboost\n"
        f"print(gpuboost.load({str(tmp_path / 'model')!r}).get_n_leaves())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "4", done.stderr


# ---- files of earlier versions -------------------------------------------------------------------


PATHS = sorted(FOLDER.glob("v*/*.gpuboost"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_files_of_earlier_versions_predict_as_they_did(path: Path) -> None:
    wanted = json.loads(path.parent.with_suffix(".json").read_text())[path.stem]
    assert expected(gpuboost.load(path, device="numpy")) == wanted


def test_there_are_files_of_every_version() -> None:
    assert {path.parent.name for path in PATHS} == {f"v{n + 1}" for n in range(FILE_VERSION)}
    assert {path.stem for path in PATHS} == set(NAMES)
