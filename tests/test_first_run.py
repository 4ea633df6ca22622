"""The first run on a GPU: its steps, with commands that need none."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import children, first_report, first_run, kernel_archive, steps
from benchmarks.gpu.cases import CASES, EQUALITY, FIT, HISTOGRAM
from benchmarks.gpu.first_report import report_text
from benchmarks.gpu.run import GRACE
from benchmarks.gpu.sanitizer import SANITIZER, findings
from benchmarks.gpu.steps import CUT_SHORT, FAILED, LEFT_OUT, NOT_BEGUN, PASSED, ROOT, Run, Step
from benchmarks.peers import OURS
from tests import cuda_shim


@pytest.fixture(autouse=True)
def no_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "MARGIN", 0.0)


def python(name: str, code: str, **given: Any) -> Step:
    """A step of a line of Python, which notes in a file of the folder that it ran."""
    given = {"limit": 20.0, "min_seconds": 0.0} | given
    return Step(name, f"Is it {name}?", (sys.executable, "-c", code), **given)


def statuses(run: Run) -> list[str]:
    """As the report on disk has them."""
    content = json.loads((run.folder / "report.json").read_text())
    return [content["steps"][step.name]["status"] for step in run.steps]


def noting(path: Path, word: str, then: str = "") -> str:
    return f"open({str(path)!r}, 'a').write({word!r}); {then}"


# ---- steps in order, once ------------------------------------------------------------------------


def test_steps_run_in_order_and_once(tmp_path: Path) -> None:
    order = tmp_path / "order"
    found = [
        python("a", noting(order, "a", "print('{\"rate\": 3}')"), always=True),
        python("b", noting(order, "b", "import sys; print('why'); sys.exit(1)")),
        python("c", noting(order, "c"), missing="there is no c", optional=True),
        python("d", noting(order, "d")),
    ]
    run = Run(tmp_path, found)
    run.go_on(60)
    assert order.read_text() == "abd" and run.exit_status == 1
    assert statuses(run) == [PASSED, FAILED, LEFT_OUT, PASSED]
    assert run.entries["a"]["found"] == {"rate": 3} and run.entries["b"]["output"] == ["why"]
    text = report_text(tmp_path, found, run.entries)
    assert "there is no c" in text and '"rate": 3' in text and "why" in text
    assert "==== a: " in (tmp_path / "output.txt").read_text()
    again = Run(tmp_path, found)
    again.go_on(60)
    assert order.read_text() == "abda" and again.exit_status == 1
    again.forget(found[1])
    again.go_on(60)
    assert order.read_text() == "abdab"


def test_a_step_that_breaks_off_goes_on_after_the_others(tmp_path: Path) -> None:
    order = tmp_path / "order"
    breaks = f"import sys; sys.exit(2 * (open({str(order)!r}).read().count('a') < 3))"
    run = Run(
        tmp_path,
        [python("a", noting(order, "a", breaks), unfinished=(2,)), python("b", noting(order, "b"))],
    )
    run.go_on(60)
    assert order.read_text() == "abaa" and run.exit_status == 0
    assert statuses(run) == [PASSED, PASSED]


def test_without_a_gpu_nothing_else_begins(tmp_path: Path) -> None:
    code = "import os, sys; sys.exit(3 * (not os.path.exists('gpu')))"
    found = [python("a", f"import os; os.chdir({str(tmp_path)!r}); {code}"), python("b", "")]
    run = Run(tmp_path, found)
    run.go_on(60)
    assert run.exit_status == 3 and statuses(run) == ["no GPU", NOT_BEGUN]
    (tmp_path / "gpu").touch()
    again = Run(tmp_path, found)  # on a machine that has one
    again.go_on(60)
    assert again.exit_status == 0 and statuses(again) == [PASSED, PASSED]


def test_with_a_gpu_that_cannot_be_used_nothing_else_begins(tmp_path: Path) -> None:
    unusable = python("facts", "import sys; sys.exit(5)", always=True, fatal=(5,))
    run = Run(tmp_path, [unusable, python("b", "")])
    run.go_on(60)
    assert run.exit_status == 1 and statuses(run) == [FAILED, NOT_BEGUN]
    repaired = Run(tmp_path, [python("facts", "", always=True, fatal=(5,)), run.steps[1]])
    repaired.go_on(60)
    assert repaired.exit_status == 0 and statuses(repaired) == [PASSED, PASSED]


def test_wrong_arguments_are_no_missing_gpu(tmp_path: Path) -> None:
    run = Run(tmp_path, [python("a", "import sys; sys.exit(2)"), python("b", "")])
    run.go_on(60)
    assert run.exit_status == 1 and statuses(run) == [FAILED, PASSED]


def test_a_tool_that_refuses_the_device_is_left_out(tmp_path: Path) -> None:
    code = "import sys; print('Error: Device not supported'); sys.exit(9)"
    code = f"print('========= Error: Device not supported'); {code}"
    step = python("tool", code, refusal="Device not supported", log="tool.log", findings=findings)
    (tmp_path / "tool.log").write_text("failed a\n")  # of want of a device
    run = Run(tmp_path, [step])
    run.go_on(60)
    assert statuses(run) == [LEFT_OUT] and run.exit_status == 0
    assert not (tmp_path / "tool.log").exists()
    assert Run(tmp_path, [step]).status(step) == NOT_BEGUN  # another machine may have it


# ---- steps of tests ------------------------------------------------------------------------------


def test_without_pytest_no_test_has_passed(tmp_path: Path) -> None:
    code = "import sys; print('No module named pytest'); sys.exit(1)"
    run = Run(tmp_path, [python("a", code, log="a.log"), python("b", "", log="b.log")])
    run.go_on(60)
    assert statuses(run) == [FAILED, FAILED] and run.exit_status == 1
    assert run.entries["b"]["output"] == ["b.log has no test that ended"]


def test_steps_of_tests_say_that_pytest_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_run.importlib.util, "find_spec", lambda name: None)
    found = [s for s in first_run.all_steps(tmp_path, "full") if s.log]
    run = Run(tmp_path, found)
    run.go_on(600)
    assert run.exit_status == 1
    assert statuses(run) == [FAILED, FAILED, LEFT_OUT, LEFT_OUT, FAILED]
    assert f"Failed: parity, {first_run.NO_PYTEST}." in report_text(tmp_path, found, run.entries)
    assert Run(tmp_path, found).status(found[0]) == NOT_BEGUN  # it may be installed by then


def test_nothing_but_tests_needs_pytest() -> None:
    code = "import sys; sys.modules['pytest'] = None; "
    code += "from benchmarks.gpu import copies, facts, first_run, run"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize("status", [1, 2, 3, 5])
def test_an_exit_status_of_pytest_itself_is_a_failure(status: int, tmp_path: Path) -> None:
    """Of tests that fail, of errors of collection, of its own, and of having no tests."""
    then = f"import sys; sys.exit({status})"
    (parity,) = (s for s in first_run.all_steps(tmp_path, "full") if s.name == "parity")
    words = (sys.executable, "-c", noting(tmp_path / "tests.log", "began a\npassed a\n", then))
    run = Run(tmp_path, [replace(parity, command=words)])
    run.go_on(600)
    assert statuses(run) == [FAILED]


CRASHES = """
import os, signal, sys
from pathlib import Path
from tests.finished_log import FAILED_BEFORE, FinishedLog
log = FinishedLog(Path(sys.argv[1]))
if log.is_left("a"):
    log.write("began", "a")
    os.kill(os.getpid(), signal.SIGSEGV)
