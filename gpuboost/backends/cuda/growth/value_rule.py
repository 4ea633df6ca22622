"""The rule by which value_rule.cuh computes the values and weights of nodes from their sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.engine.criteria import CRITERIA
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.multi_output import MultiOutputClassTarget
from gpuboost.engine.targets import MedianTarget, Target, ValueTarget
from gpuboost.engine.task import GrowTask


@dataclass(frozen=True)
class ValueRule:
    """The rule by which the values and weights of nodes are computed from their sums.

    Numbers that may exist only on the device are arrays.

    Attributes
    ----------
    exponents : int32 (planes,)
        Exponent of the power of two that scales each plane of the sums; for steps, the fields of
        `engine.ensembles.boosting.Scale`. Empty if the sums of classes are whole numbers.
    mean, distinct_targets, first_target : arrays
        Means and distinct targets of the outputs; see ``ValueRule`` of value_rule.cuh.
    given : float64 (3,) or (4,)
        l1, l2 and the largest absolute leaf value, which also bounds the values of all nodes under
        monotonic constraints. A fourth number is not read.
    rate : float64 (1,)
        Factor of steps, and of values under monotonic constraints.
    unit, unit_of_gain : float64 (1,)
        Factors of weights (not read for steps) and of gains (not read for medians).
    kind : int
        Kind of values: a constant of value_rule.cuh.
    n_values : int
        Number of values of a node: classes or outputs; for several outputs of classes, the number
        of all classes.
    square_unit : int
        Exponent by which targets are scaled down before they are squared; see `ValueTarget`.
    n_together : int
        For several outputs of classes, the number of classes per output.
    """

    exponents: Array
    mean: Array
    distinct_targets: Array
    first_target: Array
    given: Array
    rate: Array
    unit: Array
    unit_of_gain: Array
    kind: int
    n_values: int
    square_unit: int = 0
    n_together: int = 1

    @classmethod
    def of_target(cls, runtime: Runtime, task: GrowTask) -> ValueRule:
        """Make the rule of a task whose targets are not gradients.

        ``unit`` is 1 if the task has no sampler; rounds of AdaBoost then set their own unit.
        """
        target, sampler, criterion = task.target, task.sampler, task.options.criterion
        exponents = target.exponents
        if sampler is not None:
            exponents = target.exponents_in(sampler.shared_rows)
        kind, mean, distinct_targets, square_unit = _of_kind(target, criterion)
        sizes = [len(of_output) for of_output in distinct_targets]
        arrays = {
            "exponents": exponents.astype(np.int32),
            "mean": mean,
            "distinct_targets": np.concatenate(distinct_targets),
            "first_target": np.cumsum([0, *sizes[:-1]], dtype=np.int32),
            "given": np.array([0.0, 0.0, np.inf]),
            "rate": np.ones(1),
            "unit": np.array([1.0 if sampler is None else sampler.shared_rows.unit]),
            "unit_of_gain": np.array([target.gain_unit(criterion)]),
        }
        there = {name: runtime.asarray(array) for name, array in arrays.items()}
        n_values = target.n_classes if target.by_class else target.n_channels
        number = constant("growth/value_rule.cuh", kind)
        sizes_of = {"n_values": n_values, "n_together": target.scored_together}
        return cls(**there, kind=number, square_unit=square_unit, **sizes_of)

    @classmethod
    def of_steps(
        cls, exponents: Array, given: Array, rate: Array, unit_of_gain: Array, n_outputs: int
    ) -> ValueRule:
        """Make the rule of a round of boosting, with the exponents of kernel ``scale_round``."""
        # Means and distinct targets are not read, and steps have no unit of weights: these are
        # placeholders.
        unread = {"mean": given, "distinct_targets": given, "first_target": exponents, "unit": rate}
        used = {"given": given, "rate": rate, "unit_of_gain": unit_of_gain}
        kind = constant("growth/value_rule.cuh", "STEPS")
        return cls(exponents=exponents, **unread, **used, kind=kind, n_values=n_outputs)

    @property
    def n_planes(self) -> int:
        """Number of planes with an exponent."""
        return len(self.exponents)


def _of_kind(target: Target, criterion: int) -> tuple[str, np.ndarray, tuple[np.ndarray, ...], int]:
    """Kind of values, means, distinct targets and ``square_unit`` of a target, or placeholders."""
    none = np.zeros(1)
    match target:
        case MultiOutputClassTarget():
            return "OUTPUT_PROBABILITIES", target.mean, (none,), 0
        case ValueTarget():
            name = "POISSON_MEANS" if CRITERIA[criterion].counts else "MEANS"
            return name, target.mean, (none,), target.square_unit
        case MedianTarget():
            return "MEDIANS", target.mean, target.distinct_targets, 0
        case _:
            return "PROBABILITIES", none, (none,), 0
