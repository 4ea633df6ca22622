"""Gauss-Legendre quadrature on [0, 1], and the weights of Shapley values.

All numbers are rounded once from exact or long ones, so they have the same bits on every machine.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from math import factorial

import numpy as np
from numpy.polynomial.legendre import leggauss

_DIGITS = 60
_NEWTON_STEPS = 3  # each doubles the number of correct digits, of which the first guess has 14


@cache
def gauss_legendre(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes, ascending, and weights that integrate polynomials of degree 2 n - 1 exactly.

    Returns
    -------
    nodes, weights : float64 (n,)
        ``sum(weights * f(nodes))`` is the integral of f over [0, 1].
    """
    with localcontext() as context:
        context.prec = _DIGITS
        found = [_node_and_weight(n, Decimal(guess)) for guess in leggauss(n)[0].tolist()]
    nodes, weights = np.array(found, dtype=np.float64).T.copy()
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights


def _node_and_weight(n: int, x: Decimal) -> tuple[float, float]:
    """The zero of the Legendre polynomial of degree n near x, and its weight, for [0, 1]."""
    for _ in range(_NEWTON_STEPS):
        value, slope = _legendre(n, x)
        x -= value / slope
    _, slope = _legendre(n, x)
    return float((1 + x) / 2), float(1 / ((1 - x * x) * slope * slope))


def _legendre(n: int, x: Decimal) -> tuple[Decimal, Decimal]:
    """The Legendre polynomial of degree n >= 1 at x, and its slope, by the three-term recursion."""
    before, value = Decimal(1), x
    for degree in range(2, n + 1):
        before, value = value, ((2 * degree - 1) * x * value - (degree - 1) * before) / degree
    return value, n * (x * value - before) / (x * x - 1)


@cache
def shapley_weights(n: int) -> np.ndarray:
    """Weights of a leaf that a row reaches with ``a`` of its values and ``b`` of another row's.

    Returns
    -------
    float64 (n + 1, n + 1)
        (a - 1)! b! / (a + b)! for a >= 1 and a + b <= n, else 0: the share of each of the ``a``
        features in the leaf's value. That of the ``b`` features is minus the element [b, a].
    """
    found = np.zeros((n + 1, n + 1))
    for a in range(1, n + 1):
        for b in range(n + 1 - a):
            found[a, b] = float(Fraction(factorial(a - 1) * factorial(b), factorial(a + b)))
    found.flags.writeable = False
    return found