log.write("began", "b")
log.write("passed", "b")
sys.exit(FAILED_BEFORE if log.bad else 0)
"""


@pytest.mark.parametrize("shell", [False, True])
def test_a_test_that_crashes_is_given_up_and_has_failed(shell: bool, tmp_path: Path) -> None:
    words: tuple[str, ...] = (sys.executable, "-c", CRASHES, str(tmp_path / "a.log"))
    if shell:  # as a tool that runs the command gives the signal on
        words = ("sh", "-c", '"$@"; exit $?', "sh", *words)
    run = Run(tmp_path, [Step("a", "", words, 20.0, min_seconds=0.0, log="a.log")])
    run.go_on(60)
    assert statuses(run) == [FAILED] and run.entries["a"]["failed_tests"] == {"a": "began 2 times"}
    began = [line for line in (tmp_path / "a.log").read_text().splitlines() if "began" in line]
    assert began == ["began a", "began a", "began b"]


def test_a_crash_before_any_test_ends_a_step(tmp_path: Path) -> None:
    crashes = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    run = Run(tmp_path, [python("a", crashes, log="a.log")])
    run.go_on(60)
    assert statuses(run) == [FAILED] and (tmp_path / "output.txt").read_text().count("====") == 1


SAID = """========= COMPUTE-SANITIZER
============================= test session starts ==============================
tests/test_gpu.py ..========= Invalid __global__ write of size 4 bytes
=========     at 0x90 in grow.cu:12
=========
========= 2 failed, 150 passed, 33 deselected in 200.55s (0:03:20) =========
========= Error: process didn't terminate successfully
========= Target application returned an error
========= ERROR SUMMARY: 1 error
"""


def test_findings_of_a_sanitizer_are_its_lines_alone() -> None:
    found = findings(SAID.splitlines(keepends=True))
    lines = ["Invalid __global__ write of size 4 bytes", "    at 0x90 in grow.cu:12"]
    assert found == [*map(str.strip, lines), "ERROR SUMMARY: 1 error"]
    assert findings(["========= COMPUTE-SANITIZER", "========= ERROR SUMMARY: 0 errors"]) == []
    clean = "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"
    assert findings([clean]) == []
    assert findings([clean.replace("0", "1")]) != []


def test_findings_of_a_slice_that_was_cut_short_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "tool.log"
    says = f"import os; seen = os.path.exists({str(log)!r}); "
    says += noting(log, "began a\npassed a\n", "seen or print('========= Invalid read'); ")
    given: dict[str, Any] = {"log": "tool.log", "unfinished": (7,), "findings": findings}
    step = python("tool", f"{says}exit(0 if seen else 7)", **given)
    run = Run(tmp_path, [step])
    monkeypatch.setattr(steps, "ROUNDS", 1)
    run.go_on(60)
    assert statuses(run) == [CUT_SHORT] and run.exit_status == 1
    run = Run(tmp_path, [step])  # the next call
    run.go_on(60)
    assert statuses(run) == [FAILED] and run.entries["tool"]["exit_status"] == 0
    assert run.entries["tool"]["findings"] == ["Invalid read"]
    text = report_text(tmp_path, [step], run.entries)
    assert "## Findings of `tool`\n\n```\nInvalid read" in text
    run.forget(step)
    assert not log.exists()  # nobody knows which of its tests it was


# ---- limits of time ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "start",
    [
        "import subprocess; subprocess.run(words)",
        "from benchmarks.gpu import children; children.exit_on_sigterm(); "
        "children.run_child(words, 99, children.INNER_TERM_SECONDS)",  # a case, in its own group
        "from benchmarks.gpu import children; children.exit_on_sigterm(); "
        "children.run_child(words, 3, 60)",  # SIGTERM comes while it waits for the case to end
    ],
    ids=["a child", "a case", "a case that is being ended"],
)
def test_a_step_that_hangs_is_cut_short_with_all_it_started(
    start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others run, and the next call goes on with it."""
    monkeypatch.setattr(steps, "ROUNDS", 1)
    pid, ready = tmp_path / "pid", tmp_path / "ready"
    words = f"words = [sys.executable, '-c', {sleeper(pid)!r}]"
    hangs = python("a", f"import sys; {words}; {start}", limit=4.0)
    run = Run(tmp_path, [hangs, python("b", noting(ready, "b"))])
    run.go_on(60)
    assert statuses(run) == [CUT_SHORT, PASSED] and run.exit_status == 0
    assert has_ended(int(pid.read_text()))
    repaired = Run(tmp_path, [python("a", "print('here')"), run.steps[1]])
    repaired.go_on(60)
    assert statuses(repaired) == [PASSED, PASSED] and ready.read_text() == "b"


