"""Scores of a split: small functions of integer sums, each one expression in one order.

A node with sums ``g[k]`` per channel k and hessian (weight) ``h`` is split into a left part
``gl[k]``, ``hl`` and the rest. All arguments are float64 holding integers; a gain is valid only
where ``hl > 0`` and ``h - hl > 0``.

SQUARES (gini, squared_error) is the centred form of the rise of sum_k g_k**2 / h:

    sum_k (gl_k h - g_k hl)**2 / (hl hr) / h

where equal child means give exactly zero, because equal products round equally. The division by
h is left to `rise`: it is the same for all candidates of a node. ENTROPY is the rise of
sum_k f(g_k) - f(h), f(x) = x log x. MISCLASSIFICATION is the rise of max_k g_k.

For two classes there is one channel, the second class (``g``, while the first is ``h - g``); by
symmetry SQUARES needs no more, the others look at both, the first class first.

NumPy passes arrays, the Numba backend loads this module compiled, ``kernels/common.cuh`` holds a
copy.
"""

import numpy as np

from gpuboost.engine.numerics import log, select

SQUARES, ENTROPY, MISCLASSIFICATION = 0, 1, 2


def squares_term(gl, g, hl, h):
    """One channel's share of the SQUARES gain, to be added up over channels in order."""
    x = gl * h - g * hl
    return x * x


def squares_gain(terms, hl, hr):
    """SQUARES gain of a split (times h) from the sum of its channels' terms."""
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
