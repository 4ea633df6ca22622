"""Fixtures shared by the tests: a separate cache, a fake CuPy, a real GPU."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from gpuboost.backends import cost_model as cost
from gpuboost.backends import devices
from gpuboost.backends import select as choice
from gpuboost.backends.cuda import runtime
from gpuboost.backends.cuda.growth import grow as cuda
from gpuboost.backends.numba.threads import load
from gpuboost.estimators.fitting import pipeline as template
from tests.fakes import fake_cupy
from tests.fakes.gpu_arrays import Tensor
from tests.runs import finished
from tests.runs.gpu_runs import (
    for_sanitizer,
    give_back,
    is_required,
    kernel_folder,
    rows_are_capped,
    show_every_array,
)
from tests.runs.workers import is_whole, put_in_order, spread_over_cores
from tests.sizes import largest_files, largest_functions

FORBIDS_SKIPS = os.environ.get("GPUBOOST_FORBID_SKIPS") == "1"


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Use a separate cache, so that tests neither read nor write the user's kernels and speeds.

    On a GPU, ``GPUBOOST_TEST_CACHE_DIR`` names a folder that keeps kernels for the next run.
    """
    folder = kernel_folder() or tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUBOOST_CACHE_DIR", str(folder))
        yield


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path) -> Iterator[fake_cupy.Machine]:
    """Two fake devices that the CUDA backend accepts as real ones, and an empty cache."""
    found = fake_cupy.Machine()
    monkeypatch.setenv("GPUBOOST_CACHE_DIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy.make(found))
    _forget_runtime()
    monkeypatch.setattr(devices, "_process", None)
    monkeypatch.setattr(choice, "_started_cuda", set())
    caches = (devices._find, choice._backend_of, cost.measured_speed)
    for cache in caches:
        cache.cache_clear()
    yield found
    for cache in caches:
        cache.cache_clear()
    _forget_runtime()


@pytest.fixture
def tensors(machine: fake_cupy.Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the fake CuPy accept a `Tensor` without a copy, as CuPy does."""
    cupy: Any = sys.modules["cupy"]
    asarray = cupy.asarray

    def adopt(value: Any, *args: Any, **words: Any) -> Any:
        return value.array if isinstance(value, Tensor) else asarray(value, *args, **words)

    monkeypatch.setattr(cupy, "asarray", adopt)
    monkeypatch.setattr(cupy, "from_dlpack", lambda value: value.__dlpack__(), raising=False)


@pytest.fixture
def copied(machine: fake_cupy.Machine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that receives the number of elements of every copy to the host."""
    sizes: list[int] = []
    get = fake_cupy.Array.get

    def counted(self: Any, *args: Any, **words: Any) -> Any:
        sizes.append(self.size)
        return get(self, *args, **words)

    monkeypatch.setattr(fake_cupy.Array, "get", counted)
    return sizes


@pytest.fixture
def meter() -> Iterator[Any]:
    """A meter that counts the bytes of all arrays that `TrackedRuntime` allocates."""
    from gpuboost.backends.cuda.runtime.shape_arrays import Meter
    from tests.memory.metered_runtime import Tracked

    gc.collect()
    Tracked.meter = Meter()
    yield Tracked.meter
    Tracked.meter = None


# ---- a real device -------------------------------------------------------------------------------


@pytest.fixture
def fit_on(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A function that fits a model on a given backend."""

    def fit(backend: Any, model: Any, *data: Any, **words: Any) -> Any:
        monkeypatch.setattr(template, "choose_backend", lambda device, work: backend)
        return model.fit(*data, **words)

    return fit


@pytest.fixture
def gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The GPU; its memory is released after the test.

    If a test leaves the GPU unusable, the run ends. Without a GPU, CuPy or a compiler, the test is
    skipped, or fails if ``GPUBOOST_REQUIRE_GPU=1``. With ``GPUBOOST_TEST_SANITIZER=1``, every array
    has its own memory.
    """
    reason = devices.why_no_cuda()
    if reason and is_required():
        pytest.fail(f"GPUBOOST_REQUIRE_GPU=1, but {reason}", pytrace=False)
    if reason:
        pytest.skip(reason)
    import cupy

    only = request.node.get_closest_marker("device_only")
    if only and cupy.ndarray is fake_cupy.Array:
        pytest.skip(f"not on the stand-in for CuPy: {only.args[0]}")

    if for_sanitizer():
        show_every_array(cupy, monkeypatch)
    yield cupy.cuda.Device()
    gc.collect()
    give_back(cupy, request.node.nodeid)


@pytest.fixture(autouse=True, scope="session")
def all_threads_work() -> None:
    """Tests of several threads have all of them, whatever else the machine does."""
    load.ENOUGH = 0.0


@pytest.fixture
def as_users_do() -> None:
    """Skip the test under compute-sanitizer, which changes the use of memory, copies and graphs."""
    if for_sanitizer():
        pytest.skip("GPUBOOST_TEST_SANITIZER arranges memory in another way")


@pytest.fixture
def pool(gpu: Any, as_users_do: None) -> Any:
    """CuPy's memory pool, from which all arrays are allocated."""
    import cupy

    return cupy.get_default_memory_pool()


@pytest.fixture
def needs_memory(gpu: Any) -> Callable[[int], None]:
    """A function that skips the test if the device has less free memory than ``n_bytes``."""

    def skip(n_bytes: int) -> None:
        if gpu.mem_info[0] < n_bytes and not rows_are_capped():
            pytest.skip(f"needs {n_bytes >> 30} GiB of free device memory")

    return skip


@pytest.fixture
def graphs(gpu: Any, as_users_do: None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that receives one entry per captured graph. Batches have four trees."""
    from gpuboost.backends.cuda.runtime.cupy import CupyRuntime

    capture, captured = CupyRuntime.capture, []

    def counted(self: Any, launches: Any) -> Any:
        captured.append(self.name)
        return capture(self, launches)

    monkeypatch.setattr(CupyRuntime, "capture", counted)
    monkeypatch.setattr(cuda, "trees_at_once", lambda *_: 4)
    return captured


def _forget_runtime() -> None:
    """Remove the module that imports CuPy, so that it is imported again."""
    sys.modules.pop("gpuboost.backends.cuda.runtime.cupy", None)
    if hasattr(runtime, "cupy"):
        del runtime.cupy


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Set the number of processes before pytest-xdist reads its options."""
    spread_over_cores(config)


def pytest_addoption(parser: pytest.Parser) -> None:
    finished.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    finished.register(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    put_in_order(config, items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With ``GPUBOOST_FORBID_SKIPS=1``, tests that are skipped fail, with the reason."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and FORBIDS_SKIPS:
        report.outcome, report.longrepr = "failed", f"skips are forbidden: {report.longrepr}"
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the largest files and functions after a run of all tests; it takes three seconds."""
    if not is_whole(config):
        return
    for what, found in (("files", largest_files()), ("functions", largest_functions())):
        told = ", ".join(f"{name} {lines}" for lines, name in found[:4])
        terminalreporter.write_line(f"largest {what}, in lines: {told}")