def sleeper(pid: Path) -> str:
    ignore = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    note = f"open({str(pid)!r}, 'w').write(str(os.getpid()))"
    return f"import os, signal, time; {ignore}; {note}; time.sleep(99)"


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or only waits for its parent to notice."""
    for _ in range(50):
        status = Path(f"/proc/{pid}/stat")
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.1)
    return False


def test_a_call_ends_in_time(tmp_path: Path) -> None:
    started = time.perf_counter()
    asleep = python("a", "import time; print('z', flush=True); time.sleep(99)")
    run = Run(tmp_path, [asleep, python("b", "", min_seconds=1.0)])
    run.go_on(2.0)
    assert time.perf_counter() - started < 10
    assert statuses(run) == [CUT_SHORT, NOT_BEGUN]
    assert run.entries["a"]["output"] == ["z"] and run.entries["a"]["exit_status"] is None


def test_the_seconds_of_a_command_end_before_it_is_ended(tmp_path: Path) -> None:
    words = (sys.executable, "-c", "import sys; print(sys.argv[1:])", steps.SECONDS, "{else}")
    run = Run(tmp_path, [Step("a", "", words, limit=50.0)])
    run.go_on(90)
    assert steps.EARLY >= GRACE + children.INNER_TERM_SECONDS + 3
    assert run.entries["a"]["output"] == [f"['{50 - steps.EARLY:.0f}', '{{else}}']"]


SCRIPT = """
import sys
from pathlib import Path
from benchmarks.gpu import first_run
from benchmarks.gpu.steps import Step
sleeping = "import time; print('begun', flush=True); time.sleep(99)"
first_run.all_steps = lambda *_: [
    Step("a", "", (sys.executable, "-c", sleeping), 90),
    Step("b", "", ("no",), 90),
]
first_run.exit_on_sigterm()
sys.exit(first_run.main(["--out", sys.argv[1]]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interruption_leaves_the_report_whole(number: signal.Signals, tmp_path: Path) -> None:
    output = tmp_path / "output.txt"
    words = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    own = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        for _ in range(300):
            if output.exists() and "begun\n" in output.read_text():
                break
            time.sleep(0.1)
        child.send_signal(number)
        said = child.communicate(timeout=30)[0]
    assert child.returncode != 0 and b"| a |" in said
    content = json.loads((tmp_path / "report.json").read_text())["steps"]
    assert content["a"]["status"] == CUT_SHORT and content["a"]["output"] == ["begun"]
    assert content["b"]["status"] == NOT_BEGUN
    assert "cut short" in (tmp_path / "report.md").read_text()


# ---- what is kept --------------------------------------------------------------------------------


def test_tests_that_failed_are_of_one_step_and_may_run_again(tmp_path: Path) -> None:
    log = tmp_path / "tests.log"
    few = python("few", noting(log, "failed a\npassed b\n", "exit(1)"), log="tests.log")
    rest = python("rest", noting(log, "began c\npassed c\n", "exit(8)"), log="tests.log")
    run = Run(tmp_path, [few, rest])
    run.go_on(60)
    assert statuses(run) == [FAILED, PASSED]
    assert run.entries["few"]["failed_tests"] == {"a": "failed"}
    assert "- few: `a` (failed)" in report_text(tmp_path, run.steps, run.entries)
    run.forget(few)
    assert log.read_text() == "passed b\nbegan c\npassed c\n"
    assert run.status(few) == NOT_BEGUN


def test_kernels_go_from_one_folder_to_the_next(tmp_path: Path) -> None:
    write = "import os; from pathlib import Path; folder = Path(os.environ['GPUBOOST_CACHE_DIR']);"
    write += "(folder / 'deep').mkdir(); (folder / 'deep' / 'x.cubin').write_bytes(b'code')"
    run = Run(tmp_path / "a", [python("a", write)])
    run.go_on(60)
    archive = run.folder / "kernels.tar.gz"
    with tarfile.open(archive) as tar:
        assert tar.getnames() == ["gpuboost/deep/x.cubin"]
    (tmp_path / "b").mkdir()
    archive.rename(tmp_path / "b" / "kernels.tar.gz")
    other = Run(tmp_path / "b", [])
    folder = Path(other.kernels.environment["GPUBOOST_TEST_CACHE_DIR"])
    assert (folder / "deep" / "x.cubin").read_bytes() == b"code"
    other.kernels.pack()  # nothing is new


@pytest.mark.parametrize("damage", ["header", "half", "bits", "folder"])
def test_of_a_damaged_archive_whole_files_are_taken(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_archive, "FILTER", {})  # as before Python 3.11.4
    archive, code = tmp_path / "kernels.tar.gz", os.urandom(100_000)
    kernels = Run(tmp_path, []).kernels
    folder = Path(kernels.environment["GPUBOOST_CACHE_DIR"])
    for name in ("a", "b", "c"):
        (folder / name).write_bytes(code)
    kernels.pack()
    packed = archive.read_bytes()
    shutil.rmtree(tmp_path / "scratch")
    middle = len(packed) // 2
    if damage == "folder":
        archive.unlink()
        archive.mkdir()
    else:
        bits = packed[:middle] + bytes(len(packed) - middle)
        archive.write_bytes(
            {"header": b"\x1f\x8b no", "half": packed[:middle], "bits": bits}[damage]
        )
    Run(tmp_path, []).go_on(1)
    assert all(path.read_bytes() == code for path in folder.iterdir())
    assert len(list(folder.iterdir())) == (1 if damage in ("half", "bits") else 0)


def test_output_is_capped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "OUTPUT_BYTES", 1000)
    run = Run(tmp_path, [python("a", "print('x' * 5000); print('end')")])
    run.go_on(60)
    text = (tmp_path / "output.txt").read_text()
    assert len(text) == 1000 and text.endswith("end\n")


def test_times_are_shown_beside_those_predicted() -> None:
    predicted = {r["case"]: r for r in json.loads(first_report.PREDICTED.read_text())["records"]}
    level, forest = CASES[1].name, CASES[3].name
    shape, stage = next(iter(predicted[level]["stages"].items()))
    common = {"scale": "full", "who": OURS}
    records = [
        common | {"case": forest, "kind": FIT, "seconds": 2 * predicted[forest]["seconds"]},
        common | {"case": level, "kind": HISTOGRAM, "seconds": 3 * stage["seconds"]},
        common | {"case": forest, "kind": FIT, "seconds": 7.0, "who": "another"},
        common | {"case": forest, "kind": FIT, "failed": "no"},
    ]
    records[1]["who"] = f"{OURS}, {shape}"
    rows = first_report.predicted_table(records).splitlines()[2:]
    assert [row.split(" | ")[-1] for row in rows] == ["3.00 |", "2.00 |"]
    assert f"| {level} | {shape} |" in rows[0] and f"| {forest} |" in rows[1]


# ---- the steps themselves ------------------------------------------------------------------------


def test_the_steps_leave_eight_files(tmp_path: Path) -> None:
    """All else lies deeper, in folders of caches."""
    found = first_run.all_steps(tmp_path, "full")
    assert len({step.name for step in found}) == len(found)
    logs = {step.log for step in found if step.log}
    others = {"report.json", "report.md", "gpu.json", "output.txt", "kernels.tar.gz"}
    assert len(logs | others) == 8
    caches = Run(tmp_path, []).kernels.environment.values()
    assert {len(Path(cache).relative_to(tmp_path).parts) for cache in caches} == {3}


def test_only_what_failed_is_measured_again(tmp_path: Path) -> None:
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
    assert len(json.loads(result.read_text())["records"]) == 1  # what was measured well stays


def test_results_of_other_machines_go_along_in_the_archive(tmp_path: Path) -> None:
    (equal,) = (step for step in first_run.all_steps(tmp_path, "full") if step.name == "equal")
    aside = Path(equal.command[equal.command.index("--aside") + 1])
    aside.mkdir(parents=True)
    (aside / "gpu-1.json").write_text("{}")
    Run(tmp_path, []).kernels.pack()
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["kernels.tar.gz"]
    shutil.rmtree(tmp_path / "scratch")
    Run(tmp_path, [])
    assert (aside / "gpu-1.json").read_text() == "{}"


def test_every_case_is_of_a_step(tmp_path: Path) -> None:
    named = [step.command for step in first_run.all_steps(tmp_path, "full")]
    only = [words[words.index("--only") + 1 :] for words in named if "--only" in words]
    chosen = [case for texts in only for case in first_run.choose(*texts)]
    assert sorted(case.name for case in chosen) == sorted(c.name for c in first_run.choose())


def test_the_sanitizer_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_without_cupy_the_command_says_why(form: list[str], tmp_path: Path) -> None:
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
# Other files run all tests of a GPU on the stand-in; here each step needs a few.
FEW = "-k 'test_datasets or test_the_stream_of_the_user or test_real_weights_of_many_rows'"
LEFT_OUT_TESTS = ("option", "estimator[A", "estimator[E", "estimator[G")  # beginnings of names


@pytest.fixture
def stand_in(tmp_path: Path) -> dict[str, str]:
    """Environment in which ``import cupy`` gives the stand-in, and PATH has a sanitizer."""
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
            [FEW, *(f"--deselect=tests/test_gpu.py::test_every_{name}" for name in LEFT_OUT_TESTS)]
        ),
    }


@pytest.mark.slow
@pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)
def test_the_whole_run_on_the_stand_in(tmp_path: Path, stand_in: dict[str, str]) -> None:
    """From a fresh folder to the last step, and once more where the caches are gone."""
    runs = tmp_path / "runs"
    if "NUMBA_CACHE_DIR" in os.environ:  # what is compiled already
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
    """Names of tests without their parameters, and what became of them."""
    lines = [line.split(" ", 1) for line in path.read_text().splitlines()]
    return [(t.partition("::")[2].partition("[")[0], word) for word, t in lines if word != "began"]
