"""Running tests on a real device: after a broken kernel, in parts, and under a sanitizer."""

from __future__ import annotations

import gc
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuboost
from gpuboost.backends.cache import cache_folder
from gpuboost.backends.cuda.runtime import arrays
from tests import cuda_shim
from tests.estimators.device_cases import Case
from tests.fakes.fake_cupy import Array
from tests.fakes.fake_streams import GRAPH
from tests.memory.device_memory import assert_estimated
from tests.runs import finished, gpu_runs
from tests.runs.finished_log import BROKE_DEVICE, FAILED_BEFORE

pytest_plugins = ["pytester"]

OPTIONAL = ("pandas", "polars", "pyarrow", "hypothesis", "matplotlib", "xdist", "pytest_benchmark")
HERE = Path(__file__).parent
needs_compiler = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)


@pytest.mark.parametrize("name", ["test_gpu", "test_gpu_boosting"])
def test_a_gpu_is_tested_without_optional_libraries(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for library in OPTIONAL:
        monkeypatch.setitem(sys.modules, library, None)
    for module in ("tests.estimators.device_cases", "tests.estimators.estimator_cases"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    found = runpy.run_path(str(HERE.parent / "gpu" / f"{name}.py"))
    assert [one for one in found if one.startswith("test_")]
    with pytest.raises(pytest.skip.Exception, match="pandas"):
        sys.modules["tests.estimators.estimator_cases"].frame_of("pandas")


@pytest.mark.parametrize("required", [False, True])
def test_a_gpu_may_be_required(required: bool) -> None:
    """Without a usable device, tests are skipped or fail, with the reason."""
    environment = {key: value for key, value in os.environ.items() if key != gpu_runs.REQUIRED}
    environment |= {"CUDA_VISIBLE_DEVICES": ""} | ({gpu_runs.REQUIRED: "1"} if required else {})
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "tests/gpu/test_gpu.py"]
    command += ["-k", "test_datasets", "-p", "no:cacheprovider", "-rs"]
    run = subprocess.run(
        command, cwd=HERE.parents[1], env=environment, capture_output=True, text=True
    )
    assert ("CuPy is not installed" in run.stdout) or ("CuPy finds no" in run.stdout), run.stdout
    assert run.returncode == (1 if required else 0), run.stdout
    assert ("GPUBOOST_REQUIRE_GPU=1, but" in run.stdout) == required


def test_skips_may_be_forbidden() -> None:
    """Without a usable device, a test of a GPU is skipped; `.ci/run` forbids skips in places."""
    environment = {key: value for key, value in os.environ.items() if key != gpu_runs.REQUIRED}
    environment |= {"CUDA_VISIBLE_DEVICES": "", "GPUBOOST_FORBID_SKIPS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "tests/gpu/test_gpu.py"]
    command += ["-k", "test_datasets", "-p", "no:cacheprovider"]
    run = subprocess.run(
        command, cwd=HERE.parents[1], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 1 and "skips are forbidden: " in run.stdout, run.stdout


# ---- interrupted runs ------------------------------------------------------------------------


INNER = """
import os
import pytest
from types import SimpleNamespace
from tests.runs import finished
from tests.runs.gpu_runs import give_back

def pytest_addoption(parser):
    finished.add_option(parser)

def pytest_configure(config):
    finished.register(config)

@pytest.fixture
def device(request):
    state = SimpleNamespace(lost=False)
    yield state
    def wait():
        if state.lost:
            raise RuntimeError("cudaErrorIllegalAddress")
    pool = SimpleNamespace(free_all_blocks=lambda: None)
    cuda = SimpleNamespace(runtime=SimpleNamespace(deviceSynchronize=wait))
    give_back(SimpleNamespace(cuda=cuda, get_default_memory_pool=lambda: pool), request.node.nodeid)
"""
TESTS = """
import pytest

def test_first(device):
    pass

def test_wrong(device):
    assert False

def test_skipped(device):
    pytest.skip("not here")

def test_breaks(device):
    device.lost = True
    assert False, "what the kernel left"

def test_last(device):
    pass
"""


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder of tests, one of which has a kernel that breaks the device."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # saves their import
    pytester.makeconftest(INNER)
    pytester.makepyfile(test_inner=TESTS)
    return pytester


def run_inner(inner: pytest.Pytester, *words: str) -> pytest.RunResult:
    return inner.runpytest_inprocess("-p", "no:cacheprovider", "--finished", "log", *words)


def test_a_broken_device_ends_the_run_and_the_next_one_goes_on(inner: pytest.Pytester) -> None:
    done = run_inner(inner)
    assert done.ret == BROKE_DEVICE
    said = str(done.stdout)
    assert "test_inner.py::test_breaks broke the device for this process" in said
    assert "what the kernel left" in said  # the failure is shown
    log = (inner.path / "log").read_text().splitlines()
    assert [line for line in log if not line.startswith("began")] == [
        "passed test_inner.py::test_first",
        "failed test_inner.py::test_wrong",
        "skipped test_inner.py::test_skipped",
        "lost test_inner.py::test_breaks",
    ]
    again = run_inner(inner)
    again.assert_outcomes(passed=1, skipped=1, deselected=3)
    assert again.ret == FAILED_BEFORE
    again.stdout.fnmatch_lines(["log: failed: *::test_wrong", "log: lost: *::test_breaks"])


def test_a_device_that_is_lost_ends_the_run(machine: Any) -> None:
    cupy = sys.modules["cupy"]
    gpu_runs.give_back(cupy, "a")
    assert machine.freed == 1
    machine.lost = True
    with pytest.raises(pytest.exit.Exception, match="b broke the device for this process"):
        gpu_runs.give_back(cupy, "b")


def test_a_run_with_all_tests_finished_succeeds(inner: pytest.Pytester) -> None:
    assert run_inner(inner, "-k", "first or last").ret == pytest.ExitCode.OK
    again = run_inner(inner, "-k", "first or last")
    again.assert_outcomes(deselected=5)
    assert again.ret == pytest.ExitCode.OK
    none = run_inner(inner, "-k", "nothing_like_this")
    assert none.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_collection_error_is_not_a_broken_device(inner: pytest.Pytester) -> None:
    inner.makepyfile(test_inner="import nothing_like_this")
    assert run_inner(inner).ret == pytest.ExitCode.INTERRUPTED  # a collection error


def test_tests_that_did_not_end_run_last_and_are_given_up(inner: pytest.Pytester) -> None:
    log = inner.path / "log"
    log.write_text("began test_inner.py::test_first\n")
    run_inner(inner, "-k", "first or last")
    began = [line.split("::")[1] for line in log.read_text().splitlines() if "began" in line]
    assert began == ["test_first", "test_last", "test_first"]
    log.write_text("began test_inner.py::test_first\n" * 2)
    given_up = run_inner(inner, "-k", "first or last")
    given_up.assert_outcomes(passed=1, deselected=4)
    assert given_up.ret == FAILED_BEFORE
    given_up.stdout.fnmatch_lines(["log: began 2 times: *::test_first"])


def test_an_interrupt_is_not_a_failure_of_the_test(tmp_path: Path) -> None:
    log = finished.Finished(tmp_path / "log")
    log.pytest_runtest_logstart("a")
    for kind in (KeyboardInterrupt, pytest.exit.Exception):
        with pytest.raises(kind) as caught:
            raise kind("broke")
        log.pytest_keyboard_interrupt(caught)
    assert (tmp_path / "log").read_text() == "began a\nlost a\n"


# ---- kernels that are kept ---------------------------------------------------------------------


def test_kernels_may_be_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(gpu_runs.CACHE, raising=False)
    assert gpu_runs.kernel_folder() is None
    assert "cache" in cache_folder().name  # the folder of this run, not the user's
    monkeypatch.setenv(gpu_runs.CACHE, str(tmp_path / "kept"))
    assert gpu_runs.kernel_folder() == tmp_path / "kept"


# ---- under a sanitizer ---------------------------------------------------------------------------


@pytest.fixture
def sanitized(machine: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The fake device, in the state that the fixture ``gpu`` sets for a sanitizer."""
    monkeypatch.setenv(gpu_runs.SANITIZER, "1")
    assert gpu_runs.for_sanitizer()
    gpu_runs.show_every_array(sys.modules["cupy"], monkeypatch)
    return machine


@needs_compiler
def test_arrays_are_separate_for_a_sanitizer(sanitized: Any) -> None:
    from gpuboost.backends.cuda.runtime.cupy import CupyRuntime

    assert sanitized.allocator is None
    columns: arrays.Columns = {"a": (np.int32, (3,)), "b": (np.uint8, (5, 2))}
    sizes: list[int] = []
    own = sanitized.own
    sanitized.own = lambda host: sizes.append(host.nbytes) or own(host)
    found = arrays.allocate(CupyRuntime.xp, columns)
    assert sizes == [12, 10] and found["b"].shape == (5, 2) and found["b"].dtype == np.uint8
    sizes.clear()
    arrays.allocate(sys.modules["cupy"], columns)
    assert sizes == [512]


@needs_compiler
@pytest.mark.parametrize(
    "case",
    [
        Case("RandomForestClassifier", target="float32"),
        Case("GradientBoostingRegressor", {"loss": "absolute_error"}, weights="real"),
        Case("AdaBoostClassifier", target="binary"),
    ],
    ids=str,
)
def test_models_are_the_same_under_a_sanitizer(
    case: Case, sanitized: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces: list[bool] = []
    allocate = arrays.allocate_with_memory

    def noted(xp: Any, columns: arrays.Columns) -> Any:
        arrays, memory = allocate(xp, columns)
        pieces.append(isinstance(memory, Array))
        return arrays, memory

    monkeypatch.setattr(arrays, "allocate_with_memory", noted)
    case.run("cuda")
    assert pieces and not any(pieces)
    gc.collect()
    assert GRAPH not in sanitized.launches and sanitized.live == 0


def test_the_fixture_gpu_prepares_the_device_for_a_sanitizer(
    machine: Any, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv(gpu_runs.SANITIZER, "1")
    assert machine.allocator == "pool"
    request.getfixturevalue("gpu")
    assert machine.allocator is None


def test_tests_of_memory_are_skipped_under_a_sanitizer(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv(gpu_runs.SANITIZER, "1")
    with pytest.raises(pytest.skip.Exception, match="arranges memory in another way"):
        request.getfixturevalue("as_users_do")


# ---- memory ------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize(
    "what", ["forest of depth 8", "stumps", pytest.param("boosting", marks=pytest.mark.slow)]
)
def test_peak_memory_is_near_the_estimate(what: str, machine: Any) -> None:
    """The assertion of the GPU test, with few rows, for which trees of depth 16 are not full."""
    assert_estimated(what, 3000)


@needs_compiler
@pytest.mark.parametrize("share", [0.8, 1.25])
def test_a_wrong_estimate_is_seen(
    share: float, machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimate = gpuboost.estimate_memory
    monkeypatch.setattr(
        gpuboost, "estimate_memory", lambda *given, **words: share * estimate(*given, **words)
    )
    with pytest.raises(AssertionError, match="of what was foretold"):
        assert_estimated("stumps", 3000)
