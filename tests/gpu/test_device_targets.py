"""Targets and weights on a GPU are checked, encoded and quantised there, with NumPy's bits.

The GPU is the fake CuPy; these tests run no kernels.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import DataConversionWarning

import gpuboost
from gpuboost.backends.device_arrays import adopt_targets
from gpuboost.data.arrays import to_float64, to_module_of, widen_float32
from gpuboost.data.class_labels import check_classes
from gpuboost.data.class_weight import class_weights
from gpuboost.data.quantiles import weighted_rows
from gpuboost.data.validation import check_targets, check_weights
from gpuboost.engine.criteria import ABSOLUTE, POISSON, VARIANCE
from gpuboost.engine.fixed_point import exact_mean, total_of
from gpuboost.engine.quantise import class_target, regression_target
from gpuboost.engine.sampling import RowSampler
from gpuboost.estimators.inputs.targets import ClassLabels, ValueLabels
from tests import cuda_shim
from tests.data.test_validation import BAD_LABELS, BAD_TARGETS, LABELS, WEIGHTS
from tests.estimators.estimator_cases import make
from tests.fakes import fake_cupy
from tests.fakes.gpu_arrays import Tensor, to_cpu, to_gpu

needs_compiler = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)
FOREST = "RandomForestClassifier"
N = 500


def numeric(cases: dict[str, Any], place: int | None) -> dict[str, Any]:
    """The cases whose input a GPU array can hold."""
    found = {}
    for name, case in cases.items():
        try:
            host = np.asarray(case if place is None else case[place])
        except ValueError:  # lists of different lengths
            continue
        if host.dtype.kind in "biufc":
            found[name] = (host, *(case if place is None else case[place + 1 :]))
    return found


def assert_equal(found: Any, expected: Any) -> None:
    """Assert equal values and types; arrays of a GPU are copied first."""
    if isinstance(found, fake_cupy.Array):
        found = to_cpu(found)
    assert type(found) is type(expected)
    if not isinstance(expected, np.ndarray):
        assert found == expected
        return
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


# ---- Checks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", numeric(LABELS, 0).values(), ids=numeric(LABELS, 0))
def test_classes_are_encoded_on_devices(case: tuple[Any, ...], machine: fake_cupy.Machine) -> None:
    y, classes, dtype = case
    codes, found = check_classes(to_gpu(y))
    assert isinstance(codes, fake_cupy.Array)
    assert_equal(codes, check_classes(y)[0])
    assert type(found) is np.ndarray and found.dtype == dtype and found.tolist() == classes
    for choice in (None, "balanced", {classes[0]: 3.0}):
        expected = class_weights(choice, to_cpu(codes), found)
        weights = class_weights(choice, codes, found)
        assert (weights is None) == (expected is None)
        assert weights is None or weights.tolist() == expected.tolist()


@pytest.mark.parametrize("case", numeric(BAD_LABELS, 0).values(), ids=numeric(BAD_LABELS, 0))
def test_bad_labels(case: tuple[Any, str], machine: fake_cupy.Machine) -> None:
    with pytest.raises(ValueError, match=case[1]):
        check_classes(to_gpu(case[0]))


@pytest.mark.parametrize("case", numeric(BAD_TARGETS, 0).values(), ids=numeric(BAD_TARGETS, 0))
def test_bad_targets(case: tuple[Any, str], machine: fake_cupy.Machine) -> None:
    with pytest.raises(ValueError, match=case[1]):
        check_targets(to_gpu(case[0]))


@pytest.mark.parametrize("case", numeric(WEIGHTS, 0).values(), ids=numeric(WEIGHTS, 0))
def test_bad_weights(case: tuple[Any, str], machine: fake_cupy.Machine) -> None:
    with pytest.raises(ValueError, match=case[1]):
        check_weights(to_gpu(case[0]) if case[0].ndim else case[0].item(), 3)


def test_targets_and_weights_become_float64_on_the_device(machine: fake_cupy.Machine) -> None:
    y = np.array([[1, 2], [3, 4]], order="F")
    for given in (y, y.astype(np.float32), y[:, :1], y[:, 0], y > 2):
        found = check_targets(to_gpu(given))
        assert isinstance(found, fake_cupy.Array) and found.flags.c_contiguous
        assert_equal(found, check_targets(given))
    for weights in (np.array([1, 0, 3]), np.array([0.5, 1, 2], np.float32)):
        assert_equal(check_weights(to_gpu(weights), 3), check_weights(weights, 3))
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
        assert to_cpu(check_classes(to_gpu(np.array([[1], [0]])))[0]).tolist() == [1, 0]


def test_denormal_numbers_are_not_lost(machine: fake_cupy.Machine) -> None:
    """float64 values are built from the bits, since CuPy's conversion flushes denormals to zero."""
    bits = np.arange(0, 2**32, 65_537 * 3, dtype=np.uint64).astype(np.uint32)
    edges = np.array([0, 1, 2**23 - 1, 2**23, 2**31, 2**31 + 1, 0x7F800000, 0xFF800000], np.uint32)
    values = np.concatenate([bits, edges]).view(np.float32)
    with np.errstate(invalid="ignore"):  # signalling NaN
        found, expected = widen_float32(values), values.astype(np.float64)
    numbers = ~np.isnan(expected)
    assert np.isnan(found[~numbers]).all()
    np.testing.assert_array_equal(found[numbers].view(np.int64), expected[numbers].view(np.int64))
    small = np.array([1e-45, -1e-40, 1.0], np.float32)
    assert_equal(to_float64(to_gpu(small)), small.astype(np.float64))


