"""Runs the cells of ``gpuboost bench`` within its time.

Each library has a process of its own for each device, which is started when it is first needed. A
cell is skipped if, by the time for fewer rows, it would take too long; it is ended after half of
the time left.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path

from gpuboost.cli.bench.cells import GPUBOOST, BenchCell, CellOutcome, planned_cells
from gpuboost.cli.bench.report import BenchReport, print_report
from gpuboost.cli.bench.rows import BenchRows, rows_of_table
from gpuboost.cli.output import ProgressBar, progress, say

EXPECTED_SHARE = 0.2  # of the whole time, that a cell may be expected to take
ENDED_SHARE = 0.5  # of the time left, after which it is ended, with its imports and compiling
SHARE_AT_END, SECONDS_AT_END = 0.02, 1.0  # of the whole time, or more, kept to end processes
MARGIN = 1.3  # by which a prediction may be too low


@dataclass(frozen=True)
class BenchOptions:
    """Options of the command line.

    Attributes
    ----------
    sizes : tuple of int
        Numbers of training rows, in ascending order.
    budget : float
        Seconds that the whole benchmark may take.
    table, target : str or None
        A table of the user with its target; None for synthetic rows.
    seed : int
        Seed of the rows and of all models.
    """

    sizes: tuple[int, ...]
    budget: float
    table: str | None = None
    target: str | None = None
    seed: int = 0


class CellServer:
    """A process that fits the cells of one library on one device."""

    def __init__(self, folder: str, rows: BenchRows) -> None:
        kind = "classes" if rows.is_classification else "values"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gpuboost.cli.bench.worker", folder, kind, str(rows.seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        """Queue all lines of the process, and an empty one when it has ended."""
        for line in self.process.stdout or ():
            self._lines.put(line)
        self._lines.put("")

    def run(self, cell: BenchCell, limit: float) -> tuple[CellOutcome, float] | None:
        """The outcome of a cell and its seconds, or None if it takes more than ``limit``."""
        assert self.process.stdin is not None
        try:
            print(json.dumps(asdict(cell)), file=self.process.stdin, flush=True)
            line = self._lines.get(timeout=max(limit, 0.0))
        except queue.Empty:
            return None
        except OSError:
            line = ""
        if not line:
            with suppress(subprocess.TimeoutExpired):  # it has closed its output
                self.process.wait(SECONDS_AT_END)
            self.process.kill()
            reason = f"its process ended with status {self.process.wait()}"
            return CellOutcome(reason=reason, is_error=True), 0.0
        outcome, seconds = json.loads(line)
        return CellOutcome(**outcome), seconds

    def stop(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for stream in (self.process.stdin, self.process.stdout):
            with suppress(OSError):  # of a request that the process has not read
                if stream is not None:
                    stream.close()


@dataclass
class Schedule:
    """Decides by the time left, and by the seconds of smaller sizes, what runs.

    Attributes
    ----------
    budget, deadline : float
        Seconds for everything, and when they are over, by `time.perf_counter`.
    known : dict
        Rows and seconds of the last cell with the same model, library and device; the seconds are
        infinite if it was ended.
    """

    budget: float
    deadline: float
    known: dict[tuple[str, str, str], tuple[int, float]] = field(default_factory=dict)

    @property
    def remaining(self) -> float:
        """Seconds left for cells."""
        at_end = max(SECONDS_AT_END, SHARE_AT_END * self.budget)
        return self.deadline - time.perf_counter() - at_end

    @property
    def limit(self) -> float:
        """Seconds that the next cell may be expected to take."""
        return min(self.remaining, EXPECTED_SHARE * self.budget)

    def predicted(self, cell: BenchCell) -> float:
        """Seconds that a cell will take, in proportion to the rows; 0 if nothing is known."""
        rows, seconds = self.known.get((cell.model, cell.library, cell.device), (1, 0.0))
        return seconds * cell.rows / rows

    def reason_to_skip(self, cell: BenchCell) -> str:
        """Why a cell should not run, or ""."""
        seconds = self.predicted(cell)
        if self.limit <= 0.0:
            return "no time left"
        if seconds * MARGIN <= self.limit:
            return ""
        return f"about {seconds:.0f} s" if seconds < float("inf") else "too slow with fewer rows"

    def record(self, cell: BenchCell, seconds: float) -> None:
        """Store how long a cell took."""
        self.known[cell.model, cell.library, cell.device] = cell.rows, seconds


@dataclass
class CellRunner:
    """Runs cells in the processes of their libraries."""

    folder: Path
    rows: BenchRows
    schedule: Schedule
    servers: dict[tuple[str, str], CellServer] = field(default_factory=dict)

    def run(self, cell: BenchCell) -> CellOutcome:
        """The outcome of a cell; it is skipped if it would take too long, or ended."""
        reason = self.schedule.reason_to_skip(cell)
        if reason:
            return CellOutcome(reason=reason)
        place = cell.library, cell.device
        server = self.servers.get(place)
        if server is None:
            server = self.servers[place] = CellServer(str(self.folder), self.rows)
        limit = max(self.schedule.limit, ENDED_SHARE * self.schedule.remaining)
        found = server.run(cell, limit)
        if found is None or server.process.poll() is not None:
            self.servers.pop(place).stop()
        if found is None:
            self.schedule.record(cell, float("inf"))
            return CellOutcome(reason=f"ended after {limit:.0f} s")
        self.schedule.record(cell, found[1])
        return found[0]

    def stop(self) -> None:
        """End all processes."""
        for server in self.servers.values():
            server.stop()


def run(options: BenchOptions, as_json: bool) -> int:
    """Run the benchmark and print its results; the status is 1 if a fit of gpuboost failed."""
    began = time.perf_counter()
    rows = BenchRows(None, None, True, options.seed)
    if options.table is not None and options.target is not None:
        rows = rows_of_table(options.table, options.target, options.seed)
    cells = planned_cells(rows.sizes(options.sizes))
    say(f"{len(cells)} fits of {len({cell.library for cell in cells})} libraries, "
        f"at most {options.budget:.0f} s")  # fmt: skip
    schedule = Schedule(options.budget, began + options.budget)
    with tempfile.TemporaryDirectory(prefix="gpuboost-bench-") as folder:
        runner = CellRunner(Path(folder), rows, schedule)
        try:
            with progress("", len(cells), "fits") as bar:
                found = outcomes(cells, runner, bar)
        finally:
            runner.stop()
    seconds = time.perf_counter() - began
    source = options.table or "synthetic rows"
    report = BenchReport(found, options.budget, seconds, source, rows.is_classification)
    print_report(report, as_json)
    return int(any(one.is_error and cell.library == GPUBOOST for cell, one in found.items()))


def outcomes(
    cells: list[BenchCell], runner: CellRunner, bar: ProgressBar
) -> dict[BenchCell, CellOutcome]:
    """Run all cells, and return their outcomes in the order of the cells.

    For each size, those of gpuboost run first, and then the others, the fastest first.
    """
    found: dict[BenchCell, CellOutcome] = {}
    for rows, block in groupby(cells, lambda cell: cell.rows):
        if not bar.is_shown:
            say(f"{rows:,} rows ...")
        runner.rows.write(rows, runner.folder)
        predicted = runner.schedule.predicted
        order = sorted(block, key=lambda cell: (cell.library != GPUBOOST, predicted(cell)))
        for cell in order:
            bar.describe(f"{cell.library} {cell.model} {cell.rows:,}"[:40].ljust(40))
            found[cell] = runner.run(cell)
            bar.advance()
    return {cell: found[cell] for cell in cells}
