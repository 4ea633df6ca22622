"""Steps of a first run on a GPU: each a command, run within a limit of time and gone on with later.

All that a run knows lies in its folder, and is written after each step, so a run that was ended at
any moment goes on with the next call.
"""

from __future__ import annotations

import json
import os
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu.children import TERM_SECONDS, run_child
from benchmarks.gpu.turns import countdown
from tests.finished import Finished

PASSED, FAILED, CUT_SHORT, LEFT_OUT = "passed", "failed", "cut short", "left out"
NOT_BEGUN, NO_DEVICE = "not begun", "no GPU"
NO_DEVICE_STATUS = 2  # unless it is among a step's own
SECONDS = "{seconds}"  # in a command: the seconds after which it should end by itself
EARLY = 2 * TERM_SECONDS  # seconds from then until it is ended
MARGIN = TERM_SECONDS + 10.0  # seconds before the end of a call in which no step runs
ROUNDS = 8  # how often a call goes on with a step
OUTPUT_BYTES = 8 << 20  # of output.txt; older output is dropped
TAIL_LINES, TAIL_BYTES = 60, 1 << 20
ROOT = Path(__file__).resolve().parents[2]

Entry = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """A command, and what its exit status says.

    Attributes
    ----------
    name : str
    question : str
        That the command answers.
    command : tuple of str
        `SECONDS` in it stands for the seconds after which it should end by itself.
    limit : float
        Seconds after which it is cut short, to go on later.
    least : float
        Seconds that must be left for it to begin.
    environment : mapping of str to str
        Beside that of all steps.
    unfinished : tuple of int
        Exit statuses that say that there is more to do.
    log : str
        File of ``pytest --finished`` in the folder, empty for other commands.
    always : bool
        Whether every call runs it anew.
    missing : str
        Why it cannot run, empty if it can.
    refusal : str
        Output of a tool that cannot work on this machine.
    forget : callable
        Removes what the step has done, before it is run once more.
    """

    name: str
    question: str
    command: tuple[str, ...]
    limit: float
    least: float = 20.0
    environment: Mapping[str, str] = field(default_factory=dict)
    unfinished: tuple[int, ...] = ()
    log: str = ""
    always: bool = False
    missing: str = ""
    refusal: str = ""
    forget: Callable[[], None] = lambda: None


class Run:
    """The steps of a folder, and what became of them.

    Parameters
    ----------
    folder : Path
        Made if it is not there.
    steps : sequence of Step
        The most telling first.
    """

    def __init__(self, folder: Path, steps: Sequence[Step]) -> None:
        self.folder, self.steps = folder.resolve(), steps
        self.kernels = Kernels(self.folder)
        self.kernels.unpack()
        self._report = self.folder / "report.json"
        self.entries: dict[str, Entry] = {}
        if self._report.exists():
            self.entries = json.loads(self._report.read_text(encoding="utf-8"))["steps"]
        for step in steps:
            if step.always or self.status(step) == LEFT_OUT:
                self.entries.pop(step.name, None)

    def status(self, step: Step) -> str:
        """What became of a step so far."""
        return self.entries.get(step.name, {}).get("status", NOT_BEGUN)

    @property
    def exit_status(self) -> int:
        """2 if there is no GPU, 1 if anything failed, else 0."""
        if any(entry["status"] == NO_DEVICE for entry in self.entries.values()):
            return NO_DEVICE_STATUS
        failed = (e["status"] == FAILED or e.get("failed_tests") for e in self.entries.values())
        return int(any(failed))

    def forget(self, step: Step) -> None:
        """Have a step run once more, with the tests that it found to fail."""
        failed = self.entries.pop(step.name, {}).get("failed_tests", {})
        log = self.folder / step.log
        if failed and log.is_file():
            lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
            kept = [line for line in lines if line.rstrip("\n").partition(" ")[2] not in failed]
            log.write_text("".join(kept), encoding="utf-8")
        step.forget()

    def go_on(self, seconds: float) -> None:
        """Run the steps that have not ended, in rounds, as long as there is time."""
        left = countdown(seconds - MARGIN)
        for _ in range(ROUNDS):
            for step in self.steps:
                least = min(step.least, (seconds - MARGIN) / 2)  # a short call may begin it too
                if self.status(step) in (NOT_BEGUN, CUT_SHORT) and left() >= least:
                    self._run(step, min(step.limit, left()))
                if self.status(step) == NO_DEVICE:
                    return

    def _run(self, step: Step, seconds: float) -> None:
        """Run a step and note what became of it, also where an exception ends the call."""
        entry = self.entries.setdefault(step.name, {"seconds": 0.0})
        if step.missing:
            entry |= {"status": LEFT_OUT, "reason": step.missing}
            return self.write()
        command = [f"{seconds - EARLY:.0f}" if word == SECONDS else word for word in step.command]
        entry |= {"status": CUT_SHORT, "command": command}
        self.write()
        print(f"{step.name}: {step.question}", flush=True)
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
                self._note(step, exit_status, _tail(Path(output.name), begin))

    def _note(self, step: Step, exit_status: int | None, lines: list[str]) -> None:
        """Note the end of a command."""
        entry = self.entries[step.name]
        entry |= {"exit_status": exit_status, "output": lines[-TAIL_LINES:]}
        entry["found"] = _last_object(lines)
        log = self.folder / step.log
        if exit_status and step.refusal and any(step.refusal in line for line in lines):
            entry |= {"status": LEFT_OUT, "reason": step.refusal, "failed_tests": {}}
            log.unlink(missing_ok=True)
        else:
            entry["failed_tests"] = self._failed_tests(step)
            entry["status"] = self._judge(step, exit_status)
        _keep_end(self.folder / "output.txt")
        self.kernels.pack()
        self.write()
        print(f"  {entry['status']}, {entry['seconds']} s", flush=True)

    def _judge(self, step: Step, exit_status: int | None) -> str:
        if exit_status is None or exit_status in step.unfinished:
            return CUT_SHORT
        if exit_status == NO_DEVICE_STATUS:
            return NO_DEVICE
        # A log counts as failed by tests of earlier steps too, which are no failures of this one.
        only_old = exit_status == 1 and step.log and not self._failed_tests(step)
        return PASSED if exit_status == 0 or only_old else FAILED

    def _failed_tests(self, step: Step) -> dict[str, str]:
        """Tests of a step's log that did not pass, without those that other steps have noted."""
        if not step.log:
            return {}
        others = [other for other in self.steps if other.log == step.log and other != step]
        known = {t for o in others for t in self.entries.get(o.name, {}).get("failed_tests", ())}
        bad = Finished(self.folder / step.log).bad
        return {test: why for test, why in bad.items() if test not in known}

    def write(self) -> None:
        """Write report.json; a crash in between leaves the old file whole."""
        entries = {step.name: self.entries.get(step.name, {}) for step in self.steps}
        for entry in entries.values():
            entry.setdefault("status", NOT_BEGUN)
        replace_text(self._report, json.dumps({"steps": entries}, indent=1) + "\n")


