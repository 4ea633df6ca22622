"""``python -m benchmarks service``: predictions of few rows, and the first one of a process."""

from __future__ import annotations

import argparse
import gc
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.boosting_peers import HIST
from benchmarks.peers.peers import LIGHTGBM, OURS, REFERENCE, XGBOOST, choose_peers
from benchmarks.report.results import Results, result_path
from benchmarks.suite.cases import Bound
from benchmarks.suite.settings import (
    ADABOOST,
    BOOSTING,
    FOREST,
    BoostingOptions,
    Resources,
    Setting,
)
from benchmarks.suite.tables import CLASSIFICATION, REGRESSION, Table, binary, continuous

TRAINING_ROWS, FEATURES, ROWS = 20_000, 28, (1, 100, 10_000)
PREDICTOR, BOOSTER = "compile_predictor", "LightGBM Booster"
COLUMNS = (OURS, PREDICTOR, LIGHTGBM, BOOSTER, XGBOOST, HIST, REFERENCE)
FIRST_CALL, ALLOWED_FIRST_MS = "first call of a process", 50.0
BATCH_SECONDS, TURNS = 0.02, 25  # of one measurement; each peer is measured in as many turns
_CHECKOUT = Path(__file__).parents[2]

_FIRST = """
import pickle, sys, time
import numpy as np
with open(sys.argv[1], "rb") as file:
    model = pickle.load(file)
row = np.zeros((1, model.n_features_in_))
started = time.perf_counter()
model.predict(row)
print(time.perf_counter() - started)
"""

Call = Callable[[np.ndarray], Any]


@dataclass(frozen=True)
class Service:
    """A model that is asked again and again.

    Attributes
    ----------
    name : str
    setting : Setting
    peers : tuple of str
    bounds : dict of int to Bound
        For each number of rows, the bound of the estimator's ``predict``.
    """

    name: str
    setting: Setting
    peers: tuple[str, ...]
    bounds: dict[int, Bound]


