"""Packed words: the integers of a row, or the sums of many rows, in one int64.

    | gradient (signed)          | hessian        | count      |
      from bit gradient_shift      from count_bits  from 0

Adding words adds all fields at once, exactly, as long as no field overflows. `choose_packing` and
`choose_gradient_packing` make the fields wide enough for any ``block`` rows. In nodes whose sums
might overflow a word (`fits_word`), at most this many rows are summed in words at a time, and each
field of their sums is added to an integer of its own (see `splits/histograms.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.compiler import inlined

WORD_BITS = 63  # bits for the fields; the sign bit belongs to the gradient
MAX_PACKED_ROWS = 2**31  # more rows than any tree has


class Packing(NamedTuple):
    """The positions and sizes of the fields of a word.

    Attributes
    ----------
    gradient_shift, count_bits : int
        Lowest bit of the gradient and of the hessian.
    hessian_mask, count_mask : int
        Largest value of each field; ``count_mask`` is 0 without counts.
    block : int
        Number of rows whose sum never overflows, whatever their gradients and weights.
    max_rows : int
        If a node has at most this many rows and its hessian fits, its gradient and its count fit,
        too.
    """

    gradient_shift: int
    count_bits: int
    hessian_mask: int
    count_mask: int
    block: int
    max_rows: int


def choose_packing(largest_value: int, largest_weight: int, with_counts: bool) -> Packing:
    """The packing with the largest ``block``, for gradients that are values times weights.

    Hessians below 2**h and counts below 2**c leave the other bits to the gradient, whose magnitude
    is at most ``largest_value`` (1 for classes) times the hessian. A row fits if the number of bits
    of the largest value, plus twice the number of bits of the largest weight, is at most 63, or 62
    with counts.

    Raises
    ------
    ValueError
        Not even one row fits.
    """
    weight = max(largest_weight, 1)
    best = (0, 0, 0)
    for hessian_bits in range(weight.bit_length(), WORD_BITS // 2 + 1):
        hessian = (1 << hessian_bits) - 1
        capacity = ((1 << WORD_BITS) - 1) // (max(largest_value, 1) * hessian + 1)
        count_bits = min(capacity.bit_length() - 1 - hessian_bits, hessian_bits)
        if count_bits < with_counts:
            break
        block = hessian // weight
        if with_counts:
            block = min(block, (1 << count_bits) - 1)
        best = max(best, (block, hessian_bits, count_bits if with_counts else 0))
    block, hessian_bits, count_bits = best
    if block == 0:
        raise ValueError(
            f"values up to {largest_value} and weights up to {largest_weight} do not fit a word "
            f"of {WORD_BITS} bits; value bits + 2 * weight bits must be at most 63, 62 with counts"
        )
    return Packing(
        gradient_shift=hessian_bits + count_bits,
        count_bits=count_bits,
        hessian_mask=(1 << hessian_bits) - 1,
        count_mask=(1 << count_bits) - 1,
        block=min(block, MAX_PACKED_ROWS),
        max_rows=(1 << count_bits) - 1 if with_counts else MAX_PACKED_ROWS,
    )


def choose_gradient_packing(
    largest_gradient: int, largest_weight: int, with_counts: bool
) -> Packing:
    """The packing for gradients whose only bound is ``largest_gradient`` per row.

    The gradient and hessian fields can hold n times the largest gradient and weight, where n =
    2**b - 1 for the largest b that fits. The gradient field has all remaining bits, so without
    counts, a node of small hessian can have more than n rows.

    Raises
    ------
    ValueError
        Not even one row fits.
    """
    gradient, weight = max(largest_gradient, 1), max(largest_weight, 1)
    for bits in range(WORD_BITS // 2, 0, -1):
        block = (1 << bits) - 1
        hessian_bits, count_bits = (block * weight).bit_length(), bits if with_counts else 0
        capacity = (1 << max(WORD_BITS - hessian_bits - count_bits, 0)) - 1
        if block * gradient <= capacity:
            break
    else:
        raise ValueError(
            f"gradients up to {largest_gradient} and weights up to {largest_weight} do not fit a "
            f"word of {WORD_BITS} bits; the bits of both must add up to at most 63, 62 with counts"
        )
    max_rows = capacity // gradient
    return Packing(
        gradient_shift=hessian_bits + count_bits,
        count_bits=count_bits,
        hessian_mask=(1 << hessian_bits) - 1,
        count_mask=(1 << count_bits) - 1,
        block=block,
        max_rows=min(max_rows, block if with_counts else MAX_PACKED_ROWS),
    )


@inlined
def nearest_integer(value, first, second):
    """A value times two powers of two, rounded to the nearest integer."""
    return np.int64(np.rint(value * first * second))


@inlined
def pack(gradient, hessian, packing):
    """The word of one row, with a count of 1 if rows are counted."""
    word = (gradient << packing.gradient_shift) + (hessian << packing.count_bits)
    return word + (np.int64(1) & packing.count_mask)


@inlined
def gradient_of(word, packing):
    """Gradient field; the shift keeps the sign, and lower fields are never negative."""
    return word >> packing.gradient_shift


@inlined
def hessian_of(word, packing):
    """Hessian field."""
    return (word >> packing.count_bits) & packing.hessian_mask


@inlined
def count_of(word, packing):
    """Count field; 0 if rows are not counted."""
    return word & packing.count_mask


@inlined
def fits_word(hessian, count, packing):
    """Whether the sums of a node with this hessian and number of rows fit one word."""
    return (hessian <= packing.hessian_mask) & (count <= packing.max_rows)
