"""``python -m benchmarks speed``: times of fits and predictions, beside those of the peers."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.peers.peers import PEER_NAMES, choose_peers
from benchmarks.report.results import Results, result_path
from benchmarks.speed.timing import Plan, measure_case
from benchmarks.suite.boosting_cases import BOOSTING_SPEED, SPARSE_SPEED
from benchmarks.suite.cases import SPEED, Case, choose_cases

SUITES = {  # by result file
    "speed": SPEED,
    "speed_boosting": BOOSTING_SPEED,
    "speed_sparse": SPARSE_SPEED,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--only", metavar="TEXT", help="cases whose name contains this")
    parser.add_argument("--peers", default=",".join(PEER_NAMES), help="default: %(default)s")
    parser.add_argument("--scale", choices=("small", "full"), default="full")
    parser.add_argument("--rows", type=int, help="training rows of every synthetic case")
    parser.add_argument("--repeat", type=int, default=3, help="default: %(default)s")
    parser.add_argument(
        "--budget",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="time that one peer may take in one case (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Measure the chosen cases; return 1 if a bound is missed."""
    plan = Plan(args.n_jobs, args.repeat, args.seed, args.budget)
    choose_peers(args.peers.split(","), args.device)
    chosen = choose_cases(tuple(case for suite in SUITES.values() for case in suite), args.only)
    small = "" if args.scale == "full" and args.rows is None else "-small"
    missed, opened = 0, dict[Path, Results]()
    for case in chosen:
        suite = next(name for name, cases in SUITES.items() if case in cases)
        path = result_path(args.name or f"{suite}{small}")
        if path not in opened:
            opened[path] = Results("speed", path, again=args.again)
        missed += _run_case(case.sized(args.scale, args.rows), opened[path], plan, args)
    return 1 if missed else 0


def _run_case(case: Case, results: Results, plan: Plan, args: argparse.Namespace) -> int:
    """Measure a case if it is not done, print its ratios and return the number of missed bounds."""
    size = f"{case.rows} rows, {case.setting.n_estimators} trees, {plan.n_jobs} threads"
    device = case.device or args.device
    key = f"{case.name} | {size} | {device}"
    print(f"{case.name}  ({size}, gpuboost on {device})", flush=True)
    record = results.find(key)
    if record is None:
        try:
            tables = case.tables(Path(args.data) if args.data else None, args.seed)
        except (LookupError, FileNotFoundError) as reason:
            print(f"  left out: {reason}")
            return 0
        names = tuple(n for n in args.peers.split(",") if n in case.peers)
        peers = choose_peers(names, device)
        record = measure_case(case, peers, tables, plan, lambda text: print(text, flush=True))
        results.add(key, {"n_jobs": plan.n_jobs, "asked_device": device, **record})
    for peer, ratio in record["ratios"].items():
        print(f"  {ratio:6.3f} of {peer}'s time")
    for sentence in record["missed"]:
        print(f"  MISSED: {sentence}")
    return len(record["missed"])
