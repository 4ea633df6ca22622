"""``python -m benchmarks memory``: peak memory of fits, each in its own process."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.peers.peers import OURS, PEER_NAMES, choose_peers
from benchmarks.report.results import Results, result_path
from benchmarks.suite.cases import MEMORY, SMALL_ROWS, Case, choose_cases

ALLOWED_EXTRA_BYTES = 300 * 10**6  # of gpuboost, in addition to the process, input and model
_CHECKOUT = Path(__file__).parents[2]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--only", metavar="TEXT", help="cases whose name contains this")
    parser.add_argument("--peers", default=",".join(PEER_NAMES), help="default: %(default)s")
    parser.add_argument("--scale", choices=("small", "full"), default="full")
    parser.add_argument("--rows", type=int, help="training rows")
    parser.add_argument(
        "--budget",
        type=float,
        default=600.0,
        metavar="SECONDS",
        help="stop the fit of a peer after this time (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Measure the chosen cases; return 1 if gpuboost takes more memory than allowed."""
    if not Path("/proc/self/status").exists():
        print("peak memory is read from /proc, which this system does not have")
        return 2
    full = args.scale == "full" and args.rows is None
    name = "memory" if full else "memory-small"
    choose_peers(args.peers.split(","), args.device)
    results = Results("memory", result_path(args.name or name), again=args.again)
    n_missed = 0
    for case in choose_cases(MEMORY, args.only):
        rows = args.rows or (case.rows if full else case.rows // SMALL_ROWS)
        print(f"{case.name}  ({rows} rows, {args.n_jobs} threads)", flush=True)
        found = {}
        for peer in args.peers.split(","):
            if peer in case.peers:
                found[peer] = _measured(case, peer, rows, results, args)
                print(f"  {peer:22s} {_sentence(found[peer])}", flush=True)
        missed = misses(case, found) if full else []
        for sentence in missed:
            print(f"  MISSED: {sentence}")
        n_missed += len(missed)
    return 1 if n_missed else 0


def misses(case: Case, found: dict[str, Any]) -> list[str]:
    """Sentences on the bounds of gpuboost's memory that are missed.

    If a case has bounds, they are ratios of its peak to a peer's; else its extra memory is bounded.
    """
    peaks = {peer: each["peak_bytes"] for peer, each in found.items() if "peak_bytes" in each}
    if OURS not in peaks:
        return []
    if not case.bounds:
        extra = found[OURS]["extra_bytes"]
        allowed = f"{ALLOWED_EXTRA_BYTES / 1e6:.0f} MB extra allowed"
        return [f"{extra / 1e6:.0f} MB, {allowed}"] if extra > ALLOWED_EXTRA_BYTES else []
    return [
        f"{peaks[OURS] / peaks[peer]:.2f} of {peer}'s peak, {bound.ratio:g} allowed"
        for bound in case.bounds
        for peer in bound.peers
        if peer in peaks and peaks[OURS] > bound.ratio * peaks[peer]
    ]


def _measured(
    case: Case, peer: str, rows: int, results: Results, args: argparse.Namespace
) -> dict[str, Any]:
    device = args.device if peer == OURS else ""
    key = f"{case.name} | {rows} rows, {args.n_jobs} threads | {peer} {device}".strip()
    found = results.find(key)
    if found is None:
        request = {
            "case": case.name,
            "rows": rows,
            "peer": peer,
            "device": args.device,
            "n_jobs": args.n_jobs,
            "seed": args.seed,
        }
        found = ask_probe(request, args.budget)
        results.add(key, {**request, "features": case.features, **found})
    return found


def ask_probe(request: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Run `probe` in a fresh process; if it fails, the result says why the peer is left out."""
    command = [sys.executable, "-m", "benchmarks.speed.probe"]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=_CHECKOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"left_out": f"took more than {timeout:.0f} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"left_out": f"failed with status {done.returncode}: {last}"}
    return json.loads(done.stdout.strip().splitlines()[-1])


def _sentence(found: dict[str, Any]) -> str:
    if "left_out" in found:
        return found["left_out"]
    peak, data, model, extra = (
        found[f"{part}_bytes"] / 1e6 for part in ("peak", "input", "model", "extra")
    )
    return (
        f"peak {peak:7.0f} MB = input {data:.0f} + model {model:.0f} + extra {extra:.0f}; "
        f"fit {found['seconds']:.1f} s"
    )
