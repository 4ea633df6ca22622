"""Steps of a first run on a GPU: commands with time limits, which later calls continue.

The whole state is in the folder and is written after each step, so the next call can resume after
any interruption.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu.first.children import INNER_TERM_SECONDS, TERM_SECONDS, run_child
from benchmarks.gpu.first.kernel_archive import KernelArchive
from benchmarks.gpu.run import GRACE
from benchmarks.gpu.run import NO_DEVICE as NO_DEVICE_STATUS
from benchmarks.gpu.turns import countdown
from tests.runs.finished_log import FAILED_BEFORE, FinishedLog

PASSED, FAILED, CUT_SHORT, LEFT_OUT = "passed", "failed", "cut short", "left out"
NOT_BEGUN, NO_DEVICE = "not begun", "no GPU"
SECONDS = "{seconds}"  # in a command: the seconds after which it should end by itself
# A command should end by itself this many seconds before its limit, because it may have to wait for
# a child process to end.
EARLY = GRACE + INNER_TERM_SECONDS + 5.0
MARGIN = TERM_SECONDS + 10.0  # no step runs in the last seconds of a call
SHELL_SIGNAL = 128  # a tool that runs a command adds this to the number of the signal that ended it
ROUNDS = 8  # a call continues an unfinished step at most this often
OUTPUT_BYTES = 8 << 20  # size of output.txt; older output is dropped
TAIL_LINES, TAIL_BYTES = 60, 1 << 20
ROOT = Path(__file__).resolve().parents[3]

Entry = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """A command, and the meaning of its exit statuses and output.

    Attributes
    ----------
    name : str
    question : str
        Question that the command answers.
    command : tuple of str
        `SECONDS` in it stands for the seconds after which it should end by itself.
    limit : float
        Seconds after which the command is cut short, to be continued later.
    min_seconds : float
        Minimal time that must be left to start the step.
    environment : mapping of str to str
        Environment variables in addition to those of all steps.
    unfinished : tuple of int
        Exit statuses that mean that there is more to do.
    fatal : tuple of int
        Exit statuses of failures after which no other step can run.
    log : str
        File of ``pytest --finished`` in the folder; empty for other commands.
    always : bool
        Whether every call runs the step anew.
    missing : str
        Why the step cannot run; empty if it can. The next call checks again.
    optional : bool
        Whether a step that cannot run is left out, instead of counted as failed.
    refusal : str
        Output by which a tool says that it does not work on this machine.
    findings : callable
        Takes lines of output and returns those that make the step fail, whatever the exit status.
    forget : callable
        Removes the step's earlier results before it is repeated.
    """

    name: str
    question: str
    command: tuple[str, ...]
    limit: float
    min_seconds: float = 20.0
    environment: Mapping[str, str] = field(default_factory=dict)
    unfinished: tuple[int, ...] = ()
    fatal: tuple[int, ...] = ()
    log: str = ""
    always: bool = False
    missing: str = ""
    optional: bool = False
    refusal: str = ""
    findings: Callable[[Iterable[str]], list[str]] = lambda lines: []
    forget: Callable[[], None] = lambda: None


class Run:
    """The steps of a first run, with their state in a folder.

    Parameters
    ----------
    folder : Path
        Created if it does not exist.
    steps : sequence of Step
        The most informative first.
    """

    def __init__(self, folder: Path, steps: Sequence[Step]) -> None:
        self.folder, self.steps = folder.resolve(), steps
        self.kernels = KernelArchive(self.folder)
        self.kernels.unpack()
        self._report = self.folder / "report.json"
        self.entries: dict[str, Entry] = {}
        if self._report.exists():
            self.entries = json.loads(self._report.read_text(encoding="utf-8"))["steps"]
        for step in steps:
            begun_anew = self.status(step) in (NOT_BEGUN, NO_DEVICE) or step.always
            if begun_anew or "reason" in self.entries[step.name]:
                self.entries.pop(step.name, None)  # this machine may be another one

    def status(self, step: Step) -> str:
        """The status of a step."""
        return self.entries.get(step.name, {}).get("status", NOT_BEGUN)

    @property
    def exit_status(self) -> int:
        """3 if there is no GPU, 1 if anything failed, else 0."""
        if any(entry["status"] == NO_DEVICE for entry in self.entries.values()):
            return NO_DEVICE_STATUS
        return int(any(_is_failure(entry) for entry in self.entries.values()))

    def forget(self, step: Step) -> None:
        """Drop the result of a step, and the failed tests from its log, so that they run again.

        If a tool had findings, all tests of the step run again, because findings name no test.
        """
        entry, log = self.entries.pop(step.name, {}), self.folder / step.log
        failed = entry.get("failed_tests", {})
        if entry.get("findings"):
            log.unlink(missing_ok=True)
        elif failed and log.is_file():
            lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
            kept = [line for line in lines if line.rstrip("\n").partition(" ")[2] not in failed]
            log.write_text("".join(kept), encoding="utf-8")
        step.forget()

    def go_on(self, seconds: float) -> None:
        """Run the unfinished steps in rounds, as long as there is time."""
        left = countdown(seconds - MARGIN)
        for _ in range(ROUNDS):
            for step in self.steps:
                needed = min(step.min_seconds, (seconds - MARGIN) / 2)  # for short calls
                if self.status(step) in (NOT_BEGUN, CUT_SHORT) and left() >= needed:
                    self._run(step, min(step.limit, left()))
                ended_by = self.entries.get(step.name, {}).get("exit_status")
                if self.status(step) == NO_DEVICE or ended_by in step.fatal:
                    return

    def _run(self, step: Step, seconds: float) -> None:
        """Run a step and record its result, even if an exception ends the call."""
        entry = self.entries.setdefault(step.name, {"seconds": 0.0})
        if step.missing:
            status = LEFT_OUT if step.optional else FAILED
            entry |= {"status": status, "reason": step.missing}
            return self.write()
        command = [f"{seconds - EARLY:.0f}" if word == SECONDS else word for word in step.command]
        entry |= {"status": CUT_SHORT, "command": command}
        self.write()
        print(f"{step.name}: {step.question}", flush=True)
        n_lines = FinishedLog(self.folder / step.log).n_lines
        started, exit_status = time.perf_counter(), None
        with (self.folder / "output.txt").open("ab") as output:
            output.write(f"\n==== {step.name}: {' '.join(command)}\n".encode())
            output.flush()
            begin = output.tell()
            own = os.environ | self.kernels.environment | dict(step.environment)
            try:
                exit_status = run_child(
                    command, seconds, cwd=ROOT, env=own, stdout=output, stderr=output
                )
            finally:
                entry["seconds"] = round(entry["seconds"] + time.perf_counter() - started, 1)
                self._note(step, exit_status, begin, n_lines)

    def _note(self, step: Step, exit_status: int | None, begin: int, n_lines: int) -> None:
        """Record the result of a command.

        Its output begins at byte ``begin`` of output.txt. Before it ran, the log had ``n_lines``
        lines.
        """
        entry, output = self.entries[step.name], self.folder / "output.txt"
        lines = _tail(output, begin)
        entry |= {"exit_status": exit_status, "output": lines[-TAIL_LINES:]}
        entry["found"] = _last_object(lines)
        log = self.folder / step.log
        refused = exit_status and step.refusal and any(step.refusal in line for line in lines)
        if refused and not entry.get("findings"):
            entry |= {"status": LEFT_OUT, "reason": step.refusal, "failed_tests": {}}
            log.unlink(missing_ok=True)
        else:
            entry["failed_tests"] = self._failed_tests(step)
            entry["findings"] = entry.get("findings", []) + _findings(step, output, begin)
            entry["status"] = self._judge(step, exit_status, n_lines)
        _keep_end(output)
        self.kernels.pack()
        self.write()
        print(f"  {entry['status']}, {entry['seconds']} s", flush=True)

    def _judge(self, step: Step, exit_status: int | None, n_lines: int) -> str:
        """The status that follows from the exit status, the log, and all findings so far."""
        entry, log = self.entries[step.name], FinishedLog(self.folder / step.log)
        if exit_status is None or exit_status in step.unfinished:
            return CUT_SHORT
        by_signal = exit_status < 0 or exit_status > SHELL_SIGNAL
        if step.log and by_signal and log.n_lines > n_lines:
            return CUT_SHORT  # a test crashed; the next round continues with the others
        if exit_status == NO_DEVICE_STATUS and not step.log:
            return NO_DEVICE
        # FAILED_BEFORE may be due to tests of earlier steps, which share the log.
        ended = exit_status == 0 or (step.log and exit_status == FAILED_BEFORE)
        if not ended or entry["failed_tests"] or entry["findings"]:
            return FAILED
        if step.log and not log.end:
            entry["output"].append(f"{step.log} has no test that ended")
            return FAILED
        return PASSED

    def _failed_tests(self, step: Step) -> dict[str, str]:
        """Tests in a step's log that did not pass, without those that belong to other steps."""
        if not step.log:
            return {}
        others = [other for other in self.steps if other.log == step.log and other != step]
        known = {t for o in others for t in self.entries.get(o.name, {}).get("failed_tests", ())}
        bad = FinishedLog(self.folder / step.log).bad
        return {test: why for test, why in bad.items() if test not in known}

    def write(self) -> None:
        """Write report.json; a crash meanwhile leaves the old file intact."""
        entries = {step.name: self.entries.get(step.name, {}) for step in self.steps}
        for entry in entries.values():
            entry.setdefault("status", NOT_BEGUN)
        replace_text(self._report, json.dumps({"steps": entries}, indent=1) + "\n")


