"""Arrays on a GPU stay there from fit to prediction, and give the model of NumPy arrays.

The GPU is the fake CuPy, whose kernels run on the CPU.
"""

from __future__ import annotations

import sys
import types
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import gpuboost
from gpuboost.backends import devices
from gpuboost.backends.host import binned as coded
from gpuboost.data.arrays import is_on_device
from gpuboost.estimators.model import tree_view
from tests import cuda_shim
from tests.estimators.device_cases import table
from tests.estimators.estimator_cases import NAMES
from tests.estimators.estimator_cases import make as make_for_numpy
from tests.fakes import fake_cupy
from tests.fakes.gpu_arrays import Tensor, to_cpu, to_gpu

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)
FOREST = "RandomForestClassifier"


def make(name: str, **params: Any) -> Any:
    """An estimator that is fast to fit."""
    return make_for_numpy(name, **{"device": "auto", **params})


# Models and predictions -----------------------------------------------------------------------


@pytest.mark.parametrize(("name", "dtype"), zip(NAMES, cycle((np.float32, np.float64))))
def test_every_estimator(name: str, dtype: Any, machine: fake_cupy.Machine) -> None:
    X, y = table(name, 100)
    X = X.astype(dtype)
    expected = make(name).fit(X, y)
    given = to_gpu(np.asfortranarray(X) if dtype == np.float32 else X)
    model = make(name).fit(given, to_gpu(y))
    assert model.device_ == "cuda:0"
    assert model.fingerprint() == expected.fingerprint()
    for method in ("predict", "predict_proba", "predict_log_proba", "apply"):
        if hasattr(expected, method):
            found, right = to_cpu(getattr(model, method)(given)), getattr(expected, method)(X)
            np.testing.assert_array_equal(found, right)
            assert found.dtype == right.dtype
    assert model.score(given, to_gpu(y)) == expected.score(X, y)
    assert type(model.predict(X)) is np.ndarray


@pytest.mark.parametrize("n_classes", [2, 3])
def test_votes_of_adaboost(n_classes: int, machine: fake_cupy.Machine) -> None:
    X, y = table("AdaBoostClassifier")
    y = np.minimum(y, n_classes - 1)
    model = make("AdaBoostClassifier", n_estimators=3, device="numpy").fit(X, y)
    methods = ("decision_function", "predict_proba", "predict_log_proba")
    staged = ("staged_decision_function", "staged_predict", "staged_predict_proba")
    expected = [getattr(model, method)(X) for method in methods]
    expected += [each for method in staged for each in getattr(model, method)(X)]
    given = to_gpu(X, 1)
    model.set_params(device="auto")
    found = [getattr(model, method)(given) for method in methods]
    for method in staged:
        for each in getattr(model, method)(given):
            assert machine.current == 0  # the generator must not change the current device
            found.append(each)
    for own, right in zip(found, expected, strict=True):
        assert own.device.id == 1
        np.testing.assert_array_equal(to_cpu(own), right)


def few_values(X: np.ndarray) -> np.ndarray:
    """Features with at most 81 values each, so that few cells are copied while bins are learnt."""
    return np.round(8 * np.clip(X, -5, 5)) / 8


def test_features_are_never_copied_to_the_host(copied: list[int]) -> None:
    X, y = table(FOREST, 6000)
    given = to_gpu(few_values(X))
    model = make(FOREST, n_estimators=2, max_depth=3, max_bins=16).fit(given, y)
    model.predict_proba(given)
    model.apply(given)
    assert max(copied) < len(X) / 2, copied


COUNTED = {
    "DecisionTreeClassifier": [{}, {"class_weight": {0: 2.0, 1: 1.0, 2: 3.0}}],
    "RandomForestClassifier": [
        {"n_estimators": 2},
        {"n_estimators": 2, "class_weight": "balanced"},
        {"n_estimators": 2, "class_weight": "balanced_subsample", "max_samples": 0.9},
    ],
    "RandomForestRegressor": [{"n_estimators": 2, "max_samples": 0.9}],
    "ExtraTreesRegressor": [{"n_estimators": 2}],
    "BaggingClassifier": [
        {
            "n_estimators": 2,
            "max_samples": 300,
            "bootstrap": False,
            "estimator": gpuboost.DecisionTreeClassifier(max_depth=3, class_weight="balanced"),
        }
    ],
}


