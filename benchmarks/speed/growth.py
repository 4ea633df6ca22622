"""``python -m benchmarks growth``: how the time of boosting grows with rows, columns and trees."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.peers import OURS, choose_peers
from benchmarks.report.results import Results, result_path
from benchmarks.speed.timing import Plan, measure_case
from benchmarks.suite.growth_cases import EXPONENTS, PEERS, SIZES, case_of

Record = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--only", choices=tuple(SIZES), help="one dimension (default: all)")
    parser.add_argument("--peers", default=",".join(PEERS), help="default: %(default)s")
    parser.add_argument("--repeat", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--largest", type=int, help="leave out larger sizes")
    parser.add_argument(
        "--budget",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="time that one peer may take for one size (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Measure the sizes that are left; return 1 if an exponent is above its bound."""
    plan = Plan(args.n_jobs, args.repeat, args.seed, args.budget)
    results = Results("growth", result_path(args.name or "growth"), again=args.again)
    dimensions = [args.only] if args.only else list(SIZES)
    for dimension in dimensions:
        for size in SIZES[dimension]:
            if args.largest is None or size <= args.largest:
                _measure(dimension, size, results, plan, args)
    missed = [sentence for name in dimensions for sentence in misses(results.records, name)]
    for sentence in missed:
        print(f"MISSED: {sentence}")
    return 1 if missed else 0


def _measure(
    dimension: str, size: int, results: Results, plan: Plan, args: argparse.Namespace
) -> None:
    """Measure one size, unless the file has it."""
    case = case_of(dimension, size)
    key = f"{case.name} | {plan.n_jobs} threads | {args.device}"
    print(f"{case.name}  ({case.rows} x {case.features})", flush=True)
    if results.find(key) is not None:
        return
    peers = choose_peers(args.peers.split(","), args.device)
    tables = case.tables(Path(args.data) if args.data else None, args.seed)
    found = measure_case(case, peers, tables, plan, lambda text: print(text, flush=True))
    results.add(key, {"dimension": dimension, "size": size, "n_jobs": plan.n_jobs, **found})


def seconds_of(records: list[Record], dimension: str, peer: str) -> dict[int, float]:
    """Seconds of a fit of a peer, by size; without the sizes at which it was left out."""
    own = [record for record in records if record["dimension"] == dimension]
    found = {record["size"]: record["peers"].get(peer, {}) for record in own}
    return {size: each["seconds"] for size, each in sorted(found.items()) if "seconds" in each}


def exponent(seconds: dict[int, float]) -> float:
    """The exponent p of seconds = c * size**p by least squares of logarithms, NaN for one size.

    Only the larger half of the sizes counts: at small sizes, the time hardly depends on the size.
    """
    sizes = sorted(seconds)
    larger = sizes[len(sizes) // 2 :]
    if len(larger) < 2:
        return math.nan
    logarithms = np.log([[size, seconds[size]] for size in larger])
    return float(np.polyfit(logarithms[:, 0], logarithms[:, 1], 1)[0])


def exponents(records: list[Record], dimension: str) -> dict[str, float]:
    """Exponents of the peers that were measured at the largest size of gpuboost."""
    found = {peer: seconds_of(records, dimension, peer) for peer in PEERS}
    largest = max(found[OURS], default=0)
    return {peer: exponent(own) for peer, own in found.items() if largest in own}


def misses(records: list[Record], dimension: str) -> list[str]:
    """A sentence if gpuboost's exponent is above its bound."""
    found = exponents(records, dimension)
    ours, others = found.pop(OURS, math.nan), found
    if dimension not in EXPONENTS or math.isnan(ours) or not others:
        return []
    best = min(others, key=others.__getitem__)
    allowed = others[best] + EXPONENTS[dimension]
    if ours <= allowed:
        return []
    return [f"{dimension}: time grows with exponent {ours:.2f}, {allowed:.2f} allowed ({best})"]