_FEW, _MANY = Bound(0.5, (LIGHTGBM, HIST)), Bound(1.0, (LIGHTGBM, XGBOOST))
_BOOSTED = {1: _FEW, 100: _MANY, 10_000: _MANY}
_OF_SCIKIT_LEARN = dict.fromkeys(ROWS, Bound(1.0, (REFERENCE,)))
_FAST = (OURS, LIGHTGBM, XGBOOST, HIST)
SERVICES = (
    Service(
        "GradientBoostingClassifier, 100 trees of depth 6",
        Setting(BOOSTING, CLASSIFICATION, max_depth=6),
        _FAST,
        _BOOSTED,
    ),
    Service(
        "GradientBoostingRegressor, 100 trees of depth 6",
        Setting(BOOSTING, REGRESSION, max_depth=6),
        _FAST,
        _BOOSTED,
    ),
    Service(
        "GradientBoostingClassifier, 100 trees of 31 leaves",
        Setting(BOOSTING, CLASSIFICATION, boosting=BoostingOptions(max_leaves=31)),
        _FAST,
        _BOOSTED,
    ),
    Service(
        "RandomForestClassifier, 100 trees to purity",
        Setting(FOREST, CLASSIFICATION),
        (OURS, REFERENCE),
        _OF_SCIKIT_LEARN,
    ),
    Service(
        "AdaBoostClassifier, 100 stumps",
        Setting(ADABOOST, CLASSIFICATION, max_depth=1),
        (OURS, REFERENCE),
        _OF_SCIKIT_LEARN,
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--only", metavar="TEXT", help="cases whose name contains this")
    parser.add_argument(
        "--rows", type=int, default=TRAINING_ROWS, help="training rows (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Measure each case with 1 and with ``--n-jobs`` threads; return 1 if a bound is missed."""
    results = Results("service", result_path(args.name or "service"), again=args.again)
    n_missed = 0
    for service in SERVICES:
        keys = {n: f"{service.name}, {n} rows" for n in ROWS}
        if args.only and args.only not in service.name:
            continue
        if any(results.find(key) is None for key in keys.values()):
            for n, record in measure(service, args.rows, args.n_jobs, args.device).items():
                results.add(keys[n], record)
    if not args.only and results.find(FIRST_CALL) is None:
        results.add(FIRST_CALL, first_call(SERVICES[0].setting, args.rows))
    for record in results.records:
        figures = record.get("microseconds", {})
        shown = ", ".join(f"{name} {figures[name]:.0f}" for name in figures)
        print(f"{record['key']}: {shown or record['milliseconds']}")
        for sentence in record["missed"]:
            print(f"  MISSED: {sentence}")
        n_missed += len(record["missed"])
    return 1 if n_missed else 0


def measure(
    service: Service, n_training: int, n_jobs: int, device: str = "auto"
) -> dict[int, dict[str, Any]]:
    """Fit all peers, and measure their calls by numbers of rows.

    The measurements of all peers alternate. Each is the mean time of a batch of calls; the shortest
    counts, since other processes can only delay a call.
    """
    make = binary if service.setting.is_classification else continuous
    table = make(n_training, FEATURES)
    calls = _calls(service, table, sorted({1, n_jobs}), device)
    asked = np.ascontiguousarray(make(max(ROWS), FEATURES, seed=1).X)
    return {n: _record(service, n, _times(calls, asked[:n]), n_jobs) for n in ROWS}


def _calls(
    service: Service, table: Table, threads: list[int], device: str
) -> dict[str, list[Call]]:
    """The calls of each peer, one for each number of threads."""
    calls: dict[str, list[Call]] = {}
    for peer in choose_peers(service.peers, device):
        if peer.refuses(service.setting):
            continue
        for n_jobs in threads:
            resources = Resources(n_jobs, 0, FEATURES, len(table.y))
            model = peer.make(service.setting, resources).fit(table.X, table.y)
            calls.setdefault(peer.name, []).append(model.predict)
            if peer.name == OURS:
                calls.setdefault(PREDICTOR, []).append(_one_or_more(model.compile_predictor()))
            if peer.name == LIGHTGBM:
                calls.setdefault(BOOSTER, []).append(model.booster_.predict)
    return calls


def _one_or_more(predictor: Call) -> Call:
    """Pass a single row as a vector."""
    return lambda X: predictor(X[0] if len(X) == 1 else X)


def _times(calls: dict[str, list[Call]], X: np.ndarray) -> dict[str, tuple[float, float]]:
    """The shortest and the median microseconds of a call of each peer, in `TURNS` turns."""
    several = [(name, call, _batch_size(call, X)) for name in calls for call in calls[name]]
    found: dict[tuple[str, int], list[float]] = {}
    gc.collect()
    for _ in range(TURNS):
        for i, (name, call, size) in enumerate(several):
            found.setdefault((name, i), []).append(1e6 * _seconds(call, X, size))
    best: dict[str, tuple[float, float]] = {}
    for (name, _), times in found.items():
        best[name] = min(best.get(name, (np.inf, np.inf)), (min(times), statistics.median(times)))
    return best


def _batch_size(call: Call, X: np.ndarray) -> int:
    """Number of calls that take `BATCH_SECONDS`; the calls before start what is compiled."""
    for _ in range(50):
        taken = _seconds(call, X, 1)
    return max(1, int(BATCH_SECONDS / taken))


def _seconds(call: Call, X: np.ndarray, n_calls: int) -> float:
    """Mean seconds of some calls."""
    started = time.perf_counter()
    for _ in range(n_calls):
        call(X)
    return (time.perf_counter() - started) / n_calls


def _record(
    service: Service, n: int, times: dict[str, tuple[float, float]], n_jobs: int
) -> dict[str, Any]:
    """The times of a number of rows, and what is reached of the bounds."""
    shortest = {name: own[0] for name, own in times.items()}

    def ratios(ours: str) -> dict[str, float]:
        return {name: shortest[ours] / shortest[name] for name in shortest}

    verdicts = [service.bounds[n].verdict(ratios(OURS))]
    if n == 1 and service.setting.family == BOOSTING:
        verdicts.append(Bound(1.0, (BOOSTER,)).verdict(ratios(PREDICTOR)))
    return {
        "case": service.name,
        "rows": n,
        "n_jobs": n_jobs,
        "microseconds": {name: round(own, 2) for name, own in shortest.items()},
        "median_microseconds": {name: round(own[1], 2) for name, own in times.items()},
        "bounds": verdicts,
        "missed": [verdict["missed"] for verdict in verdicts if "missed" in verdict],
    }


def first_call(setting: Setting, n_training: int) -> dict[str, Any]:
    """Milliseconds of the first prediction of a process; all code is compiled on disk."""
    (peer,) = choose_peers((OURS,), "auto")
    table = binary(n_training, FEATURES)
    model = peer.make(setting, Resources(2, 0, FEATURES, n_training)).fit(table.X, table.y)
    model.compile_predictor()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pickle"
        path.write_bytes(pickle.dumps(model))
        command = [sys.executable, "-c", _FIRST, str(path)]
        words: dict[str, Any] = {"capture_output": True, "text": True, "check": True}
        taken = [
            1e3 * float(subprocess.run(command, cwd=_CHECKOUT, **words).stdout) for _ in range(5)
        ]
    found = min(taken)
    missed = [f"{found:.0f} ms, {ALLOWED_FIRST_MS:.0f} allowed"] if found > ALLOWED_FIRST_MS else []
    return {"milliseconds": found, "runs": taken, "allowed": ALLOWED_FIRST_MS, "missed": missed}
