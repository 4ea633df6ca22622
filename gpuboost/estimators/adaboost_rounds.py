"""The rounds of AdaBoost: a tree, its error, its vote, and the weights of the next round."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gpuboost.data.arrays import array_module, copy_to_host, working_on
from gpuboost.engine import adaboost
from gpuboost.engine.adaboost import PERFECT_BOUND, PERFECT_VOTE, Outcome, WeightBits
from gpuboost.engine.descent import leaves_of_codes
from gpuboost.engine.medians import regression_target
from gpuboost.engine.pruning import cut_back, pruned
from gpuboost.engine.spec import GrowTask
from gpuboost.engine.statistics import WeightFacts, class_target
from gpuboost.engine.tree import finish_tree
from gpuboost.estimators.growing import with_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuboost.data.binning import BinnedMatrix
    from gpuboost.engine.sampling import RowSampler
    from gpuboost.engine.spec import Target, TreeRows
    from gpuboost.engine.tree import Tree
    from gpuboost.estimators.settings import Machine
    from gpuboost.estimators.template import Prepared

BOOSTING: dict[str, Callable[..., TreeRows]] = {
    "reweighting": adaboost.reweighted_rows,
    "resampling": adaboost.resampled_rows,
}


class Judge(Protocol):
    """What a classification and a regression do differently."""

    @property
    def target(self) -> Target:
        """The same in every round."""

    @property
    def bits(self) -> WeightBits:
        """Of the integer weights that fit the target."""

    @property
    def chance(self) -> float:
        """A tree with an error of this much is no use."""

    def look(self, tree: Tree, leaves: np.ndarray, weights: np.ndarray) -> tuple[Tree, Any, float]:
        """The tree, what is known of each row, and the weighted error."""

    def outcome(self, seen: Any, weights: np.ndarray, error: float) -> Outcome:
        """Vote and weights that follow."""


@dataclass(frozen=True, eq=False)
class ClassJudge:
    """Discrete AdaBoost, and SAMME for more than two classes."""

    codes: np.ndarray
    n_classes: int
    learning_rate: float
    may_reverse: bool
    target: Target
    bits: WeightBits = adaboost.CLASS_BITS

    @classmethod
    def of(
        cls, codes: np.ndarray, n_classes: int, learning_rate: float, may_reverse: bool
    ) -> ClassJudge:
        """The judge of a fit; trees that must be monotonic may not be reversed."""
        target = class_target(codes, n_classes, _facts(cls.bits))
        return cls(codes, n_classes, learning_rate, may_reverse and n_classes == 2, target)

    @property
    def chance(self) -> float:
        """The error of guessing."""
        return 1.0 - 1.0 / self.n_classes if self.n_classes > 1 else 1.0

    def look(self, tree: Tree, leaves: np.ndarray, weights: np.ndarray) -> tuple[Tree, Any, float]:
        """The tree, reversed if it is worse than chance; which rows it gets wrong; its error."""
        wrong = self._wrong(tree, leaves)
        error = adaboost.class_error(weights, wrong)
        if self.may_reverse and error > self.chance:
            tree = replace(tree, value=adaboost.swapped(tree.value))
            wrong = ~wrong
            error = adaboost.class_error(weights, wrong)
        return tree, wrong, error

    def _wrong(self, tree: Tree, leaves: np.ndarray) -> np.ndarray:
        largest = tree.value.argmax(axis=1).astype(np.int32)
        return largest[leaves] != self.codes

    def outcome(self, seen: Any, weights: np.ndarray, error: float) -> Outcome:
        """Vote and weights that follow."""
        return adaboost.class_round(weights, seen, error, self.n_classes, self.learning_rate)


@dataclass(frozen=True, eq=False)
class ValueJudge:
    """AdaBoost.R2."""

    y: np.ndarray
    loss: Callable[[np.ndarray], np.ndarray]
    learning_rate: float
    target: Target
    bits: WeightBits = adaboost.VALUE_BITS
    chance: float = 0.5

    @classmethod
    def of(
        cls, y: np.ndarray, loss: str, learning_rate: float, inside: Any, score: int
    ) -> ValueJudge:
        """The judge of a fit; ``inside``: rows that have weight, None for all."""
        target = regression_target(y[:, None], replace(_facts(cls.bits), inside=inside), score)
        return cls(y, adaboost.LOSSES[loss], learning_rate, target)

    def look(self, tree: Tree, leaves: np.ndarray, weights: np.ndarray) -> tuple[Tree, Any, float]:
        """The tree, the losses of the rows, and their weighted mean."""
        losses = adaboost.value_losses(tree.value[leaves, 0], self.y, weights, self.loss)
        return tree, losses, adaboost.value_error(weights, losses)

    def outcome(self, seen: Any, weights: np.ndarray, error: float) -> Outcome:
        """Vote and weights that follow."""
        return adaboost.value_round(weights, seen, error, self.learning_rate)


def _facts(bits: WeightBits) -> WeightFacts:
    return WeightFacts(float(2**bits.total), float(2**bits.largest))


@dataclass(frozen=True, eq=False)
class Round:
    """A tree that is kept, and what its round came to."""

    tree: Tree
    error: float
    vote: float
    bound: float


@dataclass(frozen=True, eq=False)
class Rounds:
    """A fit of AdaBoost, before its first round.

    Parameters
    ----------
    prepared : Prepared
    judge : Judge
    draw : callable
        One of `BOOSTING`.
    class_factor : float64 (n,) or None
        Multiplies the weights that trees see, and not those that errors are made of.
    """

    prepared: Prepared
    judge: Judge
    draw: Callable[..., TreeRows]
    class_factor: np.ndarray | None = None

    def run(self, machine: Machine) -> list[Round]:
        """All rounds.

        Raises
        ------
        ValueError
            The first tree of a classification is no better than chance.
        """
        n_rounds = len(self.prepared.plan.batch.trees)
        return list(with_progress(self._rounds(machine), n_rounds, machine.verbose))

    def _rounds(self, machine: Machine) -> Iterator[Round]:
        """Rounds until one is perfect or no better than chance."""
        plan, judge = self.prepared.plan, self.judge
        sampler = plan.batch.sampler
        given = None if sampler.weights is None else copy_to_host(sampler.weights)
        weights = adaboost.start_weights(given, sampler.n_samples)
        least = np.where(weights > 0.0, adaboost.LEAST_WEIGHT, 0.0)
        for t in plan.batch.trees:
            rows = self._rows(weights, t)
            grown = self._grow(rows, t, machine)
            leaves = training_leaves(grown, self.prepared.matrix)
            tree, seen, error = judge.look(grown, leaves, weights)
            if error == 0.0:
                yield Round(tree, 0.0, PERFECT_VOTE, PERFECT_BOUND)
                return
            if error >= judge.chance:
                if t == 0:
                    yield self._first_by_chance(tree, error)
                return
            outcome = judge.outcome(seen, weights, error)
            yield Round(tree, error, outcome.vote, outcome.bound)
            weights = np.maximum(outcome.weights, least)

    def _first_by_chance(self, tree: Tree, error: float) -> Round:
        """One tree may be all there is of a regression, as in scikit-learn; classes need better."""
        if isinstance(self.judge, ValueJudge):
            return Round(tree, error, PERFECT_VOTE, 1.0)
        raise ValueError(
            f"the first tree has a weighted error of {error:.3g} and must be below "
            f"{self.judge.chance:.3g}, that of guessing: there is nothing to boost. Let trees be "
            "deeper (max_depth, or that of estimator), or look whether X tells the classes apart"
        )

    def _rows(self, weights: np.ndarray, t: int) -> TreeRows:
        """The rows of a tree; those of the first are exact where the weights are whole."""
        sampler, bits = self.prepared.plan.batch.sampler, self.judge.bits
        if self.class_factor is not None:
            weights = weights * self.class_factor
        elif t == 0 and self.draw is adaboost.reweighted_rows and _are_whole(sampler, bits):
            return sampler.copied_to_host.rows(t)
        return self.draw(weights, bits, sampler.seed, t)

    def _grow(self, rows: TreeRows, t: int, machine: Machine) -> Tree:
        """Grow one tree."""
        plan, matrix, target = self.prepared.plan, self.prepared.matrix, self.judge.target
        seed = plan.batch.sampler.seed
        task = GrowTask(
            matrix,
            target,
            plan.options,
            rows_of=partial(_same_rows, rows),
            trees=range(t, t + 1),
            seed=seed,
            n_threads=machine.n_threads,
        )
        ((_, grown),) = self.prepared.backend.grow(task)
        whole = finish_tree(grown, matrix.mapper, target, rows, plan.options)
        return pruned(cut_back(whole, plan.options.least_decrease), plan.options.ccp_alpha)


def _same_rows(rows: TreeRows, tree: int) -> TreeRows:
    return rows


def _are_whole(sampler: RowSampler, bits: WeightBits) -> bool:
    """Whether weights of a fit are integers, and fit the target of AdaBoost's rounds."""
    facts = sampler.weight_facts
    return facts.real is None and facts.total <= 2**bits.total and facts.largest <= 2**bits.largest


def training_leaves(tree: Tree, matrix: BinnedMatrix) -> np.ndarray:
    """Leaf of each training row, on the host: int32 (n,)."""
    xp = array_module(matrix.codes)
    with working_on(matrix.codes):
        return copy_to_host(leaves_of_codes(tree, matrix.codes, matrix.missing_code, xp))