# ---- Quantisation ------------------------------------------------------------------------------


def weight_cases() -> dict[str, np.ndarray]:
    """One array of weights of every kind that the engine distinguishes."""
    rng = np.random.default_rng(4)
    return {
        "equal": np.full(N, 0.1),
        "counts": rng.integers(0, 5, N).astype(np.float64),
        "multiples": rng.integers(1, 5, N) * 0.3,
        "real": rng.uniform(0.5, 1.0, N) * (rng.random(N) < 0.9),
        "wide": 10.0 ** rng.uniform(-9, 3, N),
        "one": np.eye(1, N)[0],
        "tiny": rng.uniform(0.5, 1.0, N) * 1e-300,
    }


WEIGHT_CASES = weight_cases()


def samplers(method: str, **arrays: Any) -> Iterator[RowSampler]:
    """The same sampler, over arrays of the host and over arrays of a GPU."""
    n_draws = {"all": N, "bootstrap": N, "subset": 1}[method]
    for place in (np.asarray, to_gpu):
        given = {name: place(array) for name, array in arrays.items()}
        yield RowSampler(method, N, n_draws, 3, max_weight_bits=28, **given)


@pytest.mark.parametrize("method", ["all", "bootstrap", "subset"])
@pytest.mark.parametrize("kind", WEIGHT_CASES)
def test_facts_about_weights(kind: str, method: str, machine: fake_cupy.Machine) -> None:
    expected, found = samplers(method, weights=WEIGHT_CASES[kind])
    for name in (
        "weight_bits",
        "bounds",
        "lost_fraction",
        "max_rows",
        "reweighs",
        "has_real_weights",
    ):
        assert getattr(found, name) == getattr(expected, name), name
    for field in fields(found):
        one, other = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(other, np.ndarray):
            assert isinstance(one, fake_cupy.Array)
            assert_equal(one, other)
    for one, other in zip(
        vars(found.weight_facts).values(), vars(expected.weight_facts).values(), strict=True
    ):
        assert_equal(one, other)
    assert vars(found.shared_rows).keys() == vars(expected.shared_rows).keys()
    assert found.shared_rows.unit == expected.shared_rows.unit


