"""Every estimator fits NumPy's model with the CUDA backend, even after errors of the device.

The device is the fake CuPy, whose kernels run on the CPU; `test_gpu.py` runs the same on a GPU.
"""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
import pytest

import gpuboost
from gpuboost import DecisionTreeClassifier, RandomForestClassifier, RandomForestRegressor
from gpuboost.backends import select as choice
from gpuboost.backends.cuda.backend import CudaBackend
from gpuboost.backends.select import available_backends, choose_backend
from tests import cuda_shim
from tests.cuda.shim_runtime import ShimRuntime
from tests.estimators.device_cases import BOOSTED, CASES, assert_same_model, table
from tests.estimators.estimator_cases import NAMES, frame_of, make
from tests.fakes.fake_cupy import WAIT

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)


@pytest.mark.parametrize("name", NAMES)
def test_every_estimator(name, machine):
    X, y = table(name, 100)
    assert_same_model(name, X, y, "cuda:1")
    assert machine.launches and machine.live == 0 and machine.current == 0


@pytest.mark.parametrize("case", [*CASES, *BOOSTED], ids=str)
def test_every_option(case, machine):
    case.run("cuda:0", 100)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_with_categories(kind, machine):
    X, y = frame_of(kind)
    assert_same_model("RandomForestClassifier", X, y > 1, "cuda")
    assert_same_model("ExtraTreesRegressor", X, y, "cuda")


def test_datasets(machine):
    X, y = table("RandomForestClassifier")
    assert_same_model("RandomForestClassifier", gpuboost.Dataset(X), y, "cuda")


def test_a_model_runs_on_another_device(machine):
    X, y = table("RandomForestRegressor")
    model = make("RandomForestRegressor").fit(X, y)
    expected = model.predict(X)
    np.testing.assert_array_equal(model.set_params(device="cuda:1").predict(X), expected)


@pytest.mark.parametrize("name", ["RandomForestClassifier", "ExtraTreesRegressor"])
def test_a_batch_of_bounded_depth_is_not_waited_for(name, machine, monkeypatch):
    """All trees and levels are launched before the host reads the first result."""
    grow_finished, spans = CudaBackend.grow_finished, []

    def watched(self, task):
        begun = len(machine.events)
        yield from grow_finished(self, task)
        spans.append(machine.events[begun:])

    monkeypatch.setattr(CudaBackend, "grow_finished", watched)
    make(name, device="cuda", max_depth=6).fit(*table(name))
    (events,) = spans
    launched = [place for place, event in enumerate(events) if event != WAIT]
    assert len(launched) > 6 and WAIT in events
    assert events.index(WAIT) > launched[-1]


@pytest.mark.parametrize("name", ["RandomForestClassifier", "ExtraTreesRegressor"])
def test_launches_do_not_grow_with_trees(name, machine):
    counts = []
    for n_estimators in (2, 9):  # a single tree has no kernel that positions trees
        begun = len(machine.launches)
        make(name, device="cuda", max_depth=5, n_estimators=n_estimators).fit(*table(name))
        counts.append(len(machine.launches) - begun)
    assert counts[0] == counts[1]


@pytest.mark.parametrize("seed", [1, 2])
def test_random_order_of_threads(seed, monkeypatch):
    backend = CudaBackend(ShimRuntime(order_seed=seed))
    monkeypatch.setattr(choice, "why_no_cuda", lambda device: "")
    monkeypatch.setattr(choice, "cuda_backend", lambda number: backend)
    for name in ("RandomForestClassifier", "ExtraTreesRegressor"):
        assert_same_model(name, *table(name), "cuda:0")


def test_little_memory_makes_the_same_model(machine):
    machine.free = machine.pool_free = 1 << 14
    assert_same_model("RandomForestClassifier", *table("RandomForestClassifier"), "cuda")


def test_fits_in_several_threads(machine):
    X, y = table("RandomForestClassifier")

    def fit(number: int) -> str:
        model = make("RandomForestClassifier", device=f"cuda:{number % 2}", random_state=number)
        return model.fit(X, y).fingerprint()

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(fit, range(4)))
    assert together == [
        make("RandomForestClassifier", random_state=number).fit(X, y).fingerprint()
        for number in range(4)
    ]


