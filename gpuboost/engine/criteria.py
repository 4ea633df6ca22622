"""Criteria that choose splits: functions of integer sums, evaluated in a fixed order.

A node with sums ``g[k]`` per channel k and hessian (weight) ``h`` is split into a left part
``gl[k]``, ``hl`` and a right part ``gr[k]``, ``hr``. The sums are float64 holding integers; a gain
is valid only where ``hl > 0`` and ``hr > 0``. ``limits`` is ((l1, l2), (lower, upper)), the
penalties and the bounds on leaf values at the node, which only NEWTON (`engine.newton`) reads.

VARIANCE (gini, squared_error) is the increase of sum_k g_k**2 / h, in centred form:

    sum_k (gl_k h - g_k hl)**2 / (hl hr) / h

Equal child means give exactly zero, because equal products round equally. The division by h is
left to `gain_of`, since it is the same for all candidates of a node. ENTROPY is the increase of
sum_k f(g_k) - f(h), f(x) = x log x. MISCLASSIFICATION is the increase of max_k g_k.

POISSON is the decrease of half the Poisson deviance of rows with values y >= 0, whose weighted sum
is g_k: with m = g_k / h, the increase of sum_k g_k log m. With s the left or the right part, it is

    sum_k m (hl phi(x_l) + hr phi(x_r)),    x_s = (g_s h - g_k h_s) / (g_k h_s),

where phi(x) = (1 + x) log(1 + x) - x is about x**2 / 2 and never negative: cancellation cannot
produce a false gain, and equal means give exactly zero as with VARIANCE. A part whose g_k is zero
predicts a mean of zero, so a split with such a part is not valid.

TWOING (Breiman, Friedman, Olshen, Stone: Classification and Regression Trees, 1984, section 4.3)
is for classes: hl hr / h / 4 times the square of sum_k abs(gl_k / hl - gr_k / hr). That is half the
VARIANCE gain, summed over both sets, after merging the classes into the two sets that the split
separates best. The code computes four times this value,

    (sum_k abs(gl_k h - g_k hl))**2 / (hl hr) / h,

which is exactly zero if both parts have the same class probabilities.

With two classes, the only channel is the second class (``g``; the first class is ``h - g``). By
symmetry VARIANCE needs only this channel; the other criteria of classifiers add the first class,
then the second.

Each criterion is a row of `CRITERIA`. NumPy calls the functions with arrays, the Numba backend
compiles this module, and ``kernels/common/criteria.cuh`` has a copy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.engine.newton import add_newton, newton_reaches, newton_score, newton_threshold
from gpuboost.engine.numerics import half_deviance, log, log2, select

VARIANCE, ENTROPY, MISCLASSIFICATION, NEWTON, POISSON = 0, 1, 2, 3, 4
ABSOLUTE, TWOING = 5, 6  # ABSOLUTE needs a `MedianTarget`; its trees are grown with VARIANCE
EPSILON = 2.0**-52  # tolerance in comparisons with min_impurity_decrease
_NOT_ALLOWED = -np.inf


def variance_term(gl, g, hl, h):
    """Term of one channel in the VARIANCE gain, to be summed over channels in order."""
    x = gl * h - g * hl
    return x * x


def variance_gain(terms, hl, hr):
    """VARIANCE gain of a split (times h) from the sum of its channels' terms."""
    return terms / (hl * hr)


def add_variance(sums, gl, g, hl, h, limits):
    """Sums after adding one channel; only the first is used, for the terms of the split."""
    left, right, node = sums
    return left + variance_term(gl, g, hl, h), right, node


def variance_score(sums, hl, h):
    """Score of a split: the VARIANCE gain times h."""
    return variance_gain(sums[0], hl, h - hl)


def entropy_term(g):
    """f(g) = g log g, 0 at 0; to be summed over channels, separately for left, right and node."""
    return select(g > 0.0, g * log(np.maximum(g, 1.0)), 0.0)


def add_entropy(sums, gl, g, hl, h, limits):
    """Sums of the terms of left, right and node after adding one channel."""
    left, right, node = sums
    return left + entropy_term(gl), right + entropy_term(g - gl), node + entropy_term(g)


