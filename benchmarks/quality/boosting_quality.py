"""``python -m benchmarks quality-boosting``: scores of boosting and its peers on many tables."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.peers import FAST_BOOSTING, OURS, Peer, choose_peers
from benchmarks.quality.quality import more_seeds, read_table, scores_of, table_names
from benchmarks.report.results import Results, result_path
from benchmarks.suite.rates import explained_deviance, predicted_rates
from benchmarks.suite.settings import BOOSTING, POISSON, BoostingOptions, Resources, Setting
from benchmarks.suite.tables import MAKERS, RATE_SOURCES, SOURCES, Table, split, with_levels_up_to

NAME = "quality_boosting"
DEVIANCE = "D2 Poisson"
# How far below any peer a score may lie.
BOUNDS = {"AUC": 0.004, "accuracy": 0.004, "R2": 0.006, DEVIANCE: 0.006}
MAX_LEVELS = 255  # all peers support this many categories; columns with more become codes

Scores = dict[str, dict[str, list[float]]]  # by metric and peer, one score per split


@dataclass(frozen=True)
class Comparison:
    """A comparison of all peers on one table, with equal settings.

    Attributes
    ----------
    table : str
    peers : tuple of str
        Peers other than gpuboost.
    seeds : int
        Number of random splits; small tables get a multiple of it.
    n_jobs, rounds, depth : int
    max_train : int
        Largest number of training rows.
    device : str
        Device of gpuboost.
    """

    table: str
    peers: tuple[str, ...]
    seeds: int
    n_jobs: int
    rounds: int
    depth: int
    max_train: int
    device: str

    @property
    def key(self) -> str:
        """Key of the comparison's record."""
        return (
            f"{self.table} | {self.seeds} seeds, {self.rounds} rounds of depth {self.depth}, "
            f"{self.max_train} rows | {self.device} | {', '.join(self.peers)}"
        )

    def setting(self, table: Table) -> Setting:
        """The setting that all peers train with."""
        loss = None if table.exposure is None else POISSON
        options = BoostingOptions(loss=loss)
        return Setting(BOOSTING, table.task, self.rounds, self.depth, boosting=options)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--only", metavar="TEXT", help="tables whose name contains this")
    parser.add_argument("--peers", default=",".join(FAST_BOOSTING), help="default: %(default)s")
    parser.add_argument(
        "--seeds",
        type=int,
        default=5,
        help="number of random splits; small tables get 3 or 6 times as many "
        "(default: %(default)s)",
    )
    parser.add_argument("--rounds", type=int, default=100, help="default: %(default)s")
    parser.add_argument("--depth", type=int, default=6, help="default: %(default)s")
    parser.add_argument(
        "--max-rows", type=int, default=10_000, help="training rows (default: %(default)s)"
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=float("inf"),
        metavar="SECONDS",
        help="start no further table after this time; run again to continue",
    )


def run(args: argparse.Namespace) -> int:
    """Compare on every table; return 1 if boosting scores too far below a peer."""
    peers = tuple(args.peers.split(","))
    choose_peers(peers, args.device)
    results = Results("quality_boosting", result_path(args.name or NAME), again=args.again)
    folder = Path(args.data) if args.data else None
    started, missed = time.monotonic(), 0
    for name in table_names(folder, args.only, SOURCES + RATE_SOURCES):
        plan = args.seeds, args.n_jobs, args.rounds, args.depth, args.max_rows, args.device
        comparison = Comparison(name, peers, *plan)
        record = results.find(comparison.key)
        if record is None and time.monotonic() - started > args.budget:
            print("budget spent; run again to go on")
            break
        if record is None:
            table = read_table(name, folder, args.max_rows)
            record = compare(comparison, table, args.seed)
            results.add(comparison.key, record)
        missed += _report(record)
    return 1 if missed else 0


