"""``python -m benchmarks blocks``: fits on codes in blocks, beside fits in memory and XGBoost's."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gpuboost
from benchmarks.peers.peers import XGBOOST
from benchmarks.report.results import Results, result_path

BATCH_ROWS = 100_000
DEPTH = 6
IN_MEMORY, IN_BLOCKS, COPY = "in memory", "in blocks", "copy loop"


@dataclass(frozen=True)
class Blocks:
    """A table of normal numbers, boosting on it, and a memory limit below the size of its codes.

    Attributes
    ----------
    rows, features, trees : int
    limit : int
        Bytes.
    """

    rows: int
    features: int
    trees: int
    limit: int

    @property
    def name(self) -> str:
        """Name of the case."""
        return f"{self.rows:,} x {self.features:,}, {self.trees} trees, {self.limit / 1e6:.0f} MB"

    def batches(self) -> Iterator[np.ndarray]:
        """The table, batch by batch."""
        for start in range(0, self.rows, BATCH_ROWS):
            rng = np.random.default_rng([7, start])
            n = min(BATCH_ROWS, self.rows - start)
            yield rng.standard_normal((n, self.features), dtype=np.float32)

    def targets(self) -> np.ndarray:
        """The targets, which depend on five columns."""
        signal = [X[:, 0] + X[:, 1] * X[:, 2] + np.sin(2 * X[:, 3]) for X in self.batches()]
        noise = np.random.default_rng(8).standard_normal(self.rows)
        return np.concatenate(signal) + 0.5 * noise


CASES = (
    Blocks(1_000_000, 28, 20, 50_000_000),
    Blocks(400_000, 400, 10, 300_000_000),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--only", metavar="TEXT", help="cases whose name contains this")
    parser.add_argument(
        "--large",
        action="store_true",
        help="6M x 1,000 instead, in a process of limited memory: 10 minutes, 20 GB of disk",
    )
    parser.add_argument("--repeat", type=int, default=3, help="default: %(default)s")


def run(args: argparse.Namespace) -> int:
    """Measure each case; return 1 if models differ."""
    results, differs = Results("blocks", result_path(args.name or "blocks"), again=args.again), 0
    if args.large:
        from benchmarks.speed import large_blocks

        results.add("large", found := large_blocks.measure(args.n_jobs))
        print("\n".join(f"{name:20} {value}" for name, value in found.items()))
        return 0
    for case in CASES:
        if args.only and args.only not in case.name:
            continue
        record = results.find(case.name) or measure(case, args.n_jobs, args.repeat)
        results.add(case.name, record)
        print(case.name)
        for name, seconds in record["seconds"].items():
            print(f"  {name:12} {seconds:7.2f} s   R2 {record['scores'].get(name, np.nan):.4f}")
        differs += not record["same_model"]
    return int(differs > 0)


def measure(case: Blocks, n_jobs: int, repeat: int) -> dict[str, Any]:
    """Medians of alternating fits, and scores on the training rows."""
    y = case.targets()
    blocks = gpuboost.Dataset.from_batches(case.batches, memory_limit=case.limit, n_jobs=n_jobs)
    whole = gpuboost.Dataset(np.concatenate(list(case.batches())), n_jobs=n_jobs)
    runs: dict[str, Callable[[], Any]] = {
        IN_MEMORY: lambda: _model(case, n_jobs).fit(whole, y),
        IN_BLOCKS: lambda: _model(case, n_jobs).fit(blocks, y),
        COPY: lambda: _copy(blocks, case.trees * DEPTH),
    }
    with tempfile.TemporaryDirectory() as folder:
        peer = _xgboost(case, y, n_jobs, Path(folder))
        if peer is not None:
            runs[XGBOOST] = peer[0]
        fitted = {name: call() for name, call in runs.items()}  # compiles, and fills page caches
        taken: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(repeat):
            for name, call in runs.items():
                started = time.perf_counter()
                call()
                taken[name].append(time.perf_counter() - started)
        models = fitted[IN_MEMORY], fitted[IN_BLOCKS]
        scores = {name: fitted[name].score(whole, y) for name in (IN_MEMORY, IN_BLOCKS)}
        if peer is not None:
            scores[XGBOOST] = peer[1](fitted[XGBOOST])
    return {
        "seconds": {name: statistics.median(own) for name, own in taken.items()},
        "scores": scores,
        "same_model": models[0].fingerprint() == models[1].fingerprint(),
        "n_jobs": n_jobs,
    }


def _model(case: Blocks, n_jobs: int) -> gpuboost.GradientBoostingRegressor:
    return gpuboost.GradientBoostingRegressor(
        n_estimators=case.trees, max_depth=DEPTH, n_jobs=n_jobs, random_state=0, device="numba"
    )


def _copy(blocks: gpuboost.Dataset, passes: int) -> None:
    """Read all codes so many times, as `bytearray`s would be filled."""
    stored: Any = blocks.binned.stored
    for _ in range(passes):
        for chunk in stored.chunks():
            chunk.codes.copy()


def _xgboost(
    case: Blocks, y: np.ndarray, n_jobs: int, folder: Path
) -> tuple[Callable[[], Any], Callable[[Any], float]] | None:
    """A fit of XGBoost on the same table in external memory, and the score of its model."""
    try:
        import xgboost
    except ImportError:
        return None

    class Batches(xgboost.DataIter):
        def __init__(self) -> None:
            super().__init__(cache_prefix=str(folder / "cache"), on_host=False)
            self.reset()

        def next(self, input_data: Any) -> bool:
            X = next(self._batches, None)
            if X is None:
                return False
            start = self._start
            self._start += len(X)
            input_data(data=X, label=y[start : self._start])
            return True

        def reset(self) -> None:
            self._batches, self._start = case.batches(), 0

    data = xgboost.ExtMemQuantileDMatrix(Batches(), max_bin=255, nthread=n_jobs)
    options = {"max_depth": DEPTH, "eta": 0.1, "lambda": 0.0, "max_bin": 255, "nthread": n_jobs}

    def fit() -> Any:
        return xgboost.train({**options, "tree_method": "hist"}, data, case.trees)

    def score(booster: Any) -> float:
        error = np.mean(np.square(booster.predict(data) - y))
        return float(1.0 - error / np.var(y))

    return fit, score
