"""The setup and the loop of the rounds of gradient boosting."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import train_test_split

from gpuboost.backends.protocol import Booster, FittedRound
from gpuboost.data.parameters import fraction, integer_at_least, number_between
from gpuboost.engine.bins import BinnedMatrix
from gpuboost.engine.ensembles.boosting_task import BoostTask, RowSet
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.tree import Tree
from gpuboost.engine.losses import Loss
from gpuboost.engine.sampling import ALL_ROWS, WITHOUT_REPLACEMENT, RowSampler
from gpuboost.estimators.boosting import parameters as options
from gpuboost.estimators.boosting.baseline import baseline, information_of_row, starting_at
from gpuboost.estimators.boosting.early_stopping import EarlyStopping, MonitoredSet
from gpuboost.estimators.boosting.inputs import BoostPlan
from gpuboost.estimators.boosting.metrics import read_metrics
from gpuboost.estimators.boosting.model import BoostedRounds
from gpuboost.estimators.boosting.score_table import ScoreTable
from gpuboost.estimators.fitting.callbacks import FitCallbacks, RoundResult, data_digest
from gpuboost.estimators.fitting.pipeline import Prepared
from gpuboost.estimators.inputs.parameters import draw_seed
from gpuboost.estimators.model.fitted import FeatureDraw, TreeBatch
from gpuboost.estimators.trees.many_trees import check_growing


@dataclass(eq=False)
class RoundSetup:
    """The inputs of the rounds of a fit, and values derived from the inputs.

    Attributes
    ----------
    estimator : GradientBoosting
        The estimator, for its parameters.
    prepared : Prepared
        The binned data and the plan.
    offsets : float64 (n, columns) or None
        Offsets plus raw predictions of ``init``; None without both.
    init : estimator or None
        The fitted ``init`` estimator.
    evaluated : list of RowSet
        Row sets of ``eval_set``; their ``raw`` does not include the baseline.
    """

    estimator: Any
    prepared: Prepared[BoostPlan]
    offsets: np.ndarray | None = None
    init: Any = None
    evaluated: list[RowSet] = field(default_factory=list)

    @property
    def plan(self) -> BoostPlan:
        """The loss, targets and weights."""
        return self.prepared.plan

    @property
    def loss(self) -> Loss:
        """The loss that is minimised."""
        return self.plan.loss

    @property
    def before(self) -> BoostedRounds | None:
        """The model that a warm start adds rounds to."""
        return self.prepared.before

    @cached_property
    def seed(self) -> int:
        """The seed of the rounds."""
        return draw_seed(self.estimator.random_state, self.before)

    @cached_property
    def held_out(self) -> np.ndarray | None:
        """Mask of the rows that early stopping sets aside: bool (n,), or None."""
        patience = options.patience(self.estimator.n_iter_no_change)
        share = fraction("validation_fraction", self.estimator.validation_fraction, one=False)
        if patience is None or self.evaluated:
            return None
        n, y = len(self.plan.y), self.plan.y
        classes = y.astype(np.float64) if is_classifier(self.estimator) else None
        chosen = train_test_split(
            np.arange(n), test_size=share, random_state=self.seed, stratify=classes
        )[1]
        mask = np.zeros(n, dtype=bool)
        mask[chosen] = True
        for what, part in (("for early stopping", mask), ("to be fitted", ~mask)):
            if not (self._given_weights[part] > 0.0).any():
                raise ValueError(
                    f"none of the {np.count_nonzero(part)} rows that "
                    f"validation_fraction={self.estimator.validation_fraction} sets apart {what} "
                    "has a positive weight; drop rows of weight 0 before the fit, choose another "
                    "validation_fraction or random_state, or pass an eval_set"
                )
        self._check_classes(mask)
        return mask

    def _check_classes(self, held_out: np.ndarray) -> None:
        """Check that the rows to be fitted have all classes."""
        y, share = self.plan.y, self.estimator.validation_fraction
        if is_classifier(self.estimator) and len(np.unique(y[~held_out])) < len(np.unique(y)):
            raise ValueError(
                "The training data after the early stopping split, which sets apart "
                f"validation_fraction={share} of the rows, is missing some classes; choose another "
                "validation_fraction or random_state, or pass an eval_set"
            )

    @cached_property
    def weights(self) -> np.ndarray | None:
        """Weights for growing trees: rows held out have weight 0. None if all rows count as 1."""
        if self.held_out is None:
            return self.plan.weights
        return np.where(self.held_out, 0.0, self._given_weights)

    @property
    def _given_weights(self) -> np.ndarray:
        """Weights of all rows, held out or not; ones without sample weights and class weights."""
        return np.ones(len(self.plan.y)) if self.plan.weights is None else self.plan.weights

    @cached_property
    def constant(self) -> np.ndarray:
        """The baseline, to which offsets and ``init`` are added: float64 (columns,).

        With ``init``, it is 0. A warm start keeps the baseline of the earlier model.
        """
        if self.before is not None:
            return self.before.baseline
        if self.estimator.init is not None:
            return np.zeros(self.loss.columns)
        return baseline(self.loss, self.plan.y, self.weights, self.offsets)

    @cached_property
    def train(self) -> RowSet:
        """All rows of X with their weights for growing trees; rows held out have weight 0."""
        matrix, y = self.prepared.matrix, self.plan.y
        start = starting_at(len(y), self.constant, self.offsets)
        return RowSet(matrix, y, self.weights, self._so_far(matrix, start))

    def _so_far(self, data: BinnedMatrix | np.ndarray, start: np.ndarray) -> np.ndarray:
        """Raw predictions ``start`` plus, in a warm start, those of the earlier rounds."""
        if self.before is None:
            return start
        backend, execution = self.prepared.backend, self.prepared.execution
        return self.before.continued(data, start, backend, execution.n_threads)

    @cached_property
    def monitored(self) -> list[MonitoredSet]:
        """Row sets that are evaluated after each round, and their metrics."""
        metrics = read_metrics(self.estimator.eval_metric, is_classifier(self.estimator))
        sets = []
        if self.held_out is not None:
            weights = np.where(self.held_out, self._given_weights, 0.0)
            sets.append(("validation", replace(self.train, weights=weights)))
        for i, rows in enumerate(self.evaluated):
            raw = self._so_far(rows.data, rows.raw + self.constant)
            sets.append((f"validation_{i}", replace(rows, raw=raw)))
        return [MonitoredSet(name, i + 1, own, metrics) for i, (name, own) in enumerate(sets)]

    @cached_property
    def sampler(self) -> RowSampler:
        """The sampler that draws the rows of each round."""
        n = len(self.plan.y)
        n_draws = options.rows_of_round(self.estimator.subsample, n)
        method = ALL_ROWS if n_draws == n else WITHOUT_REPLACEMENT
        return RowSampler(method, n, n_draws, self.seed)

    def task(self) -> BoostTask:
        """The task of the fit for the backend."""
        estimator, n, seed = self.estimator, len(self.plan.y), self.seed
        minimum = number_between("min_hessian_leaf", estimator.min_hessian_leaf, 0.0)
        prepared, matrix = self.prepared, self.prepared.matrix
        n_features = matrix.n_features
        count = options.FeatureCounts.of(estimator, n_features).tree
        draw = None if count == n_features else FeatureDraw(n_features, count, replace=False)
        limits = options.boosting_options(estimator, n, prepared.schema, self.loss)
        information = information_of_row(self.loss, self.constant, self.offsets, self.weights)
        n_rows = self._rows_of_tree()
        rare = options.category_fraction(estimator, matrix.mapper, n_rows, information)
        return BoostTask(
            matrix=matrix,
            train=self.train,
            watched=tuple(each.rows for each in self.monitored),
            loss=self.loss,
            options=replace(limits, min_category_fraction=rare),
            min_hessian=minimum,
            sums_outputs=options.sums_outputs(estimator, self.loss),
            sampler=self.sampler,
            seed=seed,
            features_of=None if draw is None else lambda tree: draw.distinct_features(seed, tree),
            n_threads=prepared.execution.n_threads,
        )

    @property
    def trees_per_round(self) -> int:
        """1 if one tree holds all columns of raw predictions, else their number."""
        return 1 if options.sums_outputs(self.estimator, self.loss) else self.loss.columns

    def _rows_of_tree(self) -> float:
        """Expected number of rows with positive weight in a tree."""
        weights, sampler = self.train.weights, self.sampler
        share = 1.0 if weights is None else int((weights > 0).sum()) / sampler.n_samples
        return sampler.n_draws * share


@dataclass(eq=False)
class BoostingFit:
    """The rounds of a fit, and their scores.

    Attributes
    ----------
    setup : RoundSetup
        The inputs of the rounds.
    booster : Booster
        Fits the rounds; set by `run`.
    trees : list of Tree
        Trees of the rounds of this fit, without those of the model that a warm start adds to.
    train_scores : list of float
        Mean loss after each round on the rows that the round was fitted on.
    oob_scores, oob_improvements : list of float
        Mean loss after each round on the rows not drawn for the round, and its decrease in the
        round; empty if each round draws all rows.
    results : dict of str to dict of str to list of float
        ``evals_result_``.
    best_round : int or None
        Number of the round of the last improvement, with early stopping.
    has_offset : bool
        Whether the fit, or one that it adds to, has an offset.
    """

    setup: RoundSetup
    booster: Booster = field(init=False)
    trees: list[Tree] = field(default_factory=list)
    train_scores: list[float] = field(default_factory=list)
    oob_scores: list[float] = field(default_factory=list)
    oob_improvements: list[float] = field(default_factory=list)
    results: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    best_round: int | None = None
    has_offset: bool = False
    _first_score: int = 0  # number of the round of the first train_score
    _first_result: int = 0  # number of the round of the first of the results

    def run(self, monitor: Callable[..., Any] | None) -> BoostedRounds:
        """Run all rounds and return the model."""
        task = self.setup.task()
        self._restore()
        self.booster = self.setup.prepared.backend.booster(task)
        with closing(self.booster):
            self._rounds(monitor)
        return self.model()

    @property
    def n_known(self) -> int:
        """Number of rounds of the model that a warm start or a resumed fit adds to."""
        return 0 if self.setup.before is None else self.setup.before.n_rounds

    def _restore(self) -> None:
        """Take over the scores of a fit that is resumed."""
        resumed = self.setup.prepared.resumed
        self._first_result = self.n_known
        if resumed is None:
            self._first_score = self.n_known
            return
        self.train_scores = list(resumed.train_score_)
        self.oob_scores = list(getattr(resumed, "oob_scores_", ()))
        self.oob_improvements = list(getattr(resumed, "oob_improvement_", ()))
        self.results = deepcopy(resumed.evals_result_)
        lengths = [len(own) for metrics in self.results.values() for own in metrics.values()]
        self._first_result -= max(lengths, default=0)

    def _rounds(self, monitor: Callable[..., Any] | None) -> None:
        """Run all rounds, unless early stopping, a callback or the monitor ends the fit before."""
        estimator, setup = self.setup.estimator, self.setup
        rates = options.learning_rates(estimator.learning_rate)
        callbacks, stopping = FitCallbacks.of(estimator), self._early_stopping()
        n_rounds = integer_at_least("n_estimators", estimator.n_estimators, 1)
        check_growing(n_rounds, self.n_known, "rounds", setup.prepared.resumed is not None)
        callbacks.check_data(estimator, self._digest)
        is_evaluated = bool(callbacks.functions) or stopping is not None or monitor is not None
        has_metrics = any(each.metrics for each in setup.monitored)
        table = ScoreTable(setup.prepared.execution.verbose, self.n_known, n_rounds)
        unread: list[tuple[int, FittedRound]] = []
        numbers = range(0) if self._has_stopped(stopping) else range(self.n_known, n_rounds)
        with callbacks.running(lambda: self._n_rounds() + len(unread), "rounds"):
            for number in numbers:
                rate = rates(number)
                unread.append((number, self.booster.boost(number, rate)))
                if not (is_evaluated or has_metrics or table.shows(number)):
                    continue  # the host does not wait for the device
                self._read(unread)
                if table.shows(number):
                    table.print_round(number, self._last_scores())
                score, made = self.train_scores[-1], partial(estimator._fitted_by, self)
                result = RoundResult(number, rate, score, self.results, n_rounds, made)
                ends = callbacks.end_after(result)
                ends |= stopping is not None and stopping.stops(number, self.scores[-1])
                ends |= bool(monitor is not None and monitor(number, estimator, vars(self)))
                if ends:
                    break
            self._read(unread)
        self._read(unread)  # those that an interrupt left
        if stopping is not None:
            self.best_round = stopping.best_round

    def _has_stopped(self, stopping: EarlyStopping | None) -> bool:
        """Whether early stopping ended the fit that is resumed; this recalls its state."""
        if stopping is None or self.setup.prepared.resumed is None or not self.results:
            return False
        scores = enumerate(self.scores, self._first_result)
        answers = [stopping.stops(number, score) for number, score in scores]
        return any(answers)

    def _n_rounds(self) -> int:
        """Number of rounds so far, including those that the fit adds to."""
        return self.n_known + len(self.trees) // self.setup.trees_per_round

    def _digest(self) -> str:
        """SHA-256 of the data of the fit and of the evaluation sets."""
        arrays = [self.setup.plan.weights, self.setup.offsets]
        for rows in self.setup.evaluated:
            data: Any = rows.data
            if isinstance(data, BinnedMatrix):
                data = data.stored if data.is_blocked else data.codes
            arrays += [data, rows.y, rows.weights, rows.raw]
        return data_digest(self.setup.prepared, *arrays)

    def _read(self, unread: list[tuple[int, FittedRound]]) -> None:
        """Store trees and scores of rounds that have not been read yet.

        Each is stored at its own place, so an interrupt in between leaves no round twice.
        """
        while unread:
            number, fitted = unread[0]
            done = fitted.read()
            losses, place = done.losses, number - self._first_score
            if losses.outside is not None:
                before, after = losses.outside
                self.oob_scores[place:] = [after]
                self.oob_improvements[place:] = [before - after]
            for each, loss in zip(self.setup.monitored, losses.watched, strict=True):
                for name, score in each.scores(self.booster, self.setup.loss, loss).items():
                    own = self.results.setdefault(each.name, {}).setdefault(name, [])
                    own[number - self._first_result :] = [score]
            self.train_scores[place:] = [losses.train]
            self.trees[(number - self.n_known) * len(done.trees) :] = done.trees
            unread.pop(0)

    def _last_scores(self) -> dict[str, float]:
        """The scores of the last round, by the titles of the printed table."""
        scores = {"Train Loss": self.train_scores[-1]}
        if self.oob_improvements:
            scores["OOB Improve"] = self.oob_improvements[-1]
        for of_set, found in self.results.items():
            scores |= {f"{of_set} {metric}": own[-1] for metric, own in found.items()}
        return scores

    def _early_stopping(self) -> EarlyStopping | None:
        """Early stopping by the last metric of the last row set, as in XGBoost, or None.

        The loss counts as the first metric, so it decides if the user gave no metrics.
        """
        estimator = self.setup.estimator
        patience = options.patience(estimator.n_iter_no_change)
        tol = number_between("tol", estimator.tol, 0.0)
        if patience is None:
            return None
        metrics = self.setup.monitored[-1].metrics
        return EarlyStopping(patience, tol, bool(metrics) and metrics[-1].greater_is_better)

    @property
    def scores(self) -> list[float]:
        """The last metric of the last row set (the loss if there are no metrics), by round."""
        last = self.results[self.setup.monitored[-1].name]
        return last[list(last)[-1]]

    def model(self) -> BoostedRounds:
        """The model of the rounds so far."""
        setup, before = self.setup, self.setup.before
        old, batches = ((), ()) if before is None else (before.ensemble.trees, before.batches)
        numbers = range(len(old), len(old) + len(self.trees))
        ensemble, prepared = Ensemble.of((*old, *self.trees)), setup.prepared
        template = setup.estimator._empty_tree()
        batches = (*batches, TreeBatch(numbers, setup.sampler, None, template))
        of_rounds = setup.loss, setup.constant, setup.trees_per_round, setup.init
        return BoostedRounds(ensemble, prepared.matrix.mapper, prepared.schema, batches, *of_rounds)
