"""Times and scores of the peers of one case, taken in turns in one process."""

from __future__ import annotations

import gc
import logging
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.cases import Case
from benchmarks.peers import OURS, REFERENCE, TREE, Peer, Resources
from benchmarks.tables import CLASSIFICATION, Table

WARM_UP_TREES = 2
WARM_UP_PREDICT_ROWS = 1000

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How a case is measured.

    Attributes
    ----------
    n_jobs, repeat, seed : int
    budget : float
        Seconds that the measured calls of one peer may take in one case. A peer whose warm-up
        foretells more is left out; one that has spent it is not repeated.
    """

    n_jobs: int = 2
    repeat: int = 3
    seed: int = 0
    budget: float = 300.0


@dataclass
class Runs:
    """What was measured of one peer."""

    peer: Peer
    fit_seconds: list[float] = field(default_factory=list)
    predict_seconds: list[float] = field(default_factory=list)
    score: float | None = None
    left_out: str | None = None
    remarks: list[str] = field(default_factory=list)
    model: Any = None

    def record(self, timed: str) -> dict[str, Any]:
        """As JSON."""
        if self.left_out:
            return {"left_out": self.left_out}
        seconds = self.fit_seconds if timed == "fit" else self.predict_seconds
        return {
            "seconds": statistics.median(seconds),
            "runs": [round(s, 5) for s in seconds],
            "fit_seconds": statistics.median(self.fit_seconds),
            "predict_seconds": statistics.median(self.predict_seconds),
            "score": self.score,
            **({"device": self.model.device_} if hasattr(self.model, "device_") else {}),
            **({"remark": "; ".join(self.remarks)} if self.remarks else {}),
        }


def measure_case(
    case: Case, peers: list[Peer], tables: tuple[Table, Table], plan: Plan, say: Say
) -> dict[str, Any]:
    """Warm every peer up, then time them in turns.

    Returns
    -------
    dict
        Sizes, metric, what each peer took and scored, and the ratios of our time to theirs.
    """
    train, test = tables
    resources = Resources(plan.n_jobs, plan.seed, train.X.shape[1], len(train.y))
    everyone = [Runs(peer) for peer in peers]
    for runs in everyone:
        _warm_up(runs, case, tables, resources, plan)
        say(f"  warm-up  {runs.peer.name:22s} {runs.left_out or ''}")
    for turn in range(plan.repeat):
        for runs in everyone:
            if runs.left_out or _spent(runs, case) > plan.budget:
                continue
            _run_once(runs, case, tables, resources, turn)
            say(f"  run {turn + 1:<4d} {runs.peer.name:22s} {_last(runs, case)}")
    return _summary(case, everyone, train, test)


def metric_name(table: Table) -> str:
    """AUC for two classes, accuracy for more, R2 for regression."""
    if table.task != CLASSIFICATION:
        return "R2"
    return "AUC" if table.n_classes == 2 else "accuracy"


def score_of(model: Any, table: Table, outcome: np.ndarray) -> float:
    """Score of what `predict_for` returned."""
    from sklearn.metrics import accuracy_score, r2_score, roc_auc_score

    metric = metric_name(table)
    if metric == "R2":
        return float(r2_score(table.y, outcome))
    if metric == "AUC":
        return float(roc_auc_score(table.y, outcome[:, 1]))
    return float(accuracy_score(table.y, model.classes_[np.argmax(outcome, axis=1)]))


def predict_for(model: Any, table: Table, X: np.ndarray) -> np.ndarray:
    """Class probabilities, or values."""
    return model.predict_proba(X) if table.task == CLASSIFICATION else model.predict(X)


def _warm_up(
    runs: Runs, case: Case, tables: tuple[Table, Table], resources: Resources, plan: Plan
) -> None:
    """First fit and prediction of a peer: imports, thread pools, compiled code. Not measured."""
    peer, setting = runs.peer, case.setting
    runs.left_out = peer.refuses(setting)
    if runs.left_out:
        return
    remark = peer.remark(setting)
    runs.remarks = [remark] if remark else []
    train, test = tables
    few = setting.family != TREE and not peer.warms_up_whole
    trees = min(WARM_UP_TREES, setting.n_estimators) if few else setting.n_estimators
    rows = len(test.y) if peer.warms_up_whole else WARM_UP_PREDICT_ROWS
    started = time.perf_counter()
    try:
        model = peer.make(replace(setting, n_estimators=trees), resources)
        with fallbacks_noted(runs):
            model.fit(train.X, train.y)
            predict_for(model, train, test.X[:rows])
    except Exception as error:  # one peer's failure is a result, not the end of the run
        runs.left_out = f"failed: {type(error).__name__}: {error}"[:300]
        return
    foretold = (time.perf_counter() - started) * setting.n_estimators / trees
    if foretold > plan.budget and not peer.warms_up_whole:
        runs.left_out = f"would take about {foretold:.0f} s, more than the budget of a case"


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
        runs.score = score_of(runs.model, test, outcome[0])


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
    return {
        "case": case.name,
        "estimator": case.setting.estimator,
        "timed": timed,
        "rows": len(train.y),
        "features": train.X.shape[1],
        "test_rows": len(test.y),
        "trees": case.setting.n_estimators,
        "metric": metric_name(test),
        "peers": found,
        "ratios": ratios,
        "bounds": dict(case.bounds),
        "missed": missed_bounds(ratios, case),
    }


def missed_bounds(ratios: dict[str, float], case: Case) -> list[str]:
    """Sentences on the bounds that the ratios exceed, or that could not be judged."""
    sentences = []
    for name, bound in case.bounds.items():
        if name in ratios and ratios[name] > bound:
            sentences.append(f"{ratios[name]:.3f} of {name}'s time, {bound} allowed")
        if name == REFERENCE and name not in ratios:
            sentences.append(f"not compared with {name}: one of the two has no time")
    return sentences


class _Collect(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def fallbacks_noted(runs: Runs) -> Iterator[None]:
    """Note when scikit-learn-intelex silently hands a call on to scikit-learn."""
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
