"""Criteria: what decides between splits. Functions of integer sums, each in one written order.

A node with sums ``g[k]`` per channel k and hessian (weight) ``h`` is split into a left part
``gl[k]``, ``hl`` and the rest. All arguments are float64 holding integers; a gain is valid only
where ``hl > 0`` and ``h - hl > 0``.

VARIANCE (gini, squared_error) is the centred form of the rise of sum_k g_k**2 / h:

    sum_k (gl_k h - g_k hl)**2 / (hl hr) / h

where equal child means give exactly zero, because equal products round equally. The division by
h is left to `gain`: it is the same for all candidates of a node. ENTROPY is the rise of
sum_k f(g_k) - f(h), f(x) = x log x. MISCLASSIFICATION is the rise of max_k g_k.

NEWTON is what boosting with regularisation needs (Chen and Guestrin, KDD 2016, eq. 5 to 7, with l1
and bounds as in their implementation). A part with sums g, h takes the value v that maximises

    sum_k 2 g_k v_k - (h + l2) v_k**2 - 2 l1 abs(v_k),    lower <= v_k <= upper,

and the gain is the rise of that maximum. With l1 = l2 = 0 and no bounds it is that of VARIANCE, but
for rounding.

POISSON is the fall of half the Poisson deviance of rows with values y >= 0, where g_k is their
weighted sum: with m = g_k / h, the rise of sum_k g_k log m. Of the left and the right part s it is
written as

    sum_k m (hl phi(x_l) + hr phi(x_r)),    x_s = (g_s h - g_k h_s) / (g_k h_s),

phi(x) = (1 + x) log(1 + x) - x, which is x**2 / 2 and more: no term is negative, so what is left
by cancellation is not taken for a rise, and equal means give exactly zero as with VARIANCE. A part
whose g_k is zero predicts that nothing can ever happen; a split that makes one is not valid.

TWOING (Breiman, Friedman, Olshen, Stone: Classification and Regression Trees, 1984, section 4.3)
is for classes: hl hr / h / 4 times the square of sum_k abs(gl_k / hl - gr_k / hr). That is half the
rise of VARIANCE if classes are merged into the two sets that the split parts best. It is computed
as

    (sum_k abs(gl_k h - g_k hl))**2 / (hl hr) / h,

four times as much, where equal shares of classes give exactly zero.

For two classes there is one channel, the second class (``g``, while the first is ``h - g``); by
symmetry VARIANCE needs no more, the others look at both, the first class first.

Each criterion is a row of `CRITERIA`. NumPy passes arrays, the Numba backend loads this module
compiled, ``kernels/common/criteria.cuh`` has a copy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.engine.numerics import half_deviance, in_order, log, log2, select

VARIANCE, ENTROPY, MISCLASSIFICATION, NEWTON, POISSON = 0, 1, 2, 3, 4
ABSOLUTE, TWOING = 5, 6  # the first asks for a `MedianTarget`; its trees are grown by VARIANCE
_NOT_ALLOWED = -np.inf


def variance_term(gl, g, hl, h):
    """One channel's share of the VARIANCE gain, to be added up over channels in order."""
    x = gl * h - g * hl
    return x * x


def variance_gain(terms, hl, hr):
    """VARIANCE gain of a split (times h) from the sum of its channels' terms."""
    return terms / (hl * hr)


def add_variance(sums, gl, g, hl, h):
    """Sums of left, right and node with one channel more."""
    left, right, node = sums
    return left + variance_term(gl, g, hl, h), right, node


def variance_score(sums, hl, h):
    """Score of a split: the VARIANCE gain times h."""
    return variance_gain(sums[0], hl, h - hl)


def entropy_term(g):
    """f(g) = g log g, 0 at 0; to be added up over channels, left and right apart."""
    return select(g > 0.0, g * log(np.maximum(g, 1.0)), 0.0)