@pytest.mark.filterwarnings("ignore:When fitting BaggingClassifier")
@pytest.mark.parametrize("weights", ["", "whole", "real"])
@pytest.mark.parametrize(
    ("name", "words"), [(name, words) for name, found in COUNTED.items() for words in found]
)
def test_no_array_of_the_length_of_the_data_is_copied(
    name: str, words: dict[str, Any], weights: str, copied: list[int]
) -> None:
    """Fitting and predicting from arrays on the device copies no array of the data's length."""
    n = 6000
    X, y = table(name, n)
    X = few_values(X)
    if weights:
        weight = np.arange(n) % 5 + (weights == "real") * np.linspace(0, 0.5, n)
    if "estimator" not in words:
        words = {**words, "max_depth": 3}
    model, expected = make(name, max_bins=16, **words), make_for_numpy(name, max_bins=16, **words)
    given = [X, y, *([weight] if weights else [])]
    on_device = [to_gpu(array, 1) for array in given]
    model.fit(*on_device)
    model.predict(on_device[0])
    model.apply(on_device[0])
    assert copied and max(copied) < n / 2, sorted(copied)[-5:]
    assert model.fingerprint() == expected.fit(*given).fingerprint()


def test_the_device_that_features_are_on(machine: fake_cupy.Machine) -> None:
    X, y = table(FOREST)
    given = to_gpu(X, 1)
    for device in ("auto", "cuda", "cuda:1"):
        model = make(FOREST, device=device).fit(given, y)
        assert model.device_ == "cuda:1"
        assert model.predict_proba(given).device.id == 1
        assert machine.current == 0
    assert model.apply(given).device.id == 1
    assert model.predict(given).device.id == 1
    with pytest.raises(
        ValueError, match="X is on cuda:1, but device='cuda:0'; use device=\"cuda:1\""
    ):
        model.set_params(device="cuda:0").predict(given)


def test_whole_numbers_and_halves(machine: fake_cupy.Machine) -> None:
    X, y = table(FOREST)
    X = np.nan_to_num(X * 8)
    for dtype in (np.int16, np.int64, np.uint8, np.float16, bool):
        with np.errstate(invalid="ignore"):
            part = np.clip(X, 0, 200).astype(dtype)
        model = make(FOREST).fit(to_gpu(part), y)
        assert model.fingerprint() == make(FOREST).fit(part, y).fingerprint()


@pytest.mark.parametrize("kind", [None, 2, 13])
def test_arrays_of_other_libraries(kind: int | None, tensors: None) -> None:
    X, y = table(FOREST)
    given = Tensor(to_gpu(X), kind)
    model = make(FOREST).fit(given, y)
    assert model.device_ == "cuda:0"
    np.testing.assert_array_equal(to_cpu(model.predict(given)), model.predict(X))


def test_arrays_on_a_gpu_are_recognised(machine: fake_cupy.Machine) -> None:
    X = np.eye(2)
    on_gpu = to_gpu(X)
    assert [is_on_device(Tensor(on_gpu, kind)) for kind in (None, 1, 2, 3, 13)] == [
        *(True, False, True, False, True)
    ]
    assert is_on_device(on_gpu)
    assert not any(map(is_on_device, (X, X.tolist(), None, "X", gpuboost.Dataset(X))))


