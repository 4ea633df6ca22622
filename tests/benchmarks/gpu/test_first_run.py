"""The first run on a GPU: its steps, with commands that need no GPU."""

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

from benchmarks.gpu import first_run
from benchmarks.gpu.cases import CASES, FIT, HISTOGRAM
from benchmarks.gpu.first import children, kernel_archive, steps
from benchmarks.gpu.first import report as first_report
from benchmarks.gpu.first.report import report_text
from benchmarks.gpu.first.sanitizer import findings
from benchmarks.gpu.first.steps import (
    CUT_SHORT,
    FAILED,
    LEFT_OUT,
    NOT_BEGUN,
    PASSED,
    ROOT,
    Run,
    Step,
)
from benchmarks.gpu.run import GRACE
from benchmarks.peers.peers import OURS


@pytest.fixture(autouse=True)
def no_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "MARGIN", 0.0)


def python(name: str, code: str, **given: Any) -> Step:
    """A step that runs one line of Python."""
    given = {"limit": 20.0, "min_seconds": 0.0} | given
    return Step(name, f"Is it {name}?", (sys.executable, "-c", code), **given)


def statuses(run: Run) -> list[str]:
    """Statuses of the steps in the report on disk."""
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


def test_an_interrupted_step_continues_after_the_others(tmp_path: Path) -> None:
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
    again = Run(tmp_path, found)  # on a machine with a GPU
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


def test_wrong_arguments_do_not_count_as_a_missing_gpu(tmp_path: Path) -> None:
    run = Run(tmp_path, [python("a", "import sys; sys.exit(2)"), python("b", "")])
    run.go_on(60)
    assert run.exit_status == 1 and statuses(run) == [FAILED, PASSED]


def test_a_tool_that_refuses_the_device_is_left_out(tmp_path: Path) -> None:
    code = "import sys; print('Error: Device not supported'); sys.exit(9)"
    code = f"print('========= Error: Device not supported'); {code}"
    step = python("tool", code, refusal="Device not supported", log="tool.log", findings=findings)
    (tmp_path / "tool.log").write_text("failed a\n")  # for lack of a device
    run = Run(tmp_path, [step])
    run.go_on(60)
    assert statuses(run) == [LEFT_OUT] and run.exit_status == 0
    assert not (tmp_path / "tool.log").exists()
    assert Run(tmp_path, [step]).status(step) == NOT_BEGUN  # other machines may have it


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
    assert Run(tmp_path, found).status(found[0]) == NOT_BEGUN  # pytest may be installed later


