"""Choosing a device: by name, by estimated speed, and errors for devices that are missing."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

from gpuboost import (
    DecisionTreeClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from gpuboost.backends import cache as compiled
from gpuboost.backends import select as choice
from gpuboost.backends.cache import GROW_MANY, GROW_ONE, PREDICT
from gpuboost.backends.cost_model import GrowthSize, WorkTimes, growth_work
from gpuboost.backends.devices import why_no_cuda
from gpuboost.backends.prediction_cost import prediction_work
from gpuboost.backends.select import (
    COMPILE_SECONDS,
    LOAD_SECONDS,
    available_backends,
    choose_backend,
)
from gpuboost.data.parameters import thread_count
from gpuboost.estimators.fitting import base as fitting

NO_CUPY = importlib.util.find_spec("cupy") is None
LITTLE, MUCH = (
    WorkTimes(GROW_ONE, numpy=1e-3, numba=1e-4),
    WorkTimes(GROW_ONE, numpy=1e6, numba=1e4),
)


@pytest.fixture
def numba_start(monkeypatch):
    """A function that sets the cost of starting Numba, in seconds."""

    def set_seconds(seconds: float) -> None:
        monkeypatch.setattr(choice, "_numba_start_seconds", lambda program: seconds)

    return set_seconds


def test_names_of_backends_are_devices():
    for name in ("numpy", "numba"):
        assert choose_backend(name, LITTLE).name == name
        assert choose_backend(name, MUCH).name == name


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_auto_chooses_the_faster_backend(device, numba_start, monkeypatch):
    monkeypatch.setattr(choice, "_spent", {})
    numba_start(60.0)
    assert choose_backend(device, LITTLE).name == "numpy"
    assert choose_backend(device, WorkTimes(GROW_ONE, numpy=50.0, numba=1.0)).name == "numpy"
    assert choose_backend(device, MUCH).name == "numba"
    numba_start(0.0)
    assert choose_backend(device, LITTLE).name == "numba"
    assert choose_backend(device, WorkTimes(GROW_ONE, numpy=1e-3, numba=2e-3)).name == "numpy"


def test_many_small_fits_start_numba_eventually(numba_start, monkeypatch):
    monkeypatch.setattr(choice, "_spent", {})
    numba_start(5.0)
    small = WorkTimes(GROW_ONE, numpy=2.0, numba=0.1)
    assert [choose_backend("cpu", small).name for _ in range(4)] == 2 * ["numpy"] + 2 * ["numba"]
    assert choose_backend("cpu", WorkTimes(GROW_MANY, numpy=2.0, numba=0.1)).name == "numpy"


def test_repeated_predictions_of_few_rows_start_numba(monkeypatch):
    """With code on disk, the call after the fortieth uses Numba; a single large one NumPy."""
    monkeypatch.setattr(choice, "_spent", {})
    monkeypatch.setattr(choice, "_loaded_programs", set())
    monkeypatch.setattr(choice, "_programs_on_disk", lambda: {PREDICT})
    model = DecisionTreeClassifier().fit(np.eye(9), np.arange(9) % 2)
    work = prediction_work(1, 72, model._model.ensemble)
    assert work.numba < work.numpy < 1e-3
    used = [choose_backend("auto", work).name for _ in range(41)]
    assert used[0] == "numpy" and used[-1] == "numba" and used == sorted(used, reverse=True)
    monkeypatch.setattr(choice, "_spent", {})
    monkeypatch.setattr(choice, "_loaded_programs", set())
    assert choose_backend("auto", WorkTimes(PREDICT, numpy=0.15, numba=0.01)).name == "numpy"
    assert choose_backend("auto", WorkTimes(PREDICT, numpy=0.5, numba=0.01)).name == "numba"
    monkeypatch.setattr(choice, "_spent", {})
    monkeypatch.setattr(choice, "_loaded_programs", {GROW_ONE})  # a fit ran on Numba
    assert choose_backend("auto", WorkTimes(PREDICT, numpy=0.15, numba=0.01)).name == "numba"


def test_threads_are_for_many_rows(monkeypatch):
    """Few rows are predicted in the calling thread, without counting the processors."""
    X = np.random.default_rng(0).normal(size=(200_000, 3))
    model = GradientBoostingClassifier(n_estimators=20, device="numba", n_jobs=2)
    model.fit(X[:2000], X[:2000, 0] > 0)
    asked = []

    def count(n_jobs, at_most):
        asked.append(at_most)
        return thread_count(n_jobs, at_most)

    monkeypatch.setattr(fitting, "thread_count", count)
    model.predict(X[:100])
    model.predict(X)
    assert asked[0] == 1 and asked[1] > 1
    monkeypatch.setattr("gpuboost.data.parameters.cpu_count", lambda: pytest.fail("counted"))
    assert thread_count(None, at_most=1) == 1
    with pytest.raises(ValueError, match="n_jobs must not be 0"):
        thread_count(0, at_most=1)


def test_without_numba_numpy_does_everything(monkeypatch, numba_start):
    numba_start(0.0)
    monkeypatch.setattr(choice, "_why_no_numba", lambda: "Numba does not work here (broken)")
    assert choose_backend("auto", MUCH).name == "numpy"
    with pytest.raises(RuntimeError, match=r"device='numba' cannot be used: Numba does not work"):
        choose_backend("numba", MUCH)


@pytest.mark.parametrize("device", ["gpu", "CUDA", "cuda:", "cuda:x", "cuda:-1", "", None, 0])
def test_unknown_devices(device):
    with pytest.raises(ValueError, match='device must be "auto", "cpu"'):
        choose_backend(device, LITTLE)


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_gpu_that_cannot_be_used_says_why(device):
    if not why_no_cuda(device):
        pytest.skip("the error appears without a GPU, and this machine has one")
    with pytest.raises(RuntimeError, match=f"device='{device}' cannot be used: "):
        choose_backend(device, LITTLE)
    estimator = DecisionTreeClassifier(device=device)
    with pytest.raises(RuntimeError, match="CuPy"):
        estimator.fit([[0.0], [1.0]], [0, 1])
    assert not hasattr(estimator, "device_")


@pytest.mark.skipif(not NO_CUPY, reason="CuPy is installed")
def test_without_cupy_the_extra_is_named():
    with pytest.raises(RuntimeError, match=r"pip install gpuboost\[cuda12\]"):
        choose_backend("cuda", LITTLE)


def test_available_backends_lists_all_backends():
    found = {name: (usable, reason) for name, usable, reason in available_backends()}
    assert list(found) == ["numpy", "numba", "cuda"]
    assert found["numpy"] == (True, "") and found["numba"] == (True, "")
    assert found["cuda"] == (not why_no_cuda(), why_no_cuda())
    assert found["cuda"][0] or "CuPy" in found["cuda"][1]


def test_work_grows_with_everything():
    few = GrowthSize(1000, 20, n_candidate_features=5, n_trees=10, max_depth=8, n_channels=1)
    one = growth_work(few)
    for more in (
        {"n_samples": 2000},
        {"n_candidate_features": 6},
        {"n_trees": 11},
        {"max_depth": 9},
    ):
        work = growth_work(replace(few, **more))
        assert work.numpy > one.numpy and work.numba > one.numba
    deep, unbounded = (replace(few, max_depth=depth) for depth in (50, 2**31 - 1))
    assert growth_work(deep) == growth_work(unbounded)
    assert growth_work(replace(few, n_channels=3)).program == GROW_MANY != one.program


def test_the_cost_of_starting_numba_depends_on_its_cache(monkeypatch):
    monkeypatch.setattr(choice, "_loaded_programs", {PREDICT})
    monkeypatch.setattr(choice, "_programs_on_disk", lambda: {GROW_ONE})
    start = choice._numba_start_seconds
    assert [start(p) for p in (PREDICT, GROW_ONE, GROW_MANY)] == [0, LOAD_SECONDS, COMPILE_SECONDS]


USES = {
    PREDICT: "np.zeros((20, 2))); model.set_params(device='numba').predict(X",
    GROW_ONE: "X); DecisionTreeClassifier(device='numba').fit(X, X[:, 0] > 9",
    GROW_MANY: "X); DecisionTreeClassifier(device='numba').fit(X, X[:, 0] // 9",
}


@pytest.mark.parametrize(
    "program", [PREDICT, *(pytest.param(p, marks=pytest.mark.slow) for p in (GROW_ONE, GROW_MANY))]
)
def test_compiled_code_is_found_where_numba_keeps_it(program, tmp_path):
    """Each program is compiled in a separate process with an empty cache.

    If its marker is lost, a process that reads the code from disk writes it again.
    """
    code = f"""
