"""Floating-point functions with the same IEEE operations on every backend.

NumPy's and Numba's ``log`` and ``exp`` differ in the last bit, so splits and gradients are computed
with these functions. Those that Numba compiles are branch-free and take arrays (NumPy) or scalars
(Numba); ``kernels/common/common.cuh`` has copies of those that kernels need.
"""

import numpy as np

_LN2_HIGH = 6.93147180369123816490e-01  # the first 32 bits of ln 2: e * _LN2_HIGH is exact
_LN2_LOW = 1.90821492927058770002e-10
_SQRT2_MANTISSA = np.int64(0x6A09E667F3BCD)
_MANTISSA = np.int64(0xFFFFFFFFFFFFF)
_EXPONENT_OF_ONE = np.int64(0x3FF0000000000000)
_BIAS, _S52 = np.int64(1023), np.int64(52)
_INT_ONE, _INT_ZERO = np.int64(1), np.int64(0)
_INVERSE_LN2 = 1.44269504088896338700e00
_NEGLIGIBLE = 1e-300  # for this r, r log r is negligible
_TO_WHOLE = 6755399441055744.0  # 1.5 * 2**52: after adding it, the low bits hold a rounded integer
_EXP_SMALLEST, _EXP_LARGEST = -708.0, 709.782712893384
_SCALE = np.int64(1022 << 52)  # the exponent field of 1/2


def select(condition, yes, no):
    """``yes`` where the condition holds, else ``no``; the compiled function takes scalars."""
    return np.where(condition, yes, no)


def bits_of(x):
    """The bit pattern of float64 values as int64."""
    return x.view(np.int64)


def float_of(bits):
    """The float64 values of int64 bit patterns."""
    return bits.view(np.float64)


def log_series(f):
    """log(1 + f) - f + f**2 / 2 for f from sqrt(1/2) - 1 to sqrt(2) - 1, see `log`."""
    s = f / (2.0 + f)
    z = s * s
    p = 1.818357216161805012e-01 + z * (1.531383769920937332e-01 + z * 1.479819860511658591e-01)
    p = 2.857142874366239149e-01 + z * (2.222219843214978396e-01 + z * p)
    p = z * (6.666666666666735130e-01 + z * (3.999999999940941908e-01 + z * p))
    return s * (0.5 * f * f + p)


def log(x):
    """Natural logarithm of normal positive float64 values, to about one unit in the last place.

    x = 2**e * m with m in [sqrt(1/2), sqrt(2)); with s = (m - 1) / (m + 1),
    log m = 2 artanh(s), a polynomial in s**2 (minimax coefficients of FreeBSD's libm).
    """
    bits = bits_of(x)
    mantissa = bits & _MANTISSA
    above = select(mantissa >= _SQRT2_MANTISSA, _INT_ONE, _INT_ZERO)
    exponent = np.float64((bits >> _S52) - _BIAS + above)
    m = float_of(mantissa | (_EXPONENT_OF_ONE - (above << _S52)))
    f = m - 1.0
    half = 0.5 * f * f
    return exponent * _LN2_HIGH - ((half - (log_series(f) + exponent * _LN2_LOW)) - f)


def log2(x):
    """Binary logarithm of an array of normal positive float64 values, exact for powers of two.

    The error is about one unit in the last place, except for x just above 1: there, terms cancel
    and the absolute error is about one unit in the last place of 1.
    """
    mantissa, exponent = np.frexp(x)  # in [1/2, 1)
    return exponent + log(mantissa) * _INVERSE_LN2


def half_deviance(x):
    """(1 + x) log(1 + x) - x for x >= -1: half the Poisson deviance of 1 + x from 1.

    The error is about twenty units in the last place; the result is never negative, and 0 only for
    x = 0. Near 0 the terms cancel, so the result is x**2 - c - x c instead. Here c = x - log(1 + x)
    is about x**2 / 2 and computed without cancellation.
    """
    ratio = np.maximum(1.0 + x, _NEGLIGIBLE)
    c = 0.5 * x * x - log_series(x)
    near = (x * x - c) - x * c
    return select(np.abs(x) < 0.25, near, ratio * log(ratio) - x)


def exp(x):
    """Exponential of float64 values, to about one unit in the last place.

    x = k ln 2 + r with abs(r) <= ln(2) / 2; exp r = 1 + r + r**2 q(r), q the polynomial of degree
    10 that interpolates (exp r - 1 - r) / r**2 in the Chebyshev points. Below -708 the result is
    exactly 0 (denormal results and the smallest normal ones are flushed), above 709.782712893384 it
    is infinite. NaN gives NaN.
    """
    inside = select(x < _EXP_SMALLEST, _EXP_SMALLEST, select(x > _EXP_LARGEST, _EXP_LARGEST, x))
    shifted = inside * _INVERSE_LN2 + _TO_WHOLE
    k = shifted - _TO_WHOLE
    high, low = inside - k * _LN2_HIGH, k * _LN2_LOW
    r = high - low
    q = 2.5105259538448494e-08 + r * 2.0914717341716378e-09
    q = 2.7557255297969643e-06 + r * (2.755727357010214e-07 + r * q)
    q = 1.984126987490126e-04 + r * (2.4801587325605324e-05 + r * q)
    q = 8.333333333326112e-03 + r * (1.388888888888373e-03 + r * q)
    q = 0.5 + r * (1.666666666666667e-01 + r * (4.166666666666667e-02 + r * q))
    p = 1.0 + (high + (r * r * q - low))
    # The result is 2**(k - 1), made from its exponent field, times 2 p: 2**k could overflow.
    scale = float_of((bits_of(shifted) << _S52) + _SCALE)
    result = select(x < _EXP_SMALLEST, 0.0, (p + p) * scale)
    result = select(x > _EXP_LARGEST, np.inf, result)
    return select(x == x, result, np.nan)


def midway(total, a, b):
    """Values v with a <= v < b, midway if possible, for a < b; ``total`` is a + b, maybe infinite.

    Halving first would round denormals, and adding first overflows above 9e307. The result is never
    -0.0.
    """
    middle = select(np.abs(total) < np.inf, total * 0.5, a * 0.5 + b * 0.5)
    return select(middle < b, middle, a) + 0.0


def cell_of(x, origin, scale, first, last):
    """A number from ``first`` to ``last``, whose integer part is the cell of x.

    Cells have the width 1 / ``scale``, and cell 0 begins at ``origin``. Larger values never have
    smaller cells; NaN has the first. All arguments have the same type.
    """
    at = (x - origin) * scale
    at = select(at > first, at, first)
    return select(at < last, at, last)


def midpoint(a, b):
    """`midway` of float64 arrays or scalars with a < b."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    with np.errstate(over="ignore"):
        total = a + b
    return midway(total, a, b)


def sum_in_order(columns):
    """Sum over the columns of an array (m, k), from first to last, on its device: (m,)."""
    total = 0.0
    for k in range(columns.shape[1]):
        total = total + columns[:, k]
    return total
