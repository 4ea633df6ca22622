"""How the sums of nodes become leaf values and weights in finish.cu."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.engine.criteria import CRITERIA
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.targets import Target
from gpuboost.engine.task import GrowTask


@dataclass(frozen=True)
class ValueRule:
    """How the sums of nodes become leaf values and weights.

    Values that may exist on the device only are in arrays.

    Attributes
    ----------
    exponents : int32 (planes,)
    mean, levels, first_level : arrays
        Means and levels of the target; see ``ValueRule`` of finish.cu.
    given : float64 (3,)
        l1, l2 and the largest absolute value, which also bounds values under monotonic constraints.
    rate : float64 (1,)
        Factor of steps, and of values under monotonic constraints.
    unit, unit_of_gain : float64 (1,)
        Factors of weights and of gains.
    kind : int
        Kind of values: a constant of finish.cu.
    n_values : int
        Number of values of a node: classes or outputs.
    square_unit : int
    """

    exponents: Array
    mean: Array
    levels: Array
    first_level: Array
    given: Array
    rate: Array
    unit: Array
    unit_of_gain: Array
    kind: int
    n_values: int
    square_unit: int = 0

    @classmethod
    def of_target(cls, runtime: Runtime, task: GrowTask) -> ValueRule:
        """Make the rule of a task whose rows are drawn by its sampler."""
        target, sampler = task.target, task.sampler
        own = None if sampler is None else sampler.brief.exponents
        exponents = target.exponents if own is None else own
        arrays = {
            "exponents": exponents.astype(np.int32),
            "mean": getattr(target, "mean", np.zeros(1)),
            "levels": np.concatenate(getattr(target, "levels", [np.zeros(1)])),
            "first_level": _first_levels(target),
            "given": np.array([0.0, 0.0, np.inf]),
            "rate": np.ones(1),
            "unit": np.array([1.0 if sampler is None else sampler.brief.unit]),
            "unit_of_gain": np.array([target.gain_unit(task.options.criterion)]),
        }
        there = {name: runtime.asarray(array) for name, array in arrays.items()}
        kind = _kind_of_values(target, task.options.criterion)
        n_values = target.n_classes if target.by_class else target.n_channels
        unit = getattr(target, "square_unit", 0)
        return cls(**there, kind=kind, n_values=n_values, square_unit=unit)

    @classmethod
    def of_steps(
        cls, exponents: Array, given: Array, rate: Array, unit_of_gain: Array, n_outputs: int
    ) -> ValueRule:
        """Make the rule of a round of boosting, with the exponents of kernel ``scale_round``."""
        unread = (given, given, exponents)  # placeholders of means and levels
        units = (rate, unit_of_gain)  # steps have no unit of weights: rate is a placeholder
        kind = constant("growth/finish.cu", "STEPS")
        return cls(exponents, *unread, given, rate, *units, kind=kind, n_values=n_outputs)

    @property
    def n_planes(self) -> int:
        """Number of planes with an exponent."""
        return len(self.exponents)


def _kind_of_values(target: Target, criterion: int) -> int:
    name = "POISSON_MEANS" if CRITERIA[criterion].counts else "MEANS"
    if target.by_class:
        name = "SHARES"
    elif target.by_median:
        name = "MEDIANS"
    return constant("growth/finish.cu", name)


def _first_levels(target: Target) -> np.ndarray:
    """Offset of the levels of each output in ``levels``: int32."""
    sizes = [len(levels) for levels in getattr(target, "levels", ())]
    return np.cumsum([0, *sizes[:-1]], dtype=np.int32)
