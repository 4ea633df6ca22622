"""Test runs in several processes, and the files that these share."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import joblib
import pytest

from tests.cuda_shim import compiler
from tests.runs import workers
from tests.runs.workers import MAX_WORKERS, NARROW, spread_over_cores

WHOLE = {
    **dict.fromkeys(NARROW),
    "markexpr": "not slow and not gpu",
    "numprocesses": None,
    "dist": "no",
    "capture": "fd",
}
Source = pytest.Config.ArgsSource


def workers_of(source: Source = Source.TESTPATHS, xdist: bool = True, **changes: Any) -> Any:
    """Number of processes of a run with these options, and how xdist distributes the tests."""
    option = SimpleNamespace(**{**WHOLE, **changes})
    config: Any = SimpleNamespace(
        option=option,
        args_source=source,
        pluginmanager=SimpleNamespace(hasplugin=lambda name: xdist),
        getoption=lambda name, *default: getattr(option, name, *default),
    )
    spread_over_cores(config)
    return option.numprocesses, option.dist


@pytest.fixture(autouse=True)
def blas_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the variable after each test, since `spread_over_cores` may set it."""
    monkeypatch.setenv(workers.BLAS_THREADS, "3")


@pytest.fixture
def three_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joblib, "cpu_count", lambda: 3)


@pytest.mark.parametrize("kinds", ["not slow and not gpu", "slow"])
def test_the_whole_suite_takes_all_cores(
    kinds: str, three_cores: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "find_spec", lambda name: None)
    assert workers_of(markexpr=kinds) == (3, "worksteal")
    assert workers_of(Source.INVOCATION_DIR, markexpr=kinds) == (3, "worksteal")


@pytest.mark.parametrize(
    "asked",
    [
        {"source": Source.ARGS},
        {"xdist": False},
        {"markexpr": "gpu"},
        {"markexpr": ""},
        {"markexpr": "slow or gpu"},
        {"capture": "no"},
        *({name: True} for name in NARROW),
    ],
    ids=str,
)
def test_everything_else_stays_in_one_process(asked: dict[str, Any], three_cores: None) -> None:
    assert workers_of(**asked) == (None, "no")


def test_a_gpu_is_not_shared(three_cores: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "find_spec", lambda name: name == "cupy")
    assert workers_of(markexpr="slow") == (None, "no")
    assert workers_of() == (3, "worksteal")


def test_an_explicit_number_of_processes_is_used(three_cores: None) -> None:
    assert workers_of(numprocesses=2) == (2, "no")
    assert workers_of(numprocesses=0) == (0, "no")
    assert workers_of(dist="loadfile") == (None, "loadfile")


@pytest.mark.parametrize(("numprocesses", "expected"), [(None, "1"), (2, "1"), (0, None)])
def test_workers_have_one_thread_of_openblas(
    numprocesses: int | None, expected: str | None, three_cores: None, monkeypatch: Any
) -> None:
    workers_of()
    assert os.environ[workers.BLAS_THREADS] == "3"  # as the user wants
    monkeypatch.delenv(workers.BLAS_THREADS)
    workers_of(numprocesses=numprocesses)
    assert os.environ.get(workers.BLAS_THREADS) == expected


def test_tests_of_numba_run_first_in_workers(tmp_path: Path) -> None:
    """The tests of a file stay together and in order."""
    items: list[Any] = []
    for name, text in (("a", "shim"), ("b", "numba"), ("c", "shim"), ("d", "numba")):
        path = tmp_path / name
        path.write_text(text)
        items += [SimpleNamespace(path=path, name=name + number) for number in "12"]
    for config, order in (
        (SimpleNamespace(workerinput={}), "b1 b2 d1 d2 a1 a2 c1 c2"),
        (SimpleNamespace(), "a1 a2 b1 b2 c1 c2 d1 d2"),
    ):
        found = list(items)
        workers.put_in_order(config, found)  # type: ignore[arg-type]
        assert " ".join(item.name for item in found) == order


def test_the_number_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, expected in ((1, 0), (2, 2), (64, MAX_WORKERS)):
        monkeypatch.setattr(joblib, "cpu_count", lambda cores=cores: cores)
        assert workers_of()[0] == expected


needs_flock = pytest.mark.skipif(
    compiler.why_not_available() is not None and not compiler.must_be_available(),
    reason=str(compiler.why_not_available()),
)


@needs_flock
def test_an_object_that_several_want_is_built_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = []

    def tool(command: list[str]) -> str:
        commands.append(command)
        time.sleep(0.02)
        Path(command[command.index("-o") + 1]).touch()
        return ""

    monkeypatch.setattr(compiler, "run_tool", tool)
    target = tmp_path / "fill-plain-0123.so"
    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(compiler._build, target, (), tmp_path / "fill.cu", ())
    assert len(commands) == 2 and target.exists()
    assert {path.suffix for path in tmp_path.iterdir()} == {".so", ".lock"}


def test_objects_that_another_process_removes_meanwhile(tmp_path: Path) -> None:
    """A file that vanishes while old files are removed is not an error."""
    (tmp_path / "half.o").symlink_to(tmp_path / "finished")
    (tmp_path / "kept.so").touch()
    compiler._forget_old(tmp_path)
    assert (tmp_path / "kept.so").exists()


def test_processes_that_compile_for_other_types_keep_their_own_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes save code at the same time; each reads the index before the other writes."""
    from gpuboost.backends.numba.compiler import _MarkingFile

    first, second, third = (_MarkingFile(tmp_path, "grow", lambda types: None) for _ in range(3))
    one, other = (("float32",), "cpu"), (("float64",), "cpu")
    late: list[Any] = []
    monkeypatch.setattr(first, "_save_data", lambda *given: late.append(given))
    first.save(one, "code of float32")
    monkeypatch.setattr(second, "_load_index", dict)
    second.save(other, "code of float64")
    monkeypatch.undo()
    first._save_data(*late[0])
    assert third.load(other) == "code of float64"
    assert third.load(one) in (None, "code of float32")


def test_a_run_without_options_uses_several_processes(pytestconfig: pytest.Config) -> None:
    options = pytestconfig.getini("addopts")
    assert options[options.index("-m") + 1] == workers.SPREAD[0]