def compare(comparison: Comparison, table: Table, first_seed: int = 0) -> dict[str, Any]:
    """Score all peers on the same splits and return the record."""
    everyone = choose_peers((OURS, *comparison.peers), comparison.device)
    table, setting = with_shared_categories(table), comparison.setting(table)
    left_out = {peer.name: why for peer in everyone if (why := peer.refuses(setting))}
    scores: Scores = {}
    seeds = comparison.seeds * more_seeds(len(table.y))
    for seed in range(first_seed, first_seed + seeds):
        train, test = split(drawn(comparison, table, seed), seed, comparison.max_train)
        resources = Resources(comparison.n_jobs, seed, table.X.shape[1], len(train.y))
        for peer in everyone:
            if peer.name in left_out:
                continue
            try:
                found = fitted_scores(peer, setting, resources, (train, test))
            except Exception as error:  # one peer's failure is a result, not the end of the run
                left_out[peer.name] = f"failed: {type(error).__name__}: {error}"[:300]
                continue
            for metric, value in found.items():
                scores.setdefault(metric, {}).setdefault(peer.name, []).append(value)
    metrics = {metric: summary(found, left_out) for metric, found in scores.items()}
    return {
        "table": comparison.table,
        "estimator": setting.estimator,
        "loss": setting.loss,
        "seeds": seeds,
        "rounds": comparison.rounds,
        "depth": comparison.depth,
        "train_rows": len(train.y),
        "features": table.features.shape[1],
        "categories": table.frame is not None,
        "metrics": metrics,
        "left_out": left_out,
        "missed": missed_bounds(metrics, left_out),
    }


def drawn(comparison: Comparison, table: Table, seed: int) -> Table:
    """The table that a split is taken from: synthetic tables are drawn anew for each split.

    Two columns that matter only together look alike to the first split, so chance decides between
    them. In one draw of the table, this shifts R2 by up to 0.02 in all splits.
    """
    if comparison.table not in MAKERS:
        return table
    return read_table(comparison.table, None, comparison.max_train, seed)


def with_shared_categories(table: Table) -> Table:
    """The table, keeping as categories only the columns that every peer supports as such."""
    if table.frame is None:
        return table
    frame = with_levels_up_to(table.frame, MAX_LEVELS)
    return Table(table.name, table.X, table.y, table.task, frame, table.exposure)


def fitted_scores(
    peer: Peer, setting: Setting, resources: Resources, tables: tuple[Table, Table]
) -> dict[str, float]:
    """Fit one peer and return its test scores by metric."""
    train, test = tables
    model = peer.make(setting, resources)
    if train.exposure is not None:
        rates = predicted_rates(peer.name, model, train, test)
        return {DEVIANCE: explained_deviance(test, rates)}
    model.fit(train.features, train.y)
    return scores_of(model, test, test.features)


def summary(scores: dict[str, list[float]], left_out: dict[str, str]) -> dict[str, Any]:
    """Mean scores, and gpuboost's mean paired differences from its peers with standard errors."""
    whole = {name: np.array(found) for name, found in scores.items() if name not in left_out}
    found: dict[str, Any] = {"scores": {name: float(own.mean()) for name, own in whole.items()}}
    found["differences"] = {
        name: _paired(whole[OURS], own)
        for name, own in whole.items()
        if OURS in whole and name != OURS
    }
    return found


def _paired(ours: np.ndarray, theirs: np.ndarray) -> dict[str, float]:
    difference, n = ours - theirs, len(ours)
    error = difference.std(ddof=1) / np.sqrt(n) if n > 1 else 0.0
    return {"difference": float(difference.mean()), "standard_error": float(error)}


def missed_bounds(metrics: dict[str, Any], left_out: dict[str, str]) -> list[str]:
    """Describe each missed bound, and each peer that gpuboost was not compared with."""
    sentences = [f"not compared with {name}: {why}" for name, why in left_out.items()]
    for metric, bound in BOUNDS.items():
        for name, found in metrics.get(metric, {}).get("differences", {}).items():
            if found["difference"] < -bound:
                sentences.append(
                    f"{metric} {-found['difference']:.4f} below {name} (standard error "
                    f"{found['standard_error']:.4f}), {bound} allowed"
                )
    return sentences


def _report(record: dict[str, Any]) -> int:
    """Print a record and return the number of missed bounds."""
    print(f"{record['table']}  ({record['estimator']}, {record['train_rows']} rows)", flush=True)
    for metric, found in record["metrics"].items():
        ours = found["scores"].get(OURS)
        parts = [
            f"{name} {found['scores'][name]:.4f} ({own['difference']:+.4f} ± "
            f"{own['standard_error']:.4f})"
            for name, own in found["differences"].items()
        ]
        own_score = f"{ours:.4f}" if ours is not None else "–"
        print(f"  {metric:12s} {OURS} {own_score}; {'; '.join(parts)}", flush=True)
    for sentence in record["missed"]:
        print(f"  MISSED: {sentence}")
    return len(record["missed"])
