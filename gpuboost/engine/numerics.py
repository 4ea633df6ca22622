"""Floating point that decides: the same IEEE operations on every backend.

NumPy's and Numba's ``log`` differ in the last bit, so what decides a split uses ours. Written
branch-free for arrays (NumPy) and scalars (Numba); ``kernels/common.cuh`` holds a copy.
"""

import numpy as np

_LN2_HIGH = 6.93147180369123816490e-01  # the first 33 bits of ln 2: e * _LN2_HIGH is exact
_LN2_LOW = 1.90821492927058770002e-10
_SQRT2_MANTISSA = np.int64(0x6A09E667F3BCD)
_MANTISSA = np.int64(0xFFFFFFFFFFFFF)
_EXPONENT_OF_ONE = np.int64(0x3FF0000000000000)
_BIAS, _S52 = np.int64(1023), np.int64(52)
_ONE, _ZERO = np.int64(1), np.int64(0)


def select(condition, yes, no):
    """``yes`` where the condition holds, else ``no``; for scalars where this is compiled."""
    return np.where(condition, yes, no)


def bits_of(x):
    """The bit pattern of float64 values as int64."""
    return x.view(np.int64)


def float_of(bits):
    """The float64 values of int64 bit patterns."""
    return bits.view(np.float64)


def log(x):
    """Natural logarithm of normal positive float64 values, to about one unit in the last place.

    x = 2**e * m with m in [sqrt(1/2), sqrt(2)); with s = (m - 1) / (m + 1),
    log m = 2 artanh(s), a polynomial in s**2 (minimax coefficients of FreeBSD's libm).
    """
    bits = bits_of(x)
    mantissa = bits & _MANTISSA
    above = select(mantissa >= _SQRT2_MANTISSA, _ONE, _ZERO)
    exponent = np.float64((bits >> _S52) - _BIAS + above)
    m = float_of(mantissa | (_EXPONENT_OF_ONE - (above << _S52)))
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    p = 1.818357216161805012e-01 + z * (1.531383769920937332e-01 + z * 1.479819860511658591e-01)
    p = 2.857142874366239149e-01 + z * (2.222219843214978396e-01 + z * p)
    p = z * (6.666666666666735130e-01 + z * (3.999999999940941908e-01 + z * p))
    half = 0.5 * f * f
    return exponent * _LN2_HIGH - ((half - (s * (half + p) + exponent * _LN2_LOW)) - f)


def midpoint(a, b):
    """Values v with a <= v < b, midway where float64 has one; a < b. float64 arrays or scalars.

    Halving first would round denormals, adding first overflows above 9e307. Never -0.0.
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    with np.errstate(over="ignore"):
        total = a + b
    middle = np.where(np.isfinite(total), total * 0.5, a * 0.5 + b * 0.5)
    return np.where(middle < b, middle, a) + 0.0