def entropy_score(sums, hl, h):
    """Score of a split: the ENTROPY gain, 0 if rounding makes it negative."""
    left, right, node = sums
    parts = (left + right) - (entropy_term(hl) + entropy_term(h - hl))
    return np.maximum(parts - (node - entropy_term(h)), 0.0)


def add_misclassification(sums, gl, g, hl, h, limits):
    """Largest channels of left, right and node after adding one channel."""
    left, right, node = sums
    return np.maximum(left, gl), np.maximum(right, g - gl), np.maximum(node, g)


def misclassification_score(sums, hl, h):
    """Score of a split: the MISCLASSIFICATION gain."""
    left, right, node = sums
    return (left + right) - node


def poisson_term(gl, g, hl, h):
    """Term of one output in the POISSON gain; minus infinity if the split is not valid."""
    gr, hr = g - gl, h - hl
    x, all_of_it = gl * h - g * hl, np.maximum(g, 1.0)
    left = hl * half_deviance(x / (all_of_it * hl))
    right = hr * half_deviance(-x / (all_of_it * hr))
    return select((gl > 0.0) & (gr > 0.0), all_of_it / h * (left + right), _NOT_ALLOWED)


def add_poisson(sums, gl, g, hl, h, limits):
    """Sums after adding one channel; only the first is used, for the terms of the split."""
    left, right, node = sums
    return left + poisson_term(gl, g, hl, h), right, node


def poisson_score(sums, hl, h):
    """Score of a split: the POISSON gain, -1 where the split is not valid."""
    return select(sums[0] >= 0.0, sums[0], -1.0)


def add_twoing(sums, gl, g, hl, h, limits):
    """Sums after adding one class; only the first is used, and the score squares it."""
    left, right, node = sums
    return left + np.abs(gl * h - g * hl), right, node


def twoing_score(sums, hl, h):
    """Score of a split: four times the TWOING gain."""
    return sums[0] * sums[0] / (hl * (h - hl)) / h


def gain_of(criterion, score, h):
    """Gain of a split from its score (see `Criterion.times_hessian`), -1 if there is no split."""
    gain = score / h if criterion in _TIMES_HESSIAN else score
    return select(score < 0.0, -1.0, gain)


def is_enough(gain, root, unit, minimum, needs_gain):
    """Whether a gain is accepted.

    Parameters
    ----------
    gain : float64
        Gain of a split, from `gain_of`.
    root : float64
        Hessian of the tree's root.
    unit : float
        Factor from gains to the decrease of weight times impurity.
    minimum : float
        ``min_impurity_decrease``.
    needs_gain : bool
        Whether a gain of zero is refused.
    """
    enough = gain > 0.0 if needs_gain else gain >= 0.0
    if minimum > 0.0:
        enough = enough & (gain * unit / root + EPSILON >= minimum)
    return enough


def median_signs(ranks, lower, upper):
    """Signs of ranks about the median, int8: -1 up to ``lower``, 1 from ``upper`` on.

    ``lower`` and ``upper`` are the ranks of the two middle targets. If they are the same rank, its
    sign is 0.
    """
    return np.int8(ranks >= upper) - np.int8(ranks <= lower)


def is_large(count, hessian, options, min_hessian):
    """Whether nodes have enough rows, and weight for two children of at least ``min_hessian``."""
    return (count >= min_rows(options)) & (hessian >= 2 * min_hessian)


def min_rows(options):
    """Smallest number of rows of a node that is split, by two fields of ``options``."""
    return max(options.min_samples_split, 2 * options.min_samples_leaf)


def gini(probability, nodes):
    """Gini impurity, from the class probabilities in a `DenseRows` or `SparseRows` of ``nodes``."""
    return 1.0 - nodes.row_sums(np.square(probability))


def entropy(probability, nodes):
    """Entropy of class probabilities, as for `gini`, in bits."""
    return nodes.row_sums(-probability * log2(np.where(probability > 0.0, probability, 1.0)))


def misclassification_rate(probability, nodes):
    """1 minus the largest of the class probabilities, as for `gini`."""
    return 1.0 - nodes.row_max(probability)