@pytest.mark.parametrize("kind", WEIGHT_CASES)
def test_factors_of_draws(kind: str, machine: fake_cupy.Machine) -> None:
    codes = np.arange(N, dtype=np.int32) % 3
    words = {"row_factor": WEIGHT_CASES[kind], "balance": codes}
    expected, found = samplers("bootstrap", **words)
    assert_equal(found.row_factor, expected.row_factor)
    assert found.bounds == expected.bounds and found.max_rows == expected.max_rows
    assert_equal(found.shared_rows.exponents, expected.shared_rows.exponents)


@pytest.mark.parametrize("kind", [None, *WEIGHT_CASES])
@pytest.mark.parametrize(
    ("n_outputs", "criterion"),
    [
        *((0, VARIANCE), (1, VARIANCE), (3, VARIANCE), (1, POISSON), (3, POISSON)),
        *((1, ABSOLUTE), (3, ABSOLUTE)),
    ],
)
def test_targets(
    n_outputs: int, criterion: int, kind: str | None, machine: fake_cupy.Machine
) -> None:
    """Targets are equal on host and device; ``n_outputs`` 0 is a classification."""
    rng = np.random.default_rng(1)
    words = {} if kind is None else {"weights": WEIGHT_CASES[kind]}
    made = []
    y = rng.integers(0, 3, N).astype(np.int32)
    if n_outputs:
        y = rng.lognormal(0, 4, (N, n_outputs))
    for sampler, values in zip(samplers("all", **words), (y, to_gpu(y)), strict=True):
        facts = sampler.weight_facts
        if n_outputs:
            made.append(regression_target(values, facts, criterion))
        else:
            made.append(class_target(values, 3, facts))
    expected, found = (vars(target) for target in made)
    for name, value in expected.items():
        if name == "distinct_targets" and value is not None:  # one host array per output
            assert len(found[name]) == n_outputs and type(found[name][0]) is np.ndarray
            value, found[name] = (np.concatenate(each[name]) for each in (expected, found))
        assert_equal(found[name], value)
    kept = next(found[name] for name in ("classes", "values", "ranks") if name in found)
    assert isinstance(kept, fake_cupy.Array)


def test_sums_and_quantile_weights(machine: fake_cupy.Machine) -> None:
    for kind, weights in WEIGHT_CASES.items():
        assert total_of(to_gpu(weights)) == total_of(weights), kind
        assert total_of(weights) == pytest.approx(weights.sum(), rel=1e-14)
        assert total_of(weights) == total_of(weights[::-1])
        for found, expected in zip(
            weighted_rows(to_gpu(weights)), weighted_rows(weights), strict=True
        ):
            assert_equal(found, expected)
    y = np.random.default_rng(0).lognormal(0, 9, (N, 2))
    assert_equal(exact_mean(to_gpu(y)), exact_mean(y))
    assert total_of(np.full(1000, 0.1)) == 100.0
    assert total_of(np.array([2.0**60, 1.0, 2.0**60])) == 2.0**61


def test_targets_that_span_too_much(machine: fake_cupy.Machine) -> None:
    y = np.array([-1.7e308, -1.7e308, -1.7e308, 1.7e308])
    for place in (np.asarray, to_gpu):
        labels, sampler = ValueLabels(place(y)), RowSampler("all", 4, 4, 0)
        with pytest.raises(ValueError, match=r"its values run from -1\.7e\+308 to 1\.7e\+308\."):
            labels.target(sampler)
        with pytest.raises(ValueError, match=r"smallest value is -1\.7e\+308; correct y"):
            labels.target(sampler, POISSON)
        halved = ValueLabels(place(y / 2)).target(sampler)
        assert halved.square_unit == 1024


# ---- Several devices ---------------------------------------------------------------------------


