"""``python -m benchmarks stages``: binning, histogram, split, a round of boosting, prediction."""

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
    """Options of the command."""
    parser.add_argument("--rows", type=int, default=100_000, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=20, help="of boosting (default: %(default)s)")
    parser.add_argument("--only", metavar="TEXT", help="as pytest's -k; then none of boosting")


def run(args: argparse.Namespace) -> int:
    """Keep the medians of every stage; pytest's exit status if that is not 0."""
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
    """Run `test_stages` under pytest-benchmark; its exit status, and what it measured."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stages.json"
        command = [sys.executable, "-m", "pytest", "benchmarks/stages/test_stages.py", "-q"]
        command += ["-p", "no:cacheprovider", f"--benchmark-json={path}"]
        command += ["-k", only] if only else []
        environment = {**os.environ, ROWS_VARIABLE: str(rows)}
        status = subprocess.run(command, cwd=_CHECKOUT, env=environment, check=False).returncode
        return status, [] if status else json.loads(path.read_text())["benchmarks"]


def stage_record(found: dict[str, Any]) -> dict[str, Any]:
    """What is kept of one entry of pytest-benchmark's JSON."""
    stats = found["stats"]
    return {
        **found["extra_info"],
        "seconds": stats["median"],
        "fastest": stats["min"],
        "rounds": stats["rounds"],
    }