def entropy_gain(left, right, node, hl, hr):
    """ENTROPY gain; ``left``, ``right``: sums of terms; ``node``: `entropy_node` of the node."""
    gain = ((left + right) - (entropy_term(hl) + entropy_term(hr))) - node
    return np.maximum(gain, 0.0)


def entropy_node(terms, h):
    """The node's own part of `entropy_gain` from the sum of its channels' terms."""
    return terms - entropy_term(h)


def add_entropy(sums, gl, g, hl, h):
    """Sums of left, right and node with one channel more."""
    left, right, node = sums
    return left + entropy_term(gl), right + entropy_term(g - gl), node + entropy_term(g)


def entropy_score(sums, hl, h):
    """Score of a split: the ENTROPY gain."""
    left, right, node = sums
    return entropy_gain(left, right, entropy_node(node, h), hl, h - hl)


def misclassification_gain(left, right, node):
    """MISCLASSIFICATION gain from the largest channel of the left, the right and the node."""
    return (left + right) - node


def add_misclassification(sums, gl, g, hl, h):
    """The largest of left, right and node with one channel more."""
    left, right, node = sums
    return np.maximum(left, gl), np.maximum(right, g - gl), np.maximum(node, g)


def misclassification_score(sums, hl, h):
    """Score of a split: the MISCLASSIFICATION gain."""
    return misclassification_gain(sums[0], sums[1], sums[2])


def poisson_term(gl, g, hl, h):
    """One output's share of the POISSON gain, to be added up; minus infinity if not allowed."""
    gr, hr = g - gl, h - hl
    x, all_of_it = gl * h - g * hl, np.maximum(g, 1.0)
    left = hl * half_deviance(x / (all_of_it * hl))
    right = hr * half_deviance(-x / (all_of_it * hr))
    return select((gl > 0.0) & (gr > 0.0), all_of_it / h * (left + right), _NOT_ALLOWED)


def poisson_gain(terms):
    """POISSON gain from the sum of its channels' terms, -1 where the split is not valid."""
    return select(terms >= 0.0, terms, -1.0)


def add_poisson(sums, gl, g, hl, h):
    """Sums of left, right and node with one channel more."""
    left, right, node = sums
    return left + poisson_term(gl, g, hl, h), right, node


def poisson_score(sums, hl, h):
    """Score of a split: the POISSON gain, -1 where the split is not valid."""
    return poisson_gain(sums[0])


def twoing_term(gl, g, hl, h):
    """One class's share of the root of the TWOING gain, to be added up in order."""
    return np.abs(gl * h - g * hl)


def twoing_gain(terms, hl, hr, h):
    """TWOING gain of a split, times four, from the sum of its classes' terms."""
    return terms * terms / (hl * hr) / h


def add_twoing(sums, gl, g, hl, h):
    """Sums of left, right and node with one channel more."""
    left, right, node = sums
    return left + twoing_term(gl, g, hl, h), right, node


def twoing_score(sums, hl, h):
    """Score of a split: the TWOING gain."""
    return twoing_gain(sums[0], hl, h - hl, h)


def newton_value(g, h, l1, l2):
    """The best value of a part without bounds: the gradient, shrunk by l1, over h + l2."""
    size = np.maximum(np.abs(g) - l1, 0.0)
    return select(g < 0.0, -size, size) / (h + l2)


def bounded(value, lower, upper):
    """The nearest value within the bounds of a node."""
    return np.minimum(np.maximum(value, lower), upper)


def values_in_bounds(g, h, regular, bounds):
    """The values of parts within the bounds of their nodes.

    ``regular``: l1 and l2; ``bounds``: lower and upper.
    """
    l1, l2 = regular
    lower, upper = bounds
    return bounded(newton_value(g, h, l1, l2), lower, upper)


def newton_term(g, h, value, l1, l2):
    """What a part with this value adds to NEWTON; to be added up over channels in order."""
    return value * (2.0 * g - (h + l2) * value) - 2.0 * l1 * np.abs(value)


