"""Runs the cells of ``gpuboost bench`` within its time.

Each library has a process of its own for each device, which is started when it is first needed. A
cell is skipped if, by the time for fewer rows, it would take too long; it is ended if it does.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from gpuboost.cli.bench.cells import GPUBOOST, BenchCell, CellOutcome, planned_cells
from gpuboost.cli.bench.report import BenchReport, print_report
from gpuboost.cli.bench.rows import BenchRows, rows_of_table
from gpuboost.cli.bench.worker import serve
from gpuboost.cli.output import ProgressBar, progress, say

LARGEST_SHARE = 0.25  # of the whole time, that one cell may take
SHARE_AT_END = 0.02  # of the whole time, kept for ending processes and printing
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


@dataclass
class CellServer:
    """A process that fits the cells of one library on one device."""

    process: Any
    connection: Connection

    @classmethod
    def start(cls, folder: str, rows: BenchRows) -> CellServer:
        """Start the process."""
        context = multiprocessing.get_context("spawn")
        own, other = context.Pipe()
        arguments = (other, folder, rows.is_classification, rows.seed)
        process = context.Process(target=serve, args=arguments, daemon=True)
        process.start()
        other.close()
        return cls(process, own)

    def run(self, cell: BenchCell, limit: float) -> tuple[CellOutcome, float] | None:
        """The outcome of a cell and its seconds, or None if it takes more than ``limit``."""
        self.connection.send(cell)
        if not self.connection.poll(max(limit, 0.0)):
            return None
        try:
            return self.connection.recv()
        except EOFError:
            return CellOutcome(reason="its process ended", is_error=True), 0.0

    def stop(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.join()
        self.connection.close()


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
        return self.deadline - time.perf_counter() - SHARE_AT_END * self.budget

    @property
    def limit(self) -> float:
        """Seconds that the next cell may take."""
        return min(self.remaining, LARGEST_SHARE * self.budget)

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
        """The outcome of a cell; it is skipped if it would take too long, and ended if it does."""
        reason = self.schedule.reason_to_skip(cell)
        if reason:
            return CellOutcome(reason=reason)
        place = cell.library, cell.device
        server = self.servers.get(place)
        if server is None:
            server = self.servers[place] = CellServer.start(str(self.folder), self.rows)
        limit = self.schedule.limit
        found = server.run(cell, limit)
        if found is None or not server.process.is_alive():
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
    sizes = rows.sizes(options.sizes)
    cells = planned_cells(sizes)
    say(f"{len(cells)} fits of {len({cell.library for cell in cells})} libraries, "
        f"at most {options.budget:.0f} s")  # fmt: skip
    schedule = Schedule(options.budget, began + options.budget)
    with tempfile.TemporaryDirectory(prefix="gpuboost-bench-") as folder:
        runner = CellRunner(Path(folder), rows, schedule)
        try:
            with progress("", len(cells), "fits") as bar:
                found = outcomes(cells, runner.run, bar, lambda n: rows.write(n, runner.folder))
        finally:
            runner.stop()
    seconds = time.perf_counter() - began
    source = options.table or "synthetic rows"
    print_report(BenchReport(found, options.budget, seconds, source, rows.is_classification), as_json)
    return int(any(one.is_error and cell.library == GPUBOOST for cell, one in found.items()))


def outcomes(
    cells: list[BenchCell],
    run_cell: Callable[[BenchCell], CellOutcome],
    bar: ProgressBar,
    prepare: Callable[[int], None],
) -> dict[BenchCell, CellOutcome]:
    """Run all cells in order; ``prepare`` is called before the first of each size."""
    found: dict[BenchCell, CellOutcome] = {}
    size = 0
    for cell in cells:
        if cell.rows != size:
            size = cell.rows
            if not bar.is_shown:
                say(f"{size:,} rows ...")
            prepare(size)
        bar.describe(f"{cell.library} {cell.model} {cell.rows:,}"[:40].ljust(40))
        found[cell] = run_cell(cell)
        bar.advance()
    return found