# ---- memory ----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [41, pytest.param(4, marks=pytest.mark.slow)])
def test_every_allocation_may_fail(machine, step):
    """The error says what to change, no memory stays allocated, and the next fit works."""
    X, y = table("RandomForestClassifier")
    X, y = X[::3], y[::3]
    model = make("RandomForestClassifier", n_estimators=2, max_depth=2, device="cuda:1")
    expected = model.fit(X, y).fingerprint()
    begun = machine.allocations
    model.fit(X, y)
    n_allocations = machine.allocations - begun
    assert n_allocations > 20
    for nth in range(0, n_allocations, step):
        machine.fail_at = machine.allocations + nth
        with pytest.raises(MemoryError, match="cuda:1 is out of memory") as caught:
            model.fit(X, y)
        assert "max_depth" in str(caught.value) and 'device="cpu"' in str(caught.value)
        assert machine.live == 0 and machine.current == 0, (nth, caught)
    assert model.fit(X, y).fingerprint() == expected


def test_every_allocation_of_a_prediction_may_fail(machine):
    X, y = table("RandomForestRegressor")
    model = make("RandomForestRegressor", device="cuda").fit(X, y)
    expected, begun = model.predict(X), machine.allocations
    model.predict(X)
    n_allocations = machine.allocations - begun
    assert n_allocations > 0
    for nth in range(n_allocations):
        machine.fail_at = machine.allocations + nth
        with pytest.raises(MemoryError, match="cuda:0 is out of memory"):
            model.predict(X)
    np.testing.assert_array_equal(model.predict(X), expected)


def test_an_interrupted_fit_frees_its_trees(machine, monkeypatch):
    grown = []
    grow_finished = CudaBackend.grow_finished

    def some(self, task):
        grown.append(list(islice(grow_finished(self, task), 1)))
        assert machine.current == 0
        raise KeyboardInterrupt

    monkeypatch.setattr(CudaBackend, "grow_finished", some)
    X, y = table("RandomForestClassifier")
    with pytest.raises(KeyboardInterrupt):
        make("RandomForestClassifier", device="cuda:1").fit(X, y)
    assert len(grown[0]) == 1 and machine.live == 0


# ---- which device ----------------------------------------------------------------------------


def test_cuda_is_the_current_device(machine):
    X, y = table("DecisionTreeClassifier")
    assert DecisionTreeClassifier(device="cuda").fit(X, y).device_ == "cuda:0"
    machine.current = 1
    assert DecisionTreeClassifier(device="cuda").fit(X, y).device_ == "cuda:1"
    assert machine.current == 1
    assert choose_backend("cuda", MUCH) is choose_backend("cuda:1", MUCH)


MUCH = choice.WorkTimes("grow-one-channel", numpy=1e6, numba=1e5, cuda=1.0)


def test_auto_chooses_the_gpu_for_large_tasks(machine):
    assert choose_backend("auto", MUCH).name == "cuda:0"
    assert choose_backend("cpu", MUCH).name == "numba"
    X, y = table("RandomForestClassifier")
    small = RandomForestClassifier(n_estimators=2).fit(X, y)
    assert small.device_ in ("numpy", "numba")  # depends on what is loaded already


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        ("cuda:2", r"CuPy finds 2 device\(s\): cuda:0, cuda:1"),
        ("cuda:99", r"CuPy finds 2 device\(s\)"),
    ],
)
def test_devices_that_are_not_there(device, reason, machine):
    with pytest.raises(RuntimeError, match=f"device='{device}' cannot be used: {reason}"):
        choose_backend(device, MUCH)


def test_devices_that_are_too_old(machine):
    machine.capability = 61
    with pytest.raises(RuntimeError, match=r"NVIDIA Fake has compute capability 6\.1.*7\.5"):
        RandomForestRegressor(device="cuda").fit([[0.0], [1.0]], [0, 1])
    assert choose_backend("auto", MUCH).name == "numba"


def test_no_devices(machine):
    machine.n_devices = 0
    (cuda,) = [entry for entry in available_backends() if entry[0] == "cuda"]
    assert cuda == ("cuda", False, "CuPy finds no device")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_uses_the_cpu(machine):
    def child(sender):
        sender.send(choose_backend("auto", MUCH).name)
        try:
            choose_backend("cuda", MUCH)
        except RuntimeError as error:
            sender.send(str(error))

    assert choose_backend("auto", MUCH).name == "cuda:0"
    receiver, sender = multiprocessing.Pipe(False)
    process = multiprocessing.get_context("fork").Process(target=child, args=(sender,))
    process.start()
    assert receiver.recv() == "numba"
    assert "device='cuda' cannot be used: this process was forked" in receiver.recv()
    process.join()