import numpy as np
from gpuboost import DecisionTreeClassifier
from gpuboost.backends.cache import compiled_programs
X = np.arange(40.0).reshape(20, 2)
model = DecisionTreeClassifier(device="numpy").fit(X, X[:, 0] > 9)
assert not compiled_programs()
model.predict({USES[program]})
for program, folder in compiled_programs().items():
    print(program, folder)
"""
    own = tmp_path / "own"
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "GPUBOOST_CACHE_DIR": str(own)}
    run = partial(subprocess.run, env=env, check=True, capture_output=True, text=True)
    found, folder = run([sys.executable, "-c", code]).stdout.split()
    assert found == program and Path(folder) in {path.parent for path in tmp_path.rglob("*.nbc")}
    for marker in own.glob(f"*{compiled.SUFFIX}"):
        marker.unlink()
    assert run([sys.executable, "-c", code]).stdout.split() == [program, folder]
    again = "import sys; from gpuboost.backends import select; print(*select._programs_on_disk())"
    again += "; assert 'numba' not in sys.modules"
    assert run([sys.executable, "-c", again]).stdout.split() == [program]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache folder with machine code of one program."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "code"))
    monkeypatch.setenv("GPUBOOST_CACHE_DIR", str(tmp_path / "own"))
    folder = tmp_path / "code" / "numba"
    folder.mkdir(parents=True)
    (folder / "predict.nbc").touch()
    return folder


def test_code_of_other_sources_versions_or_folders_is_not_counted(folder, monkeypatch):
    assert compiled.compiled_programs() == {}
    compiled.mark_compiled(folder, PREDICT)
    assert compiled.compiled_programs() == {PREDICT: folder}
    for name, other in (("source_stamp", lambda: "0123"), ("metadata", OtherNumba)):
        with monkeypatch.context() as patch:
            patch.setattr(compiled, name, other)
            assert compiled.compiled_programs() == {}
    with monkeypatch.context() as patch:
        patch.setenv("NUMBA_CACHE_DIR", str(folder))
        assert compiled.compiled_programs() == {}
    assert compiled.compiled_programs() == {PREDICT: folder}


class OtherNumba:
    """`importlib.metadata` with another version of the package installed."""

    PackageNotFoundError = ImportError

    @staticmethod
    def version(package):
        return "0.1"


def test_code_that_was_removed_is_not_counted(folder):
    compiled.mark_compiled(folder, PREDICT)
    (folder / "predict.nbc").unlink()
    assert compiled.compiled_programs() == {}
    shutil.rmtree(folder)
    assert compiled.compiled_programs() == {}


def test_a_damaged_marker_is_not_counted(folder):
    compiled.mark_compiled(folder, PREDICT)
    for content in (b"", b"\xff\xfe", compiled.marker(PREDICT).read_bytes()[:-1]):
        compiled.marker(PREDICT).write_bytes(content)
        assert compiled.compiled_programs() == {}


def test_a_byte_of_any_source_changes_the_stamp(tmp_path, monkeypatch):
    """Sources in subfolders count too."""
    stamp = compiled.source_stamp.__wrapped__
    for name in ("_NUMBA_SOURCES", "_ENGINE"):
        place = tmp_path / name
        shutil.copytree(getattr(compiled, name), place)
        monkeypatch.setattr(compiled, name, place)
    before = stamp()
    inner = tmp_path / "_NUMBA_SOURCES" / "stage"
    inner.mkdir()
    (inner / "module.py").write_text("# added")
    assert stamp() != before
    seen = {stamp()}
    for source in compiled.sources():
        text = source.read_bytes()
        source.write_bytes(text[:-1] + b" ")
        assert stamp() not in seen, source
        source.write_bytes(text)
    assert len(compiled.sources()) > 40 + len(compiled.ENGINE_MODULES)


def test_compiled_constants_are_in_the_stamp():
    """The stamp covers every engine module with constants that are compiled into the backend."""
    stamped = set(compiled.sources())
    for path in sorted(compiled._NUMBA_SOURCES.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            module = getattr(node, "module", None) or ""
            names = [alias.name for alias in getattr(node, "names", [])]
            if module.startswith("gpuboost.engine.") and any(map(str.isupper, names)):
                place = compiled._ENGINE / module.split(".", 2)[2].replace(".", "/")
                found = {place.with_suffix(".py"), place / "base.py"}
                assert found & stamped, f"{path.name} imports constants of {module}"


def test_compiled_formulas_are_in_the_stamp():
    text = (compiled._NUMBA_SOURCES / "compiler.py").read_text(encoding="utf-8")
    names = re.findall(r'_load_compiled\("([\w.]+)"', text)
    assert "newton" in names
    assert {name.replace(".", "/") for name in names} <= set(compiled.ENGINE_MODULES)


def test_many_features_cost_numpy_time_even_with_few_rows():
    """NumPy makes one call per feature and level, even for a small table."""
    few = GrowthSize(500, 5, n_candidate_features=5, n_trees=1, max_depth=2**31 - 1, n_channels=1)
    work = growth_work(replace(few, n_features=1000, n_candidate_features=1000))
    assert work.numpy > work.numba + LOAD_SECONDS
    assert growth_work(few).numpy < LOAD_SECONDS


def test_device_attribute_is_the_backend_used():
    X, y = load_breast_cancer(return_X_y=True)
    for device in ("numpy", "numba"):
        model = RandomForestClassifier(n_estimators=3, device=device).fit(X, y)
        assert model.device_ == device
    assert RandomForestClassifier(n_estimators=3).fit(X, y).device_ in ("numpy", "numba")


def test_all_devices_and_threads_make_the_same_model():
    for load, model in (
        (load_breast_cancer, RandomForestClassifier),
        (load_diabetes, RandomForestRegressor),
    ):
        X, y = load(return_X_y=True)
        made = [
            model(n_estimators=6, random_state=1, device=device, n_jobs=n_jobs).fit(X, y)
            for device in ("numpy", "numba", "auto", "cpu")
            for n_jobs in (1, 2, None)
        ]
        assert len({m.fingerprint() for m in made}) == 1
        for other in made[1:]:
            np.testing.assert_array_equal(made[0].predict(X), other.predict(X))


def test_a_small_first_fit_does_not_touch_numba():
    """In a new process, a fit of a few thousand rows neither compiles nor imports Numba."""
    code = """