def _is_failure(entry: Entry) -> bool:
    """Whether a step has failed, or is unfinished with failed tests or findings."""
    return bool(entry["status"] == FAILED or entry.get("failed_tests") or entry.get("findings"))


def replace_text(path: Path, text: str) -> None:
    """Write a file atomically."""
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def _tail(path: Path, begin: int) -> list[str]:
    """The last lines that were written after byte ``begin``."""
    with path.open("rb") as file:
        file.seek(max(begin, file.seek(0, os.SEEK_END) - TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()


def _findings(step: Step, path: Path, begin: int) -> list[str]:
    """Findings in the output that was written after byte ``begin``."""
    with path.open(encoding="utf-8", errors="replace") as file:
        file.seek(begin)
        return step.findings(file)


def _keep_end(path: Path) -> None:
    """Drop the beginning of a file that is larger than `OUTPUT_BYTES`."""
    if path.stat().st_size > OUTPUT_BYTES:
        path.write_bytes(path.read_bytes()[-OUTPUT_BYTES:])


def _last_object(lines: list[str]) -> Entry:
    """The JSON object in the last line, or {} if that is no JSON object."""
    last = next((line for line in reversed(lines) if line.strip()), "")
    with suppress(ValueError):
        found = json.loads(last)
        return found if isinstance(found, dict) else {}
    return {}