def test_a_sampler_is_copied_when_the_host_draws(machine: fake_cupy.Machine) -> None:
    for method in ("bootstrap", "subset"):
        expected, found = samplers(method, weights=WEIGHT_CASES["real"])
        assert (expected.place, found.place) == ("", "cuda:0")
        assert expected.copied_to_host is expected
        copied = found.copied_to_host
        assert copied.place == "" and copied is found.copied_to_host
        restored = pickle.loads(pickle.dumps(found.drawing_only()))
        for sampler in (copied, restored):
            np.testing.assert_array_equal(sampler.draw_counts(5), expected.draw_counts(5))
    kept = next(samplers("all", weights=WEIGHT_CASES["real"])).drawing_only()
    assert kept.weights is None and kept.whole is None and kept.n_samples == N


def test_to_module_of(machine: fake_cupy.Machine) -> None:
    host, device = np.arange(3), to_gpu(np.arange(3))
    assert to_module_of(host, host) is host and to_module_of(device, host) is device
    assert_equal(to_module_of(host, device), host)
    assert isinstance(to_module_of(host, device), fake_cupy.Array)


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 4))
    return X, (X[:, 0] > 0) * 1 + (X[:, 1] > 0), rng.uniform(0.5, 1, 150)


@pytest.mark.parametrize("device", ["auto", "cpu", "numpy"])
def test_a_fit_on_the_host_copies_its_input_once(
    device: str, machine: fake_cupy.Machine, copied: list[int]
) -> None:
    X, y, weight = data()
    expected = make(FOREST, n_estimators=2).fit(X, y, weight)
    model = make(FOREST, n_estimators=2, device=device).fit(X, to_gpu(y), to_gpu(weight, 1))
    assert model.fingerprint() == expected.fingerprint()
    assert copied == [len(y), len(y)]
    assert not model.device_.startswith("cuda")
    copied.clear()
    there = to_gpu(y)
    for elsewhere in ("auto", "cpu", "numpy", "numba", "cuda:1"):
        assert_equal(adopt_targets(there, elsewhere), y)
    assert copied == [len(y)] * 5
    for here in ("cuda", "cuda:0"):
        assert adopt_targets(there, here) is there
    assert adopt_targets(y, "cuda") is y and adopt_targets(None, "cuda") is None


@needs_compiler
@pytest.mark.parametrize("on_device", ["Xy", "Xw", "yw", "y", "w", "X", "Xyw"])
def test_some_on_the_device_and_some_on_the_host(
    on_device: str, machine: fake_cupy.Machine
) -> None:
    X, y, weight = data()
    words = {"n_estimators": 2, "class_weight": "balanced_subsample"}
    expected = make(FOREST, **words).fit(X, y, weight)
    given = [
        to_gpu(array, 1) if name in on_device else array
        for name, array in zip("Xyw", (X, y, weight), strict=True)
    ]
    model = make(FOREST, device="cuda:1", **words).fit(*given)
    assert model.device_ == "cuda:1" and machine.current == 0
    assert model.fingerprint() == expected.fingerprint()
    # Strings, which a GPU cannot hold, and one weight for all rows.
    names = np.array(["a", "b", "c"])[y]
    model.fit(given[0], names, given[2])
    assert model.fingerprint() == expected.fingerprint()
    assert model.fit(given[0], given[1], 1.0).classes_.tolist() == [0, 1, 2]


@needs_compiler
@pytest.mark.parametrize("kind", [None, 2])
def test_another_gpu_and_other_libraries(
    kind: int | None, machine: fake_cupy.Machine, tensors: None
) -> None:
    X, y, weight = data()
    expected = make(FOREST, n_estimators=2).fit(X, y, weight).fingerprint()
    model = make(FOREST, n_estimators=2, device="auto")
    assert model.fit(to_gpu(X), to_gpu(y, 1), to_gpu(weight)).fingerprint() == expected
    given = Tensor(to_gpu(y), kind), Tensor(to_gpu(weight), kind)
    assert model.fit(to_gpu(X), *given).fingerprint() == expected
    assert model.device_ == "cuda:0"


