"""The results of ``gpuboost bench`` as tables and as JSON."""

from __future__ import annotations

import os
import platform
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from gpuboost import __version__
from gpuboost.cli.bench.cells import DEPTH_OF, GPUBOOST, TREES_OF, BenchCell, CellOutcome
from gpuboost.cli.output import print_json, print_table, shown_bytes

TEXT_COLUMNS = 80


@dataclass(frozen=True)
class BenchReport:
    """All outcomes.

    Attributes
    ----------
    found : dict of BenchCell to CellOutcome
        The outcomes, by cell, in the order in which they ran.
    budget, seconds : float
        Seconds that the benchmark was allowed, and took.
    source : str
        Where the rows come from.
    is_classification : bool
        Whether scores are accuracies; else they are R2.
    """

    found: dict[BenchCell, CellOutcome]
    budget: float
    seconds: float
    source: str
    is_classification: bool

    def ranked(self, rows: int, model: str) -> list[tuple[float, BenchCell]]:
        """The cells of a model and a size with the seconds that they took, the fastest first."""
        own = [
            (outcome.seconds, cell)
            for cell, outcome in self.found.items()
            if (cell.rows, cell.model) == (rows, model) and outcome.seconds is not None
        ]
        return sorted(own, key=lambda pair: pair[0])

    def gpu_wins_from(self) -> dict[str, int | None]:
        """The size from which gpuboost on a GPU is faster than all CPUs, by model.

        It is so for this size and all larger ones that were measured on both; None if for none.
        Models without such a size are not in it.
        """
        wins: dict[str, int | None] = {}
        for model in TREES_OF:
            for rows in sorted({cell.rows for cell in self.found}):
                ranked = self.ranked(rows, model)
                on_cpu = [seconds for seconds, cell in ranked if not cell.is_gpu]
                on_gpu = [
                    seconds for seconds, cell in ranked if cell.is_gpu and cell.library == GPUBOOST
                ]
                if on_gpu and on_cpu:
                    wins[model] = (wins.get(model) or rows) if on_gpu[0] < on_cpu[0] else None
        return wins

    def sentences(self) -> Iterator[str]:
        """What the tables do not show."""
        wins = self.gpu_wins_from()
        if not wins:
            yield "No GPU was measured beside a CPU, so there is no size from which it wins."
        for model, rows in wins.items():
            found = "does not win at these sizes" if rows is None else f"wins from {rows:,} rows"
            yield f"{model}: the GPU {found}."
        missing: dict[str, list[str]] = {}
        for cell, outcome in self.found.items():
            if outcome.reason:
                what = "failed" if outcome.is_error else "skipped"
                group = f"{what} at {cell.rows:,} rows ({outcome.reason})"
                missing.setdefault(group, []).append(cell.text)
        for group, texts in missing.items():
            yield f"{group}: {', '.join(texts)}."
        yield f"The benchmark took {self.seconds:.0f} of {self.budget:.0f} s."


def print_report(report: BenchReport, as_json: bool) -> None:
    """Print the results."""
    if as_json:
        print_json(report_to_json(report))
        return
    score = "accuracy" if report.is_classification else "R2"
    for rows, block in groupby(report.found, lambda cell: cell.rows):
        lines = [line for cell in block if (line := _line(report, cell)) is not None]
        titles = ("model", "library", "device", "seconds", score, "memory")
        if lines:
            print_table(f"{report.source}: {rows:,} rows", titles, lines, n_text=3)
    shapes = [f"{model} {TREES_OF[model]} x depth {DEPTH_OF[model]}" for model in TREES_OF]
    trees = f"Trees: {', '.join(shapes)}."
    memory = "Memory: peak of the process during the fit, with library and rows."
    for sentence in (trees, f"*: the fastest of those shown. {memory}", *report.sentences()):
        print(textwrap.fill(sentence, TEXT_COLUMNS, subsequent_indent="  "))


def _line(report: BenchReport, cell: BenchCell) -> tuple[Any, ...] | None:
    """The cells of a line of a table, if there are figures."""
    outcome = report.found[cell]
    if outcome.seconds is None:
        return None
    star = "*" if report.ranked(cell.rows, cell.model)[0][1] == cell else " "
    memory = None if outcome.peak_bytes is None else shown_bytes(outcome.peak_bytes)
    text = (cell.model, cell.library, cell.device)
    return (*text, f"{outcome.seconds:.3f}{star}", outcome.score, memory)


def report_to_json(report: BenchReport) -> dict[str, Any]:
    """The results for programs."""
    return {
        "gpuboost": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "source": report.source,
        "score": "accuracy" if report.is_classification else "r2",
        "budget": report.budget,
        "seconds": report.seconds,
        "trees": TREES_OF,
        "depth": DEPTH_OF,
        "gpu_wins_from": report.gpu_wins_from(),
        "cells": [asdict(cell) | asdict(outcome) for cell, outcome in report.found.items()],
    }
