"""``python -m benchmarks stages``: times of binning, histograms, splits, boosting, prediction."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.report.results import Results, result_path
from benchmarks.stages.stage_work import ROWS_VARIABLE

_CHECKOUT = Path(__file__).parents[2]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--rows", type=int, default=100_000, help="default: %(default)s")
    parser.add_argument(
        "--rounds", type=int, default=20, help="rounds of boosting (default: %(default)s)"
    )
    parser.add_argument(
        "--only", metavar="TEXT", help="select stages as pytest's -k does; leaves out boosting"
    )


def run(args: argparse.Namespace) -> int:
    """Time all stages and store their medians; return pytest's exit status."""
    results = Results("stages", result_path(args.name or "stages"), again=args.again)
    status, measured = run_tests(args.rows, args.only)
    if status:
        return status
    for found in measured:
        results.add(found["name"], stage_record(found))
    if args.only is None:
        from benchmarks.stages.boosting_stages import measure_steps

        for name, record in measure_steps(args.rows, args.rounds).items():
            results.add(name, record)
    return 0


def run_tests(rows: int, only: str | None) -> tuple[int, list[dict[str, Any]]]:
    """Run `test_stages` under pytest-benchmark; return its exit status and its measurements."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stages.json"
        command = [sys.executable, "-m", "pytest", "benchmarks/stages/test_stages.py", "-q"]
        command += ["-p", "no:cacheprovider", f"--benchmark-json={path}"]
        command += ["-k", only] if only else []
        environment = {**os.environ, ROWS_VARIABLE: str(rows)}
        status = subprocess.run(command, cwd=_CHECKOUT, env=environment, check=False).returncode
        return status, [] if status else json.loads(path.read_text())["benchmarks"]


def stage_record(found: dict[str, Any]) -> dict[str, Any]:
    """The record of one entry of pytest-benchmark's JSON."""
    stats = found["stats"]
    return {
        **found["extra_info"],
        "seconds": stats["median"],
        "fastest": stats["min"],
        "rounds": stats["rounds"],
    }