class Kernels:
    """The machine code of kernels, in folders for all steps and in one archive beside them."""

    def __init__(self, folder: Path) -> None:
        # So deep that a tool which copies the folder's files leaves these to the archive.
        self._caches = folder / "scratch" / "caches"
        self._archive = folder / "kernels.tar.gz"
        self._kept = [self._caches / "gpuboost", self._caches / "cupy"]
        self._packed: dict[Path, int] = {}
        for cache in (*self._kept, self._caches / "numba"):
            cache.mkdir(parents=True, exist_ok=True)

    @property
    def environment(self) -> dict[str, str]:
        """Variables that name the folders."""
        ours, cupy = map(str, self._kept)
        names = {"GPUBOOST_TEST_CACHE_DIR": ours, "GPUBOOST_CACHE_DIR": ours}
        return names | {"CUPY_CACHE_DIR": cupy, "NUMBA_CACHE_DIR": str(self._caches / "numba")}

    def _sizes(self) -> dict[Path, int]:
        files = [path for cache in self._kept for path in cache.rglob("*") if path.is_file()]
        return {path: path.stat().st_size for path in files}

    def pack(self) -> None:
        """Write the archive, if there are new files."""
        with suppress(OSError):  # a process that is ending may still remove its files
            sizes = self._sizes()
            if sizes == self._packed:
                return
            unfinished = self._archive.with_suffix(".tmp")
            with tarfile.open(unfinished, "w:gz", compresslevel=3) as tar:
                for path in sizes:
                    tar.add(path, path.relative_to(self._caches))
            unfinished.replace(self._archive)
            self._packed = sizes

    def unpack(self) -> None:
        """Fill the folders from the archive, if they are empty."""
        if self._archive.exists() and not self._sizes():
            with suppress(tarfile.TarError, EOFError), tarfile.open(self._archive) as tar:
                tar.extractall(self._caches, filter="data")
            self._packed = self._sizes()


def replace_text(path: Path, text: str) -> None:
    """Write a file as a whole."""
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def _tail(path: Path, begin: int) -> list[str]:
    """The last lines that were written after a place."""
    with path.open("rb") as file:
        file.seek(max(begin, file.seek(0, os.SEEK_END) - TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()


def _keep_end(path: Path) -> None:
    """Drop the beginning of a file that is too large."""
    if path.stat().st_size > OUTPUT_BYTES:
        path.write_bytes(path.read_bytes()[-OUTPUT_BYTES:])


def _last_object(lines: list[str]) -> Entry:
    """The JSON object of the last line, an empty one if it is none."""
    last = next((line for line in reversed(lines) if line.strip()), "")
    with suppress(ValueError):
        found = json.loads(last)
        return found if isinstance(found, dict) else {}
    return {}