@pytest.mark.parametrize("budget", [1 << 14, 1 << 30])
def test_out_of_bag_rows_of_a_warm_start(
    budget: int, machine: fake_cupy.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Out-of-bag rows are drawn again on the device, for a few trees and rows at a time."""
    monkeypatch.setattr(coded, "DEVICE_ROWS_PER_BLOCK", 64)
    X, y = table(FOREST)
    words = {"oob_score": True, "warm_start": True, "max_samples": 0.3, "n_estimators": 20}
    X, y = to_gpu(X), to_gpu(y)
    models = [make(FOREST, device=device, **words) for device in ("cuda", "numpy")]
    for model in models:
        on_host = model.device == "numpy"
        given = (to_cpu(X), to_cpu(y)) if on_host else (X, y)
        model.fit(*given)
        machine.pool_free, machine.free = 0, budget
        model.set_params(n_estimators=27).fit(*given)
    found, expected = (model.oob_decision_function_ for model in models)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, expected)
    launched = str(machine.launches).count("add_out_of_bag")
    assert launched > 12 if budget == 1 << 14 else launched < 12


@pytest.mark.parametrize("weights", [False, True])
def test_categories_weights_and_out_of_bag_rows(weights: bool, machine: fake_cupy.Machine) -> None:
    X, y = table(FOREST)
    weight = np.random.default_rng(2).exponential(size=len(X)) if weights else None
    words = {"categorical_features": [1], "oob_score": True, "n_estimators": 20, "max_samples": 0.3}
    expected = make(FOREST, **words).fit(X, y, weight)
    given_weight = None if weight is None else to_gpu(weight)
    model = make(FOREST, **words).fit(to_gpu(X), to_gpu(y), given_weight)
    assert model.fingerprint() == expected.fingerprint()
    np.testing.assert_array_equal(model.oob_decision_function_, expected.oob_decision_function_)
    X[:3, 1] = 77  # an unseen category
    np.testing.assert_array_equal(to_cpu(model.predict_proba(to_gpu(X))), expected.predict_proba(X))


def test_trees_added_to_a_model(machine: fake_cupy.Machine) -> None:
    X, y = table(FOREST)
    expected = make(FOREST, n_estimators=5).fit(X, y)
    model = make(FOREST, n_estimators=2, warm_start=True).fit(X, y)
    model.set_params(n_estimators=5).fit(to_gpu(X), y)
    assert model.device_ == "cuda:0"
    assert model.fingerprint() == expected.fingerprint()


def test_classes_that_are_strings_come_to_the_host(machine: fake_cupy.Machine) -> None:
    X, y = table(FOREST)
    y = np.array(["a", "b", "c"])[y]
    model = make(FOREST).fit(to_gpu(X), y)
    np.testing.assert_array_equal(model.predict(to_gpu(X)), make(FOREST).fit(X, y).predict(X))
    assert model.score(to_gpu(X), y) == model.score(X, y)


def test_several_outputs(machine: fake_cupy.Machine) -> None:
    X, y = table("RandomForestRegressor")
    y = np.column_stack([y, X[:, 0]])
    model = make("RandomForestRegressor").fit(to_gpu(X), to_gpu(y))
    np.testing.assert_array_equal(to_cpu(model.predict(to_gpu(X))), model.predict(X))
    assert model.score(to_gpu(X), to_gpu(y)) == model.score(X, y)


def test_trees_copied_in_another_stream(machine: fake_cupy.Machine) -> None:
    X, y = table(FOREST)
    model = make(FOREST, device="numpy").fit(X, y)
    expected = model.predict_proba(X)
    model.set_params(device="auto")
    cupy: Any = sys.modules["cupy"]
    given, streams = to_gpu(X), [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    found = []
    for stream in streams:
        with stream:
            found.append(model.predict_proba(cupy.asarray(X)))
    for stream, own in zip(streams, found, strict=True):
        with stream:
            np.testing.assert_array_equal(own.get(), expected)
    with streams[0], pytest.raises(AssertionError, match="a stream that does not wait"):
        model.predict_proba(given)


def test_hard_votes(machine: fake_cupy.Machine) -> None:
    X, y = table(FOREST)
    model = make(FOREST, voting="hard").fit(to_gpu(X), y)
    np.testing.assert_array_equal(to_cpu(model.predict_proba(to_gpu(X))), model.predict_proba(X))


@pytest.fixture
def sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake ``cupyx.scipy.sparse`` with matrices on the device."""
    module: Any = types.ModuleType("cupyx.scipy.sparse")
    module.csr_matrix = fake_cupy.csr_matrix
    for name in ("cupyx", "cupyx.scipy"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "cupyx.scipy.sparse", module)


@pytest.mark.parametrize("single", [False, True])
def test_paths(single: bool, machine: fake_cupy.Machine, sparse: None) -> None:
    X, y = table(FOREST)
    model = make("DecisionTreeClassifier" if single else FOREST)
    model.fit(to_gpu(X, 1), y)
    found, expected = model.decision_path(to_gpu(X, 1)), model.decision_path(X)
    if not single:
        (found, ends), (expected, right) = found, expected
        np.testing.assert_array_equal(ends, right)
    assert isinstance(found, fake_cupy.csr_matrix) and machine.current == 0
    assert {part.number for part in found.parts} == {1}
    matrix = found.get()
    assert matrix.dtype == np.float64 and matrix.has_canonical_format
    assert matrix.shape == expected.shape and (matrix != expected).nnz == 0


def test_decision_paths_are_computed_on_the_device(sparse: None, copied: list[int]) -> None:
    X, y = table(FOREST, 2000)
    model = make(FOREST, n_estimators=3, max_depth=4).fit(X, y)
    leaves = to_gpu(model.apply(X), 1)
    copied.clear()
    with leaves.device:
        indices, indptr = tree_view._columns_of_paths(model._ensemble, leaves)
    assert copied == []  # except the total number, which the host needs
    assert indices.number == indptr.number == 1
    assert len(to_cpu(indices)) == to_cpu(indptr)[-1] > 3 * len(X)


def test_datasets_are_made_on_the_host(machine: fake_cupy.Machine) -> None:
    X, y = table(FOREST)
    data = gpuboost.Dataset(to_gpu(X))
    assert type(data.binned.codes) is np.ndarray
    assert make(FOREST).fit(data, y).fingerprint() == make(FOREST).fit(X, y).fingerprint()


def test_binned_data_is_predicted_on_the_device(machine: fake_cupy.Machine) -> None:
    X, y = table(FOREST)
    model = make(FOREST, device="cuda").fit(gpuboost.Dataset(X), y)
    expected = make(FOREST, device="numpy").fit(X, y).predict_proba(X)
    allocated = []
    for _ in range(2):
        before = machine.allocations
        np.testing.assert_array_equal(model.predict_proba(gpuboost.Dataset(X)), expected)
        allocated.append(machine.allocations - before)
    assert allocated[0] == allocated[1] + 4  # cached: nodes, offsets, masks, values


# Errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "numpy", "numba"])
def test_a_device_of_the_host_is_refused(device: str, machine: fake_cupy.Machine) -> None:
    X, y = table(FOREST)
    expected = rf"device='{device}' is not; copy .*cupy\.asnumpy.* or use device=\"cuda\""
    with pytest.raises(TypeError, match=expected):
        make(FOREST, device=device).fit(to_gpu(X), y)
    model = make(FOREST).fit(X, y).set_params(device=device)
    with pytest.raises(TypeError, match=expected):
        model.predict(to_gpu(X))


def test_a_gpu_that_cannot_be_used(
    machine: fake_cupy.Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = table(FOREST)
    given = to_gpu(X)
    monkeypatch.setattr(devices, "_find", lambda process: devices.Found((), "the driver is old"))
    for device in ("auto", "cuda"):
        with pytest.raises(RuntimeError, match="cannot be used: the driver is old"):
            make(FOREST, device=device).fit(given, y)
    with pytest.raises(ValueError, match="device must be"):
        make(FOREST, device="gpu").fit(given, y)
    with pytest.raises(NotFittedError):
        make(FOREST).predict(given)


def test_input_is_checked_on_its_device(machine: fake_cupy.Machine) -> None:
    X, y = table("RandomForestRegressor")
    model = make("RandomForestRegressor")
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        model.fit(to_gpu(X[:, 0]), y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(to_gpu(X), y[:-1])
    with pytest.raises(ValueError, match="Complex data not supported"):
        model.fit(to_gpu(X.astype(complex)), y)
    bad = X.copy()
    bad[7, 4] = -np.inf
    with pytest.raises(ValueError, match=r"infinity: feature 4 is -inf in row 7; clip it"):
        model.fit(to_gpu(bad, 1), y)
    assert machine.current == 0
    model.fit(to_gpu(X), y)
    with pytest.raises(ValueError, match=r"X has 5 features, but Random.* is expecting 6"):
        model.predict(to_gpu(X[:, :5]))
    with pytest.raises(ValueError, match=r"infinity: feature 4"):
        model.predict(to_gpu(bad))
