"""Times of the steps of a round of gradient boosting, for each backend.

The booster of a backend is timed while it boosts with the log loss of two classes and trees of
depth 6. The time to grow a tree includes the time to quantise its gradients. With Numba, the
gradients of a round are computed when the trees of the round before are added.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.stages.stage_work import N_FEATURES, N_THREADS, backend, has_numba
from benchmarks.suite.tables import binary
from gpuboost.data.binning import learn_bins
from gpuboost.engine.bins import BinRule
from gpuboost.engine.criteria import NEWTON
from gpuboost.engine.ensembles.boosting_task import BoostTask, RowSet
from gpuboost.engine.losses import make_loss
from gpuboost.engine.sampling import ALL_ROWS, RowSampler
from gpuboost.engine.task import Regularisation, TreeOptions

DEPTH, LEARNING_RATE, L2 = 6, 0.1, 1.0
WHOLE = "boost"
STEPS = {
    "gradients": "gradients and hessians",
    "scale": "largest gradient and hessian",
    "grow": f"a tree of depth {DEPTH}, including quantisation",
    "leaves": "leaf of each row",
    "add_trees": "raw predictions",
    "mean_loss": "mean loss",
    WHOLE: "a round",
}

Record = dict[str, Any]


class TimedSteps:
    """A booster that records the time of each step, except in the first round, which compiles."""

    def __init__(self, booster: Any) -> None:
        self.seconds: dict[str, list[float]] = {name: [] for name in STEPS}
        self._booster = booster
        for name in STEPS:
            setattr(booster, name, self._timed(name, getattr(booster, name)))

    def _timed(self, name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any, **named: Any) -> Any:
            started = time.perf_counter()
            found = step(*given, **named)
            self.seconds[name].append(time.perf_counter() - started)
            return found

        return timed

    def run(self, rounds: int) -> list[float]:
        """Boost and return the mean loss after each round."""
        losses = []
        for number in range(rounds + 1):
            losses.append(self._booster.boost(number, LEARNING_RATE).read().losses.train)
            if number == 0:
                self.seconds = {name: [] for name in STEPS}
        return losses


def boosting_task(rows: int) -> BoostTask:
    """The task of a boosting fit; with l2, its splits are chosen by the Newton objective."""
    table = binary(rows, N_FEATURES)
    mapper, _ = learn_bins(table.X, BinRule(np.zeros(N_FEATURES, dtype=bool)))
    matrix = backend("numpy").bin(table.X, mapper, N_THREADS)
    loss, y = make_loss("log_loss", n_classes=2), table.y.astype(np.int32)
    raw = np.tile(loss.baseline(y, None), (rows, 1))
    regular = Regularisation(l2=L2)
    options = TreeOptions(
        NEWTON, max_depth=DEPTH, hashed_order=False, needs_gain=True, regularisation=regular
    )
    return BoostTask(
        matrix=matrix,
        train=RowSet(matrix, y, None, raw),
        watched=(),
        loss=loss,
        options=options,
        min_hessian=1e-3,
        sums_outputs=False,
        sampler=RowSampler(ALL_ROWS, rows, rows, seed=0),
        seed=0,
        n_threads=N_THREADS,
    )


def measure_steps(rows: int, rounds: int) -> dict[str, Record]:
    """Time the steps on every available backend and return their records by name.

    Raises
    ------
    RuntimeError
        If the losses of two backends differ, or a booster never called one of the steps.
    """
    task, records, losses = boosting_task(rows), dict[str, Record](), {}
    for name in ("numpy", "numba") if has_numba() else ("numpy",):
        steps = TimedSteps(backend(name).booster(task))
        losses[name] = steps.run(rounds)
        idle = [step for step, seconds in steps.seconds.items() if not seconds]
        if idle:
            raise RuntimeError(f"the booster of {name} took no step {', '.join(idle)}")
        for step, seconds in steps.seconds.items():
            records[f"boosting_{step}[{name}]"] = _record(STEPS[step], name, rows, seconds)
    if len({tuple(found) for found in losses.values()}) > 1:
        raise RuntimeError(f"the losses of {' and '.join(losses)} differ: {losses}")
    return records


def _record(step: str, name: str, rows: int, seconds: list[float]) -> Record:
    return {
        "stage": f"boosting: {step}",
        "size": f"{rows:,} x {N_FEATURES}, {N_THREADS} threads",
        "backend": name,
        "seconds": statistics.median(seconds),
        "fastest": min(seconds),
        "rounds": len(seconds),
    }
