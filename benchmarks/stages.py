"""``python -m benchmarks stages``: binning, histogram, split, partition, prediction, one by one."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.results import Results, result_path

ROWS_VARIABLE = "GPUBOOST_STAGE_ROWS"
_CHECKOUT = Path(__file__).parent.parent


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--rows", type=int, default=100_000, help="default: %(default)s")
    parser.add_argument("--only", metavar="TEXT", help="as pytest's -k")


def run(args: argparse.Namespace) -> int:
    """Run `test_stages` under pytest-benchmark and keep the medians; pytest's exit status."""
    with tempfile.TemporaryDirectory() as folder:
        measured = Path(folder) / "stages.json"
        command = [sys.executable, "-m", "pytest", "benchmarks/test_stages.py", "-q"]
        command += ["-p", "no:cacheprovider", f"--benchmark-json={measured}"]
        command += ["-k", args.only] if args.only else []
        environment = {**os.environ, ROWS_VARIABLE: str(args.rows)}
        status = subprocess.run(command, cwd=_CHECKOUT, env=environment, check=False).returncode
        if status:
            return status
        results = Results("stages", result_path(args.name or "stages"), again=args.again)
        for found in json.loads(measured.read_text())["benchmarks"]:
            results.add(found["name"], stage_record(found))
    return 0


def stage_record(found: dict[str, Any]) -> dict[str, Any]:
    """What is kept of one entry of pytest-benchmark's JSON."""
    stats = found["stats"]
    return {
        **found["extra_info"],
        "seconds": stats["median"],
        "fastest": stats["min"],
        "rounds": stats["rounds"],
    }