def newton_gain(left, right, node):
    """NEWTON gain from the sums of the terms of the left, the right and the node."""
    return (left + right) - node


def middle(left, right):
    """The bound between the values of two children of a monotonic split."""
    return (left + right) * 0.5


def bounds_of_children(sign, left, right, bounds):
    """Bounds (lower, upper) of the left and the right child of a split, whose values are given.

    Each has those of the node, but for a `middle` that keeps their values apart if ``sign`` is 1
    (they rise) or -1 (they fall).
    """
    between = middle(left, right)
    lower, upper = bounds
    of_left = select(sign < 0, between, lower), select(sign > 0, between, upper)
    of_right = select(sign > 0, between, lower), select(sign < 0, between, upper)
    return of_left, of_right


def gain_of(criterion, score, h):
    """Gain of a split from its score: that of VARIANCE is still times the node's hessian."""
    return score / h if criterion == VARIANCE else score


def gini(share):
    """Gini impurity of class shares (m, V)."""
    return 1.0 - in_order(np.square(share))


def entropy(share):
    """Entropy of class shares (m, V), in bits."""
    return in_order(-share * log2(np.where(share > 0.0, share, 1.0)))


def misclassification_rate(share):
    """Share of what is not of the largest class, of class shares (m, V)."""
    return 1.0 - share.max(axis=1)


@dataclass(frozen=True)
class Criterion:
    """What there is to know of a criterion: one row of `CRITERIA`.

    Attributes
    ----------
    number : int
        Backends compile the functions by it; ``kernels/common`` has the same.
    add, score : callable or None
        ``add(sums, gl, g, hl, h)`` adds one channel to the sums of left, right and node, which
        start as zeros; ``score(sums, hl, h)`` is -1 where a split is not valid. None where splits
        are not scored channel by channel.
    impurity : callable
        Of nodes, from class shares (m, V).
    class_names, value_names : tuple of str
        What users call it in a classification, and in a regression.
    note : str
        For users, behind the names.
    both_classes : bool
        Of two classes, whose second is the one channel, the first is added too, before it.
    class_unit : float
        From gains to the fall of weight times impurity of classes.
    power : int
        Of the units of targets, that gains are in.
    counts : bool
        Targets are at least 0 and are not centred; the impurity is their half Poisson deviance.
    by_median : bool
        Trees split by signs about medians (`MedianTarget`).
    compiled_apart : bool
        Kernels know it where they are compiled for it alone; others would have registers for it.
    """

    number: int
    add: Callable[..., Any] | None = None
    score: Callable[..., Any] | None = None
    impurity: Callable[[np.ndarray], np.ndarray] = gini
    class_names: tuple[str, ...] = ()
    value_names: tuple[str, ...] = ()
    note: str = ""
    both_classes: bool = True
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
    ),
    Criterion(
        ENTROPY,
        add_entropy,
        entropy_score,
        entropy,
        class_names=("entropy", "log_loss"),
        class_unit=1.4426950408889634,  # 1 / ln 2: nats to bits
    ),
    Criterion(
        MISCLASSIFICATION,
        add_misclassification,
        misclassification_score,
        misclassification_rate,
        class_names=("misclassification",),
    ),
    Criterion(
        TWOING,
        add_twoing,
        twoing_score,
        class_names=("twoing",),
        note="'gini' of the two sets of classes that a split parts best",
        class_unit=0.5,  # the fall of the gini of two sets, each class with its double
        compiled_apart=True,
    ),
    Criterion(NEWTON, both_classes=False, compiled_apart=True),
    Criterion(
        ABSOLUTE,
        value_names=("absolute_error",),
        note="leaves are medians, and splits part the targets above the median of a node from "
        "those below",
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
CRITERIA = {row.number: row for row in _ROWS}  # in the order in which users are told of them
