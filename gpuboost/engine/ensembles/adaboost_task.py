"""The task that an AdaBoost fit gives to a backend, and the objectives that evaluate trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuboost.engine.bins import BinnedMatrix
from gpuboost.engine.ensembles import adaboost
from gpuboost.engine.ensembles.adaboost import PERFECT_BOUND, PERFECT_VOTE, Outcome, WeightBits
from gpuboost.engine.fixed_point import WeightFacts
from gpuboost.engine.growth.tree import Tree
from gpuboost.engine.quantise import class_target, regression_target
from gpuboost.engine.sampling import RowSampler
from gpuboost.engine.targets import ClassTarget, RegressionTarget, TreeRows
from gpuboost.engine.task import GrowTask, TreeOptions

REWEIGHTING, RESAMPLING = "reweighting", "resampling"


@dataclass(frozen=True, eq=False)
class ClassObjective:
    """The objective of classifiers: discrete AdaBoost, or SAMME for more than two classes.

    Attributes
    ----------
    codes : int32 (n,)
        Class of each row.
    n_classes : int
        Number of classes.
    learning_rate : float
        Factor of the votes.
    target : ClassTarget
        Target of all trees.
    bits : WeightBits
        Maximum bits of the integer weights and of their sum.
    """

    codes: np.ndarray
    n_classes: int
    learning_rate: float
    target: ClassTarget
    bits: WeightBits = adaboost.ADABOOST_CLASS_BITS

    @classmethod
    def of(cls, codes: np.ndarray, n_classes: int, learning_rate: float) -> ClassObjective:
        """The objective of a fit."""
        target = class_target(codes, n_classes, weight_facts(cls.bits))
        return cls(codes, n_classes, learning_rate, target)

    @property
    def chance(self) -> float:
        """The error of random guessing; 1.0 for a single class, where no tree has errors."""
        return 1.0 - 1.0 / self.n_classes if self.n_classes > 1 else 1.0

    def look(self, tree: Tree, leaves: np.ndarray, weights: np.ndarray) -> tuple[Any, float]:
        """The mask of the misclassified rows, bool (n,), and the error, weighted by ``weights``."""
        predicted = tree.value.argmax(axis=1)[leaves]  # ties go to the first class
        wrong = predicted != self.codes
        return wrong, adaboost.class_error(weights, wrong)

    def outcome(self, seen: Any, weights: np.ndarray, error: float) -> Outcome:
        """Result of the round, with the vote of the tree; ``seen`` is the mask of `look`."""
        return adaboost.class_round(weights, seen, error, self.n_classes, self.learning_rate)


@dataclass(frozen=True, eq=False)
class ValueObjective:
    """The objective of regressors: AdaBoost.R2.

    Attributes
    ----------
    y : float64 (n,)
        Target of each row.
    loss : str
        Key of `adaboost.ADABOOST_LOSSES`.
    learning_rate : float
        Factor of the votes.
    target : RegressionTarget
        Target of all trees.
    bits : WeightBits
        Maximum bits of the integer weights and of their sum.
    chance : float
        No round follows a round with at least this error.
    n_classes : int
        2: the vote has the formula of two classes.
    """

    y: np.ndarray
    loss: str
    learning_rate: float
    target: RegressionTarget
    bits: WeightBits = adaboost.ADABOOST_VALUE_BITS
    chance: float = 0.5
    n_classes: int = 2

    @classmethod
    def of(
        cls, y: np.ndarray, loss: str, learning_rate: float, inside: Any, criterion: int
    ) -> ValueObjective:
        """The objective of a fit; ``inside`` is the mask of rows of positive weight (None: all)."""
        facts = replace(weight_facts(cls.bits), inside=inside)
        return cls(y, loss, learning_rate, regression_target(y[:, None], facts, criterion))

    def look(self, tree: Tree, leaves: np.ndarray, weights: np.ndarray) -> tuple[Any, float]:
        """The losses of the rows, and their weighted mean."""
        loss = adaboost.ADABOOST_LOSSES[self.loss]
        losses = adaboost.value_losses(tree.value[leaves, 0], self.y, weights, loss)
        return losses, adaboost.value_error(weights, losses)

    def outcome(self, seen: Any, weights: np.ndarray, error: float) -> Outcome:
        """Result of the round, with the vote of the tree; ``seen`` are the losses of `look`."""
        return adaboost.value_round(weights, seen, error, self.learning_rate)


def weight_facts(bits: WeightBits) -> WeightFacts:
    """The facts about weights that a target depends on; they hold in all rounds."""
    return WeightFacts(float(2**bits.total), float(2**bits.largest))


@dataclass(frozen=True, eq=False)
class Round:
    """The tree of a round, with its error, vote and bound.

    Attributes
    ----------
    read_tree : callable
        Returns the tree, after waiting for a device that is still copying it.
    error, vote, bound : float
        As in `Outcome`.
    """

    read_tree: Callable[[], Tree]
    error: float
    vote: float
    bound: float

    @classmethod
    def last(cls, read_tree: Callable[[], Tree], error: float) -> Round:
        """A round that ends the fit: its tree has no errors or is no better than chance.

        Its vote is `PERFECT_VOTE` in both cases.
        """
        return cls(read_tree, error, PERFECT_VOTE, PERFECT_BOUND if error == 0.0 else 1.0)


def goes_on(error: float, chance: float) -> bool:
    """Whether another round follows a round with this error."""
    return 0.0 < error < chance


@dataclass(frozen=True, eq=False)
class ReweightTask:
    """The facts of an AdaBoost fit that stay the same from round to round.

    Attributes
    ----------
    matrix : BinnedMatrix
        Binned training rows.
    objective : ClassObjective or ValueObjective
        Evaluates the trees.
    options : TreeOptions
        Options of each tree.
    sampler : RowSampler
        Holds the weights of the first round and the seed.
    boosting : str
        `REWEIGHTING` if trees use all rows with their weights, `RESAMPLING` if rows are drawn by
        weight.
    n_rounds : int
        Maximum number of rounds.
    of_class : float64 (n_classes,) or None
        Class weights up to 1, which multiply the weights that trees are grown with, but not those
        of errors.
    n_threads : int
        Number of threads.
    memory_budget : int
        Memory for histograms and other temporary arrays, in bytes.
    first_round : int
        Number of the first round that is grown; above 0 if an earlier fit has the rounds before.
    resumed_weights : float64 (n,) or None
        Weights of the rows after the rounds of an earlier fit, on the host; None without one.
    """

    matrix: BinnedMatrix
    objective: ClassObjective | ValueObjective
    options: TreeOptions
    sampler: RowSampler
    boosting: str
    n_rounds: int
    of_class: np.ndarray | None = None
    n_threads: int = 1
    memory_budget: int = 256 * 2**20
    first_round: int = 0
    resumed_weights: np.ndarray | None = None

    def start_weights(self) -> np.ndarray:
        """Weights of the first round that is grown: float64 (n,), which sum to 1."""
        if self.resumed_weights is not None:
            return self.resumed_weights
        return adaboost.start_weights(self.sampler.weights, self.sampler.n_samples)

    def starts_whole(self) -> bool:
        """Whether the first tree uses exact weights, as small integer multiples of a unit."""
        facts, bits = self.sampler.weight_facts, self.objective.bits
        if self.of_class is not None or self.boosting != REWEIGHTING or facts.real is not None:
            return False
        return facts.total <= 2**bits.total and facts.largest <= 2**bits.largest

    def growing(self, number: int, rows_of: Callable[[int], TreeRows]) -> GrowTask:
        """The task of growing the tree of a round."""
        return GrowTask(
            self.matrix,
            self.objective.target,
            self.options,
            rows_of=rows_of,
            trees=range(number, number + 1),
            seed=self.sampler.seed,
            n_threads=self.n_threads,
            memory_budget=self.memory_budget,
        )
