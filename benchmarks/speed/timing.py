"""Times and scores of the peers of a case, measured alternately in one process."""

from __future__ import annotations

import gc
import logging
import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.peers.peers import OURS, Peer
from benchmarks.quality.scores import metric_name, predict_for, score_of
from benchmarks.suite.cases import Case
from benchmarks.suite.settings import TREE, Resources
from benchmarks.suite.tables import Table

WARM_UP_TREES = 2
WARM_UP_PREDICT_ROWS = 1000
HOPELESS = 1.3  # one thread is not repeated if it takes this many times the time of all

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How a case is measured.

    Attributes
    ----------
    n_jobs, repeat, seed : int
    budget : float
        Seconds that the measured calls of one peer may take in one case. A peer is left out if
        its warm-up predicts more, and is not repeated once it has used up the budget.
    """

    n_jobs: int = 2
    repeat: int = 3
    seed: int = 0
    budget: float = 300.0


@dataclass
class Runs:
    """The measurements of one peer with one number of threads."""

    peer: Peer
    n_jobs: int
    fit_seconds: list[float] = field(default_factory=list)
    predict_seconds: list[float] = field(default_factory=list)
    score: float | None = None
    left_out: str | None = None
    remarks: list[str] = field(default_factory=list)
    model: Any = None

    @property
    def total_seconds(self) -> float:
        """Median time of a fit and a prediction."""
        return statistics.median(self.fit_seconds) + statistics.median(self.predict_seconds)

    def record(self, timed: str) -> dict[str, Any]:
        """The record of the result file; ``timed`` is "fit" or "prediction"."""
        if self.left_out:
            return {"left_out": self.left_out}
        seconds = self.fit_seconds if timed == "fit" else self.predict_seconds
        return {
            "seconds": statistics.median(seconds),
            "runs": [round(s, 5) for s in seconds],
            "fit_seconds": statistics.median(self.fit_seconds),
            "predict_seconds": statistics.median(self.predict_seconds),
            "score": self.score,
            "n_jobs": self.n_jobs,
            **({"device": self.model.device_} if hasattr(self.model, "device_") else {}),
            **({"remark": "; ".join(self.remarks)} if self.remarks else {}),
        }


def measure_case(
    case: Case, peers: list[Peer], tables: tuple[Table, Table], plan: Plan, say: Say
) -> dict[str, Any]:
    """Warm up every peer, then time all of them alternately.

    gpuboost has ``plan.n_jobs`` threads. Each peer is timed with as many and with one, and the
    better time counts; one thread is given up after a first run that takes `HOPELESS` times the
    time of all threads.

    Returns
    -------
    dict
        Sizes, metric, time and score of each peer, and the ratios of gpuboost's time to theirs.
    """
    train, test = tables
    resources = Resources(plan.n_jobs, plan.seed, train.X.shape[1], len(train.y))
    everyone = [Runs(peer, n) for peer in peers for n in _thread_counts(peer, plan.n_jobs)]
    for runs in everyone:
        _warm_up(runs, case, tables, replace(resources, n_jobs=runs.n_jobs), plan)
        say(f"  warm-up  {_label(runs)} {runs.left_out or ''}")
    for turn in range(max(plan.repeat, case.min_repeat)):
        for runs in everyone:
            if runs.left_out or _spent(runs, case) > plan.budget or _is_hopeless(runs, everyone):
                continue
            _run_once(runs, case, tables, replace(resources, n_jobs=runs.n_jobs), turn)
            say(f"  run {turn + 1:<4d} {_label(runs)} {_last(runs, case)}")
    return _summary(case, _fastest_of_each(everyone, case), train, test)


def _thread_counts(peer: Peer, n_jobs: int) -> tuple[int, ...]:
    return (n_jobs,) if peer.name == OURS or n_jobs == 1 else (n_jobs, 1)


def _label(runs: Runs) -> str:
    return f"{runs.peer.name:22s} {runs.n_jobs:2d} threads"


def _is_hopeless(runs: Runs, everyone: list[Runs]) -> bool:
    """Whether one thread was much slower than all threads of the same peer."""
    others = [own for own in everyone if own.peer is runs.peer and own.n_jobs > runs.n_jobs]
    return bool(
        runs.predict_seconds
        and others
        and others[0].predict_seconds
        and runs.total_seconds > HOPELESS * others[0].total_seconds
    )


def _fastest_of_each(everyone: list[Runs], case: Case) -> list[Runs]:
    """The measurements of each peer with the number of threads that was faster."""

    def seconds(runs: Runs) -> float:
        found = runs.predict_seconds if case.predict_rows else runs.fit_seconds
        return statistics.median(found) if found and not runs.left_out else math.inf

    names = dict.fromkeys(runs.peer.name for runs in everyone)
    return [min((own for own in everyone if own.peer.name == n), key=seconds) for n in names]


def _warm_up(
    runs: Runs, case: Case, tables: tuple[Table, Table], resources: Resources, plan: Plan
) -> None:
    """Run an untimed first fit and prediction, which imports, starts threads and compiles."""
    peer, setting = runs.peer, case.setting
    runs.left_out = peer.refuses(setting)
    if runs.left_out:
        return
    remark = peer.remark(setting)
    runs.remarks = [remark] if remark else []
    few = setting.family != TREE and not peer.warms_up_whole
    trees = min(WARM_UP_TREES, setting.n_estimators) if few else setting.n_estimators
    try:
        with fallbacks_noted(runs):
            seconds = _few_trees(peer, case, tables, resources, trees)
            estimated = seconds * setting.n_estimators / trees
            if few and estimated > plan.budget:  # imports and binning do not grow with the trees
                estimated = _estimated(peer, case, tables, resources)
    except Exception as error:  # one peer's failure is a result, not the end of the run
        runs.left_out = f"failed: {type(error).__name__}: {error}"[:300]
        return
    if estimated > plan.budget and not peer.warms_up_whole:
        runs.left_out = f"would take about {estimated:.0f} s, more than the budget of a case"


def _few_trees(
    peer: Peer, case: Case, tables: tuple[Table, Table], resources: Resources, trees: int
) -> float:
    """Seconds of a fit and a prediction with this number of trees."""
    train, test = tables
    rows = len(test.y) if peer.warms_up_whole else WARM_UP_PREDICT_ROWS
    model = peer.make(replace(case.setting, n_estimators=trees), resources)

    def fit_and_predict() -> None:
        model.fit(train.X, train.y)
        predict_for(model, train, test.X[:rows])

    return _seconds(fit_and_predict)


def _estimated(peer: Peer, case: Case, tables: tuple[Table, Table], resources: Resources) -> float:
    """Estimate the seconds with all trees from two warm fits with few trees."""
    few, more = WARM_UP_TREES, 2 * WARM_UP_TREES
    seconds = [_few_trees(peer, case, tables, resources, trees) for trees in (few, more)]
    a_tree = max(0.0, seconds[1] - seconds[0]) / (more - few)
    return seconds[1] + a_tree * max(0, case.setting.n_estimators - more)


def _run_once(
    runs: Runs, case: Case, tables: tuple[Table, Table], resources: Resources, turn: int
) -> None:
    train, test = tables
    gc.collect()
    if not case.predict_rows or runs.model is None:
        runs.model = None
        seeded = replace(resources, seed=resources.seed + turn)
        runs.model = runs.peer.make(case.setting, seeded)
        runs.fit_seconds.append(_seconds(lambda: runs.model.fit(train.X, train.y)))
    outcome = []
    runs.predict_seconds.append(
        _seconds(lambda: outcome.append(predict_for(runs.model, train, test.X)))
    )
    if runs.score is None:
        runs.score = score_of(runs.model, test, outcome[0], case.setting)


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _spent(runs: Runs, case: Case) -> float:
    return sum(runs.predict_seconds if case.predict_rows else runs.fit_seconds)


def _last(runs: Runs, case: Case) -> str:
    seconds = (runs.predict_seconds if case.predict_rows else runs.fit_seconds)[-1]
    return f"{seconds:8.3f} s   score {runs.score:.4f}"


def _summary(case: Case, everyone: list[Runs], train: Table, test: Table) -> dict[str, Any]:
    timed = "prediction" if case.predict_rows else "fit"
    found = {runs.peer.name: runs.record(timed) for runs in everyone}
    ours = found.get(OURS, {}).get("seconds")
    ratios = {}
    if ours is not None:
        others = [name for name in found if name != OURS and "seconds" in found[name]]
        ratios = {name: ours / found[name]["seconds"] for name in others}
    verdicts = [bound.verdict(ratios) for bound in case.bounds]
    return {
        "case": case.name,
        "estimator": case.setting.estimator,
        "timed": timed,
        "rows": len(train.y),
        "features": train.X.shape[1],
        "test_rows": len(test.y),
        "trees": case.setting.n_estimators,
        "metric": metric_name(test, case.setting),
        "peers": found,
        "ratios": ratios,
        "bounds": verdicts,
        "missed": [verdict["missed"] for verdict in verdicts if "missed" in verdict],
    }


class _Collect(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def fallbacks_noted(runs: Runs) -> Iterator[None]:
    """Add a remark if scikit-learn-intelex silently falls back to scikit-learn."""
    logger, collect = logging.getLogger("sklearnex"), _Collect()
    handlers, level, propagate = logger.handlers, logger.level, logger.propagate
    logger.handlers, logger.propagate = [collect], False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)
    if any("fallback" in message for message in collect.messages):
        runs.remarks.append("falls back to scikit-learn")