def test_a_dataset_takes_weights_to_the_host(machine: fake_cupy.Machine) -> None:
    X, _, weight = data()
    found = gpuboost.Dataset(X, sample_weight=to_gpu(weight), max_bins=16).mapper
    expected = gpuboost.Dataset(X, sample_weight=weight, max_bins=16).mapper
    for one, other in zip(found.edges, expected.edges, strict=True):
        np.testing.assert_array_equal(one, other)


@needs_compiler
def test_a_device_that_is_not_there(machine: fake_cupy.Machine) -> None:
    X, y, _ = data()
    with pytest.raises(RuntimeError, match=r"device='cuda:7' cannot be used"):
        make(FOREST, device="cuda:7").fit(X, to_gpu(y))
    with pytest.raises(ValueError, match="device must be"):
        make(FOREST, device="cuda:x").fit(X, to_gpu(y))


@needs_compiler
@pytest.mark.parametrize("bootstrap", [False, True])
def test_a_model_with_weights_on_a_device_can_be_pickled(
    bootstrap: bool, machine: fake_cupy.Machine
) -> None:
    """The model can be pickled, lists its samples, and is extended without the arrays."""
    X, y, weight = data()
    words: dict[str, Any] = {"n_estimators": 3, "bootstrap": bootstrap}
    if bootstrap:
        words = {"n_estimators": 9, "max_samples": 0.2, "oob_score": True, "warm_start": True}
    expected = make(FOREST, **words).fit(X, y, weight)
    model = make(FOREST, device="cuda:1", **words)
    model.fit(to_gpu(X, 1), to_gpu(y, 1), to_gpu(weight, 1))
    cupy = sys.modules.pop("cupy")
    restored = pickle.loads(pickle.dumps(model)) if not bootstrap else None
    sys.modules["cupy"] = cupy
    restored = restored or pickle.loads(pickle.dumps(model))
    for one in (model, restored):
        assert one.fingerprint() == expected.fingerprint()
        for rows, right in zip(one.estimators_samples_, expected.estimators_samples_, strict=True):
            np.testing.assert_array_equal(rows, right)
    if not bootstrap:
        return
    expected.set_params(n_estimators=12).fit(X, y, weight)
    for device in ("cuda:0", "numpy"):
        other = pickle.loads(pickle.dumps(restored)) if device == "numpy" else model
        other.set_params(n_estimators=12, device=device).fit(X, y, weight)
        assert other.fingerprint() == expected.fingerprint()
        np.testing.assert_array_equal(other.oob_decision_function_, expected.oob_decision_function_)


@pytest.mark.parametrize("inside", [False, True])
def test_outliers_are_searched_in_some_rows(
    inside: bool, machine: fake_cupy.Machine, copied: list[int]
) -> None:
    y = np.random.default_rng(0).random(4 * 1000 + 7)
    y[17] = 1e12
    weights = (np.arange(len(y)) % 9 > 0) * 1.0 if inside else None
    messages = []
    for place in (np.asarray, to_gpu):
        given = None if weights is None else place(weights)
        sampler = RowSampler("all", len(y), len(y), 0, given)
        with pytest.warns(UserWarning, match="in a sample of .* rows, count as") as caught:
            ValueLabels(place(y)).target(sampler)
        messages.append(str(caught[0].message))
    assert messages[0] == messages[1]
    assert max(copied) < 2000


def test_small_weights_warn(machine: fake_cupy.Machine) -> None:
    weights = np.where(np.arange(N) % 10 == 0, 1e12, np.linspace(1.1, 1.2, N))
    messages = []
    for place in (np.asarray, to_gpu):
        labels = ClassLabels.read(place(np.arange(N) % 2))
        with pytest.warns(UserWarning, match="round to 0") as caught:
            labels.target(RowSampler("all", N, N, 0, place(weights)))
        messages.append(str(caught[0].message))
    assert messages[0] == messages[1]
