"""The steps of a first run on a GPU, and the complete run on the stand-in for CuPy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import first_run
from benchmarks.gpu.cases import CASES, EQUALITY
from benchmarks.gpu.first.sanitizer import SANITIZER
from benchmarks.gpu.first.steps import PASSED, ROOT, Run
from benchmarks.peers.peers import OURS
from tests import cuda_shim

# ---- the steps themselves ------------------------------------------------------------------------


def test_the_steps_write_eight_files(tmp_path: Path) -> None:
    """Other files are in subfolders, with the caches."""
    found = first_run.all_steps(tmp_path, "full")
    assert len({step.name for step in found}) == len(found)
    logs = {step.log for step in found if step.log}
    others = {"report.json", "report.md", "gpu.json", "output.txt", "kernels.tar.gz"}
    assert len(logs | others) == 8
    caches = Run(tmp_path, []).kernels.environment.values()
    assert {len(Path(cache).relative_to(tmp_path).parts) for cache in caches} == {3}


def test_only_failed_cases_are_measured_again(tmp_path: Path) -> None:
    name = "the same model as NumPy's"
    assert name in [case.name for case in first_run.choose()]
    common = {"case": name, "kind": EQUALITY, "scale": "full", "bounds": {}}
    kept = [
        common | {"who": f"{OURS}, equal", "case": "another", "equal": False},
        common | {"who": "peer", "seconds": 1.0},
    ]
    wrong = [common | {"who": OURS, "equal": False}, common | {"who": "other", "failed": "no"}]
    result = tmp_path / "gpu.json"
    result.write_text(json.dumps({"records": kept + wrong}))
    (equal,) = (step for step in first_run.all_steps(tmp_path, "full") if step.name == "equal")
    Run(tmp_path, [equal]).forget(equal)
    assert json.loads(result.read_text())["records"] == kept
    result.write_text(json.dumps({"records": [common | {"who": OURS, "equal": True}]}))
    Run(tmp_path, [equal]).forget(equal)
    assert len(json.loads(result.read_text())["records"]) == 1  # successful measurements are kept


def test_the_archive_has_results_of_other_machines(tmp_path: Path) -> None:
    (equal,) = (step for step in first_run.all_steps(tmp_path, "full") if step.name == "equal")
    aside = Path(equal.command[equal.command.index("--aside") + 1])
    aside.mkdir(parents=True)
    (aside / "gpu-1.json").write_text("{}")
    Run(tmp_path, []).kernels.pack()
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["kernels.tar.gz"]
    shutil.rmtree(tmp_path / "scratch")
    Run(tmp_path, [])
    assert (aside / "gpu-1.json").read_text() == "{}"


def test_every_case_belongs_to_a_step(tmp_path: Path) -> None:
    named = [step.command for step in first_run.all_steps(tmp_path, "full")]
    only = [words[words.index("--only") + 1 :] for words in named if "--only" in words]
    chosen = [case for texts in only for case in first_run.choose(*texts)]
    assert sorted(case.name for case in chosen) == sorted(c.name for c in first_run.choose())


def test_the_sanitizer_is_searched_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr(first_run.Path, "glob", lambda self, pattern: iter(()))
    find = first_run.importlib.util.find_spec
    monkeypatch.setattr(
        first_run.importlib.util, "find_spec", lambda name: None if name == "nvidia" else find(name)
    )
    assert first_run.find_sanitizer() is None
    (memcheck,) = (s for s in first_run.all_steps(tmp_path, "full") if s.name == "memcheck")
    assert memcheck.missing == first_run.NO_SANITIZER
    tool = tmp_path / "bin" / SANITIZER
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert first_run.find_sanitizer() == str(tool)
    (memcheck,) = (s for s in first_run.all_steps(tmp_path, "full") if s.name == "memcheck")
    assert not memcheck.missing and memcheck.command[0] == str(tool)


@pytest.mark.skipif(
    subprocess.run([sys.executable, "-c", "import cupy"], capture_output=True).returncode == 0,
    reason="there may be a GPU",
)
@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there may be a GPU")
@pytest.mark.parametrize(
    "form", [["-m", "benchmarks.gpu.first_run"], ["benchmarks/gpu/first_run.py"]]
)
def test_without_cupy_the_command_gives_the_reason(form: list[str], tmp_path: Path) -> None:
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [sys.executable, *form, "--out", str(tmp_path / "runs"), "--minutes", "2"]
    done = subprocess.run(words, cwd=ROOT, env=own, capture_output=True, text=True, timeout=100)
    assert done.returncode == 3, done.stderr
    assert "| no GPU |" in done.stdout and "not begun" in done.stdout
    assert "No module named 'cupy'" in (tmp_path / "runs" / "report.md").read_text()


# ---- the whole run -------------------------------------------------------------------------------

TOOL = """#!/bin/sh
[ "$1 $3 $4 $5 $6" = "--tool --report-api-errors no --error-exitcode 9" ] || exit 64
[ "$2" = memcheck ] || [ "$2" = racecheck ] || exit 65
[ "$GPUBOOST_TEST_SANITIZER" = 1 ] || exit 66
shift 6
exec "$@"
"""
# Other files run all GPU tests on the stand-in; here each step needs a few.
FEW = "-k 'test_datasets or test_the_stream_of_the_user or test_real_weights_of_many_rows'"
LEFT_OUT_TESTS = ("option", "estimator[A", "estimator[E", "estimator[G")  # prefixes of names


@pytest.fixture
def stand_in(tmp_path: Path) -> dict[str, str]:
    """An environment in which ``import cupy`` gives the stand-in, and PATH has a sanitizer."""
    tool = tmp_path / "bin" / SANITIZER
    tool.parent.mkdir()
    tool.write_text(TOOL)
    tool.chmod(0o755)
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return own | {
        "PATH": f"{tool.parent}{os.pathsep}{own['PATH']}",
        "PYTHONPATH": f"{ROOT / 'tests' / 'stand_in'}{os.pathsep}{ROOT}",
        "GPUBOOST_TEST_ROWS": "300",
        "PYTEST_ADDOPTS": " ".join(
            [
                FEW,
                *(
                    f"--deselect=tests/gpu/test_gpu.py::test_every_{name}"
                    for name in LEFT_OUT_TESTS
                ),
            ]
        ),
    }


@pytest.mark.slow
@pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)
def test_the_whole_run_on_the_stand_in(tmp_path: Path, stand_in: dict[str, str]) -> None:
    """A run from a new folder to the last step, and a second one without the caches."""
    runs = tmp_path / "runs"
    if "NUMBA_CACHE_DIR" in os.environ:  # code that is already compiled
        compiled = Path(os.environ["NUMBA_CACHE_DIR"])
        compiled.mkdir(parents=True, exist_ok=True)
        (runs / "scratch" / "caches").mkdir(parents=True)
        (runs / "scratch" / "caches" / "numba").symlink_to(compiled)

    def call(minutes: int) -> dict[str, Any]:
        words = [sys.executable, "benchmarks/gpu/first_run.py", "--out", str(runs)]
        words += ["--scale", "tiny", "--minutes", str(minutes)]
        done = subprocess.run(words, cwd=ROOT, env=stand_in, capture_output=True, text=True)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        assert "Call again" not in done.stdout
        return json.loads((runs / "report.json").read_text())["steps"]

    found = call(9)
    assert {step["status"] for step in found.values()} == {PASSED}
    assert [found[name]["exit_status"] for name in found] == [0] * len(found)
    ended = [log_of(runs / f"{name}.log") for name in ("tests", "memcheck", "racecheck")]
    assert all(tests and {word for _, word in tests} <= {"passed", "skipped"} for tests in ended)
    assert {word for _, word in ended[1] + ended[2]} == {"passed"}
    assert {"test_datasets", "test_real_weights_of_many_rows"} <= {name for name, _ in ended[0]}
    records = json.loads((runs / "gpu.json").read_text())["records"]
    ours = {r["case"] for r in records if r["who"].startswith(OURS) and "failed" not in r}
    assert ours == {case.name for case in CASES} and not [r for r in records if "failed" in r]
    text = (runs / "report.md").read_text()
    assert (
        '"to_host_GB_per_s"' in text and '"nvrtc"' in text and f"| {CASES[3].name} (tiny) |" in text
    )
    files = {path.name for path in runs.iterdir() if path.is_file()}
    assert files == {
        *("report.json", "report.md", "gpu.json", "output.txt", "kernels.tar.gz"),
        *("tests.log", "memcheck.log", "racecheck.log"),
    }
    shutil.rmtree(runs / "scratch")
    again = call(1)
    assert {**again, "facts": None} == {**found, "facts": None}
    assert list((runs / "scratch" / "caches" / "gpuboost").iterdir())


def log_of(path: Path) -> list[tuple[str, str]]:
    """Names of tests without parameters, with their outcomes."""
    lines = [line.split(" ", 1) for line in path.read_text().splitlines()]
    return [(t.partition("::")[2].partition("[")[0], word) for word, t in lines if word != "began"]