import sys
import numpy as np
from gpuboost import RandomForestClassifier
from gpuboost.backends import select
select._programs_on_disk = lambda: frozenset()
X = np.random.default_rng(0).normal(size=(3000, 10))
model = RandomForestClassifier(n_estimators=20).fit(X, X[:, 0] > 0)
model.predict(X)
assert model.device_ == "numpy" and "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_fit_without_numba_installed():
    code = """
import sys
sys.modules["numba"] = None  # import numba raises ImportError
import numpy as np
from gpuboost import RandomForestClassifier
from gpuboost.backends.select import available_backends, choose_backend
from gpuboost.backends.cost_model import WorkTimes
X = np.random.default_rng(0).normal(size=(200, 4))
assert RandomForestClassifier(n_estimators=3).fit(X, X[:, 0] > 0).device_ == "numpy"
assert choose_backend("auto", WorkTimes("predict", numpy=1e6, numba=1.0)).name == "numpy"
name, usable, reason = available_backends()[1]
assert name == "numba" and not usable and "Numba" in reason
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_threads_by_default_and_by_number(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert thread_count(None) == thread_count(-1) == joblib.cpu_count()
    assert thread_count(3) == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert thread_count(None) == 1 and thread_count(2) == 2


@pytest.mark.parametrize("device", ["numpy", "numba"])
def test_fits_in_several_threads_at_once(device):
    X, y = load_breast_cancer(return_X_y=True)

    def fit(seed: int) -> str:
        model = RandomForestClassifier(n_estimators=5, random_state=seed, device=device, n_jobs=2)
        return model.fit(X, y).fingerprint()

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(fit, [*range(6), *range(6)]))
    assert together == [fit(seed) for seed in range(6)] * 2
    assert len(set(together)) == 6


def test_errors_of_cupy_are_given_as_the_reason():
    """A CuPy that cannot be imported and one without a driver, each in a separate process."""
    code = """
import sys, types, importlib.machinery
cupy = types.ModuleType("cupy")
cupy.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
cupy.__version__ = "14.2.0"
sys.modules["cupy"] = cupy
def fail():
    raise OSError("driver version is insufficient")
cupy.cuda = types.SimpleNamespace(runtime=types.SimpleNamespace(getDeviceCount=fail))
from gpuboost.backends.select import choose_backend
from gpuboost.backends.cost_model import WorkTimes
try:
    choose_backend("cuda", WorkTimes("predict", 1.0, 1.0))
except RuntimeError as error:
    assert "CuPy finds no usable device (OSError: driver version is insufficient)" in str(error)
else:
    raise SystemExit(1)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("version", ["13.6.0", "14.0.1", "14.1.0rc1"])
def test_a_cupy_that_sorts_wrongly_is_refused(machine, monkeypatch, version):
    monkeypatch.setattr(sys.modules["cupy"], "__version__", version)
    refused = version < "14.1"
    assert why_no_cuda().startswith(f"CuPy {version} sorts wrongly") == refused
    assert ("14.1 or newer" in why_no_cuda()) == refused