def no_threshold(best, g, h, limits):
    """The threshold of `always_reaches`."""
    return best


def always_reaches(gl, g, hl, h, limits, threshold):
    """Any score is possible, since no bound is known."""
    return True


@dataclass(frozen=True)
class Criterion:
    """All facts about a criterion: one row of `CRITERIA`.

    Attributes
    ----------
    number : int
        Number by which backends and ``kernels/common`` choose the functions.
    add, score : callable
        ``add(sums, gl, g, hl, h, limits)`` adds one channel to three sums, usually of left, right
        and node, which start as zeros; ``score(sums, hl, h)`` is -1 where the criterion does not
        allow the split.
    threshold, reaches : callable
        A bound on the scores of one channel, which takes less time to compute than they do. If
        ``reaches(gl, g, hl, h, limits, threshold(best, g, h, limits))`` is False, the score is
        below ``best``, which is at least 0.
    impurity : callable
        Impurity of nodes from class probabilities, as for `gini`; only classifiers use it.
    class_names, value_names : tuple of str
        The criterion's names for users, in classifiers and in regressors.
    note : str
        Explanation for users, shown after the names.
    both_classes : bool
        Whether, with two classes, the first class is added before the only channel, the second.
    times_hessian : bool
        Whether scores are gains times the node's hessian, which is the same for all candidates.
    class_unit : float
        Factor from gains to the decrease of weight times impurity of classes. It is doubled
        (`ClassTarget.gain_unit`) if only one of two classes is added.
    power : int
        The unit of gains is the unit of targets to this power.
    counts : bool
        Whether targets are at least 0 and not centred; the impurity is half their Poisson deviance.
    by_median : bool
        Whether splits use the signs of targets about medians (`MedianTarget`).
    compiled_apart : bool
        Whether only kernels compiled for this criterion include it, which saves registers in the
        other kernels.
    """

    number: int
    add: Callable[..., Any]
    score: Callable[..., Any]
    threshold: Callable[..., Any] = no_threshold
    reaches: Callable[..., Any] = always_reaches
    impurity: Callable[..., np.ndarray] = gini
    class_names: tuple[str, ...] = ()
    value_names: tuple[str, ...] = ()
    note: str = ""
    both_classes: bool = True
    times_hessian: bool = False
    class_unit: float = 1.0
    power: int = 2
    counts: bool = False
    by_median: bool = False
    compiled_apart: bool = False


_ROWS = (
    Criterion(
        VARIANCE,
        add_variance,
        variance_score,
        class_names=("gini",),
        value_names=("squared_error",),
        both_classes=False,
        times_hessian=True,
    ),
    Criterion(
        ENTROPY,
        add_entropy,
        entropy_score,
        impurity=entropy,
        class_names=("entropy", "log_loss"),
        class_unit=1.4426950408889634,  # 1 / ln 2: nats to bits
    ),
    Criterion(
        MISCLASSIFICATION,
        add_misclassification,
        misclassification_score,
        impurity=misclassification_rate,
        class_names=("misclassification",),
    ),
    Criterion(
        TWOING,
        add_twoing,
        twoing_score,
        class_names=("twoing",),
        note="'gini' of the best division of the classes into two sets",
        class_unit=0.5,  # the gain is twice the gini decrease of the two sets of classes
        compiled_apart=True,
    ),
    Criterion(
        NEWTON,
        add_newton,
        newton_score,
        newton_threshold,
        newton_reaches,
        both_classes=False,
        compiled_apart=True,
    ),
    Criterion(
        ABSOLUTE,
        add_variance,
        variance_score,
        value_names=("absolute_error",),
        note="leaves are medians; splits separate targets above the median of the node from "
        "targets below it",
        times_hessian=True,
        by_median=True,
    ),
    Criterion(
        POISSON,
        add_poisson,
        poisson_score,
        value_names=("poisson",),
        note="half the Poisson deviance, for counts and amounts: y >= 0",
        both_classes=False,
        power=1,
        counts=True,
        compiled_apart=True,
    ),
)
CRITERIA = {row.number: row for row in _ROWS}  # in the order of user documentation
_TIMES_HESSIAN = tuple(row.number for row in _ROWS if row.times_hessian)
