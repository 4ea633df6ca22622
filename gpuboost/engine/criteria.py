"""Scores of a split: small functions of integer sums, each one expression in one order.

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

For two classes there is one channel, the second class (``g``, while the first is ``h - g``); by
symmetry VARIANCE needs no more, the others look at both, the first class first.

NumPy passes arrays, the Numba backend loads this module compiled, ``kernels/common/common.cuh`` has
a copy.
"""

import numpy as np

from gpuboost.engine.numerics import half_deviance, log, select

VARIANCE, ENTROPY, MISCLASSIFICATION, NEWTON, POISSON = 0, 1, 2, 3, 4
ABSOLUTE = 5  # what is asked of `engine.growth.medians`; trees are grown by VARIANCE
_NOT_ALLOWED = -np.inf


def variance_term(gl, g, hl, h):
    """One channel's share of the VARIANCE gain, to be added up over channels in order."""
    x = gl * h - g * hl
    return x * x


def variance_gain(terms, hl, hr):
    """VARIANCE gain of a split (times h) from the sum of its channels' terms."""
    return terms / (hl * hr)


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


def misclassification_gain(left, right, node):
    """MISCLASSIFICATION gain from the largest channel of the left, the right and the node."""
    return (left + right) - node


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


def newton_value(g, h, l1, l2):
    """The best value of a part without bounds: the gradient, shrunk by l1, over h + l2."""
    size = np.maximum(np.abs(g) - l1, 0.0)
    return select(g < 0.0, -size, size) / (h + l2)


def bounded(value, lower, upper):
    """The nearest value within the bounds of a node."""
    return np.minimum(np.maximum(value, lower), upper)


def newton_term(g, h, value, l1, l2):
    """What a part with this value adds to NEWTON; to be added up over channels in order."""
    return value * (2.0 * g - (h + l2) * value) - 2.0 * l1 * np.abs(value)


def newton_gain(left, right, node):
    """NEWTON gain from the sums of the terms of the left, the right and the node."""
    return (left + right) - node


def middle(left, right):
    """The bound between the values of two children of a monotonic split."""
    return (left + right) * 0.5