def test_only_tests_need_pytest() -> None:
    code = "import sys; sys.modules['pytest'] = None; "
    code += (
        "from benchmarks.gpu import first_run, run; from benchmarks.gpu.first import copies, facts"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize("status", [1, 2, 3, 5])
def test_an_exit_status_of_pytest_itself_is_a_failure(status: int, tmp_path: Path) -> None:
    """The statuses mean failed tests, collection errors, internal errors, and no tests."""
    then = f"import sys; sys.exit({status})"
    (parity,) = (s for s in first_run.all_steps(tmp_path, "full") if s.name == "parity")
    words = (sys.executable, "-c", noting(tmp_path / "tests.log", "began a\npassed a\n", then))
    run = Run(tmp_path, [replace(parity, command=words)])
    run.go_on(600)
    assert statuses(run) == [FAILED]


CRASHES = """
import os, signal, sys
from pathlib import Path
from tests.runs.finished_log import FAILED_BEFORE, FinishedLog
log = FinishedLog(Path(sys.argv[1]))
if log.is_left("a"):
    log.write("began", "a")
    os.kill(os.getpid(), signal.SIGSEGV)
log.write("began", "b")
log.write("passed", "b")
sys.exit(FAILED_BEFORE if log.bad else 0)
"""


@pytest.mark.parametrize("shell", [False, True])
def test_a_test_that_crashes_twice_has_failed(shell: bool, tmp_path: Path) -> None:
    words: tuple[str, ...] = (sys.executable, "-c", CRASHES, str(tmp_path / "a.log"))
    if shell:  # as a tool that passes the signal on
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
tests/gpu/test_gpu.py ..========= Invalid __global__ write of size 4 bytes
=========     at 0x90 in grow.cu:12
=========
========= 2 failed, 150 passed, 33 deselected in 200.55s (0:03:20) =========
========= Error: process didn't terminate successfully
========= Target application returned an error
========= ERROR SUMMARY: 1 error
"""


def test_findings_of_a_sanitizer_are_its_own_lines() -> None:
    found = findings(SAID.splitlines(keepends=True))
    lines = ["Invalid __global__ write of size 4 bytes", "    at 0x90 in grow.cu:12"]
    assert found == [*map(str.strip, lines), "ERROR SUMMARY: 1 error"]
    assert findings(["========= COMPUTE-SANITIZER", "========= ERROR SUMMARY: 0 errors"]) == []
    clean = "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"
    assert findings([clean]) == []
    assert findings([clean.replace("0", "1")]) != []


def test_findings_of_an_interrupted_call_are_kept(
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
    assert not log.exists()  # the failed test is unknown


# ---- limits of time ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "start",
    [
        "import subprocess; subprocess.run(words)",
        "from benchmarks.gpu.first import children; children.exit_on_sigterm(); "
        "children.run_child(words, 99, children.INNER_TERM_SECONDS)",  # a case in its own group
        "from benchmarks.gpu.first import children; children.exit_on_sigterm(); "
        "children.run_child(words, 3, 60)",  # SIGTERM arrives while it waits for the case
    ],
    ids=["a child", "a case", "a case that is being ended"],
)
def test_a_step_that_hangs_is_ended_with_its_processes(
    start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other steps run, and the next call continues the step."""
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
    """Whether a process has ended, or is a zombie."""
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


def test_a_command_gets_less_time_than_its_limit(tmp_path: Path) -> None:
    words = (sys.executable, "-c", "import sys; print(sys.argv[1:])", steps.SECONDS, "{else}")
    run = Run(tmp_path, [Step("a", "", words, limit=50.0)])
    run.go_on(90)
    assert steps.EARLY >= GRACE + children.INNER_TERM_SECONDS + 3
    assert run.entries["a"]["output"] == [f"['{50 - steps.EARLY:.0f}', '{{else}}']"]


SCRIPT = """
import sys
from pathlib import Path
from benchmarks.gpu import first_run
from benchmarks.gpu.first.steps import Step
sleeping = "import time; print('begun', flush=True); time.sleep(99)"
first_run.all_steps = lambda *_: [
    Step("a", "", (sys.executable, "-c", sleeping), 90),
    Step("b", "", ("no",), 90),
]
first_run.exit_on_sigterm()
sys.exit(first_run.main(["--out", sys.argv[1]]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interruption_leaves_a_complete_report(number: signal.Signals, tmp_path: Path) -> None:
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


# ---- files that are kept -------------------------------------------------------------------------


def test_failed_tests_belong_to_a_step_and_can_run_again(tmp_path: Path) -> None:
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


def test_kernels_are_copied_to_the_next_folder(tmp_path: Path) -> None:
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
def test_complete_files_of_a_damaged_archive_are_used(
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
    kept = [path.read_bytes() for path in folder.iterdir() if path.is_file()]
    assert kept == [code] * (1 if damage in ("half", "bits") else 0)


def test_output_is_capped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "OUTPUT_BYTES", 1000)
    run = Run(tmp_path, [python("a", "print('x' * 5000); print('end')")])
    run.go_on(60)
    text = (tmp_path / "output.txt").read_text()
    assert len(text) == 1000 and text.endswith("end\n")


def test_the_report_has_predicted_times() -> None:
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
