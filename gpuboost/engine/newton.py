"""The NEWTON criterion and values of nodes: boosting with regularisation and constraints.

Chen and Guestrin, KDD 2016, eq. 5 to 7, with l1 and bounds as in XGBoost. A part of a node with
sums g, h has the value v that maximises

    sum_k 2 g_k v_k - (h + l2) v_k**2 - 2 l1 abs(v_k),    lower <= v_k <= upper,

and the gain is the increase of this maximum. With l1 = l2 = 0 and no bounds it equals the gain of
VARIANCE, except for rounding. ``limits`` is ((l1, l2), (lower, upper)); see `engine.criteria` for
the other arguments.
"""

import numpy as np

from gpuboost.engine.numerics import select

# Relative tolerance of the bound on scores. The errors of the terms are a few 2**-53 of the bound,
# and a candidate is skipped only if its bound is below the best score plus the node's term.
BOUND_TOLERANCE = 1e-12
MAX_BOUNDED_L2 = 2.0**400  # products of two larger denominators would overflow


def newton_value(g, h, l1, l2):
    """The best value of a part without bounds: the gradient, shrunk by l1, divided by h + l2."""
    size = np.maximum(np.abs(g) - l1, 0.0)
    return select(g < 0.0, -size, size) / (h + l2)


def bounded(value, lower, upper):
    """A value clipped to the bounds of a node."""
    return np.minimum(np.maximum(value, lower), upper)


def values_in_bounds(g, h, regular, bounds):
    """The best values of parts within the bounds of their nodes.

    ``regular`` is (l1, l2), ``bounds`` is (lower, upper).
    """
    l1, l2 = regular
    lower, upper = bounds
    return bounded(newton_value(g, h, l1, l2), lower, upper)


def newton_term(g, h, value, l1, l2):
    """NEWTON term of a part with the given value, to be summed over channels in order."""
    return value * (2.0 * g - (h + l2) * value) - 2.0 * l1 * np.abs(value)


def newton_gain(left, right, node):
    """NEWTON gain from the sums of terms of left, right and node."""
    return (left + right) - node


def newton_part(g, h, limits):
    """NEWTON term of a part that has the best value within the bounds."""
    (l1, l2), _ = limits
    return newton_term(g, h, values_in_bounds(g, h, *limits), l1, l2)


def add_newton(sums, gl, g, hl, h, limits):
    """Sums of the terms of left, right and node after adding one channel."""
    left, right, node = sums
    left = left + newton_part(gl, hl, limits)
    right = right + newton_part(g - gl, h - hl, limits)
    return left, right, node + newton_part(g, h, limits)


def newton_score(sums, hl, h):
    """Score of a split: the NEWTON gain, -1 if it is negative."""
    left, right, node = sums
    gain = newton_gain(left, right, node)
    return select(gain >= 0.0, gain, -1.0)


def newton_threshold(best, g, h, limits):
    """The threshold of `newton_reaches` for the score ``best``."""
    node = newton_part(g, h, limits)
    needed = best + node - BOUND_TOLERANCE * (best + np.abs(node))
    return select(limits[0][1] < MAX_BOUNDED_L2, needed, -np.inf)


def newton_reaches(gl, g, hl, h, limits, threshold):
    """Whether g^2 / (h + l2), summed over both sides, reaches the threshold.

    This bounds the sides' terms, which l1 and the limits of values can only lower. The threshold
    is multiplied by the denominators instead, since a division takes longer.
    """
    (_, l2), _ = limits
    gr, left, right = g - gl, hl + l2, (h - hl) + l2
    return gl * gl * right + gr * gr * left >= threshold * (left * right)


def is_monotonic(sign, gl, g, hl, h, limits):
    """Whether values do not fall (``sign`` 1) or rise (-1) from left to right; true for sign 0."""
    left = values_in_bounds(gl, hl, *limits)
    right = values_in_bounds(g - gl, h - hl, *limits)
    return sign * left <= sign * right


def middle(left, right):
    """The bound that separates the values of the two children of a monotonic split."""
    return (left + right) * 0.5


def bounds_of_children(sign, left, right, bounds):
    """Bounds (lower, upper) of the left and right child of a split, from the children's values.

    The children have the node's bounds, except that `middle` separates them if ``sign`` is 1
    (increasing values) or -1 (decreasing values).
    """
    between = middle(left, right)
    lower, upper = bounds
    of_left = select(sign < 0, between, lower), select(sign > 0, between, upper)
    of_right = select(sign > 0, between, lower), select(sign < 0, between, upper)
    return of_left, of_right
