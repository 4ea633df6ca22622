"""Exact weighted quantiles of values in groups of rows, such as the residuals in each leaf.

Weights are integers, so cumulative weights are exact and do not depend on the order of rows. A
quantile minimises the pinball loss. Let C(v) be the weight of the values up to v, W the weight of
the group, and ``cut = quantile_level * W`` (float64, rounded once)::

    lower = smallest v with C(v) >= cut         upper = smallest v with C(v) > cut

Every value between ``lower`` and ``upper`` minimises the loss. The quantile is their midpoint: the
usual median for an even number of equal weights. (In leaves, scikit-learn's GradientBoosting takes
the lower value, and so does its HistGradientBoosting if rows have weights; without weights, the
latter interpolates by position.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpuboost.engine.array_modules import array_module
from gpuboost.engine.fixed_point import (
    SUM_BITS,
    planes_to_float,
    scale_by_power,
    sum_bits,
    two_planes,
)

CUMULATIVE_WEIGHT_BITS = 46  # bits of cumulative weights, which are therefore exact in float64


@dataclass(frozen=True)
class Groups:
    """Rows sorted by group.

    Attributes
    ----------
    rows : int64 (m,)
        Rows of the first group, then of the second, and so on; in any order within a group.
    starts : int64 (n_groups + 1,)
        Start of each group in ``rows``, followed by m.
    """

    rows: np.ndarray
    starts: np.ndarray

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Sum over each group of integer ``values`` (m, ...), given in the order of ``rows``."""
        until = np.zeros((len(values) + 1, *values.shape[1:]), dtype=values.dtype)
        np.cumsum(values, axis=0, out=until[1:])
        return until[self.starts[1:]] - until[self.starts[:-1]]

    def spread(self, values: np.ndarray) -> np.ndarray:
        """The value of each group, repeated for each of its rows."""
        return np.repeat(values, np.diff(self.starts), axis=0)


class GroupedRows(NamedTuple):
    """The differences of two columns, in groups of rows.

    Attributes
    ----------
    group : int32 (n,)
        Group of each row, negative for rows in no group.
    n_groups : int
    values, others : float64 (n,)
        The differences are ``values - others``.
    """

    group: np.ndarray
    n_groups: int
    values: np.ndarray
    others: np.ndarray


def all_rows(values: np.ndarray) -> GroupedRows:
    """Values as the differences of a single group."""
    return GroupedRows(np.zeros(len(values), np.int32), 1, values, np.zeros(len(values)))


def groups_of(leaf_of_row: np.ndarray, n_groups: int) -> Groups:
    """Groups from the group number of each row, which is negative for rows in no group."""
    if n_groups == 1:  # rows need not be sorted
        rows = np.flatnonzero(leaf_of_row >= 0)
        return Groups(rows, np.array([0, len(rows)]))
    group = np.maximum(leaf_of_row, -1) + 1
    starts = np.cumsum(np.bincount(group, minlength=n_groups + 1))
    return Groups(_grouped(group)[starts[0] :], starts - starts[0])


def _by_group(rows: GroupedRows) -> tuple[Groups, np.ndarray]:
    """`groups_of` rows, and their differences in the order of ``Groups.rows``."""
    groups = groups_of(rows.group, rows.n_groups)
    return groups, rows.values[groups.rows] - rows.others[groups.rows]


def _grouped(group: np.ndarray) -> np.ndarray:
    """Positions sorted stably by their group."""
    keys = group.astype(np.uint16) if group.max(initial=0) < 1 << 16 else group
    return np.argsort(keys, kind="stable")  # a radix sort for 16 bits


def integer_weights(weights: np.ndarray | None, n: int) -> np.ndarray:
    """Weights as integer multiples of a unit, on their device: int64 (n,).

    If all positive weights are equal, or ``weights`` is None, they become ones. Otherwise, the unit
    is a power of two that depends only on the largest weight and the number of rows. No positive
    weight rounds to 0.
    """
    if weights is None:
        return np.ones(n, dtype=np.int64)
    xp, largest = array_module(weights), float(weights.max())
    if ((weights == 0.0) | (weights == largest)).all():
        return (weights > 0.0).astype(np.int64)
    exponent = CUMULATIVE_WEIGHT_BITS - int(np.frexp(largest)[1]) - sum_bits(n)
    scaled = xp.rint(scale_by_power(weights, exponent)).astype(np.int64)
    return xp.where(weights > 0.0, xp.maximum(scaled, 1), 0)


def grouped_quantiles(rows: GroupedRows, weights: np.ndarray, quantile_level: float) -> np.ndarray:
    """`weighted_quantiles` of the differences; ``weights`` (n,) has an entry for each row."""
    groups, differences = _by_group(rows)
    return weighted_quantiles(differences, weights, groups, quantile_level)


def grouped_clipped_means(
    rows: GroupedRows, weights: np.ndarray, centres: np.ndarray, limit: float
) -> np.ndarray:
    """The result of `mean_of_clipped`; ``weights`` (n,) has an entry for each row."""
    groups, differences = _by_group(rows)
    return mean_of_clipped(differences, weights, groups, centres, limit)


def weighted_quantiles(
    values: np.ndarray, weights: np.ndarray, groups: Groups, quantile_level: float
) -> np.ndarray:
    """Quantile of the values of each group, 0 for a group of weight 0.

    Parameters
    ----------
    values : float64 (m,)
        In the order of ``groups.rows``.
    weights : int64 (n,)
        From `integer_weights`, in the order of the rows.
    quantile_level : float
        Strictly between 0 and 1.

    Returns
    -------
    float64 (n_groups,)
    """
    lower, upper, totals = quantile_bounds(values, weights, groups, quantile_level)
    return np.where(totals > 0, between(lower, upper), 0.0) + 0.0


def between(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """The quantile from its lower and upper values."""
    return np.where(lower == upper, lower, 0.5 * lower + 0.5 * upper)


def quantile_bounds(
    values: np.ndarray, weights: np.ndarray, groups: Groups, quantile_level: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lower and upper value of the quantile of each group, and the weight of the group.

    ``values`` (m,) can have any numeric type. For groups of weight 0, the lower and the upper value
    are arbitrary.
    """
    n, n_groups = len(values), len(groups.starts) - 1
    if n_groups == 1 and (weights == 1).all():  # no sort is needed (benchmarks/NOTES.md)
        rank = quantile_level * float(n)
        ranks = np.minimum([math.ceil(rank) - 1, math.floor(rank)], n - 1)
        found = np.partition(values, ranks)[ranks]
        return found[:1], found[1:], np.array([n])
    ascending = np.argsort(values)
    order = ascending[_grouped(groups.spread(np.arange(n_groups))[ascending])]
    ordered, first, last = values[order], groups.starts[:-1], groups.starts[1:] - 1
    until = np.append(0, np.cumsum(weights[groups.rows][order]))
    before, totals = until[first], until[groups.starts[1:]] - until[first]
    cut = groups.spread(quantile_level * totals.astype(np.float64))
    inside = (until[1:] - groups.spread(before)).astype(np.float64)
    lower = ordered[np.minimum(first + groups.sum((inside < cut).astype(np.int64)), last)]
    upper = ordered[np.minimum(first + groups.sum((inside <= cut).astype(np.int64)), last)]
    return lower, upper, totals


def mean_of_clipped(
    values: np.ndarray, weights: np.ndarray, groups: Groups, centres: np.ndarray, limit: float
) -> np.ndarray:
    """Weighted mean, in each group, of ``values - centre`` clipped to [-limit, limit].

    Parameters
    ----------
    values, weights
        As in `weighted_quantiles`.
    centres : float64 (n_groups,)
        Centre of each group.
    limit : float
        Bound on the absolute difference from the centre.

    Returns
    -------
    float64 (n_groups,)
        0 for a group of weight 0.
    """
    of_rows = weights[groups.rows]
    left = np.clip(values - groups.spread(centres), -limit, limit)
    terms = left * of_rows.astype(np.float64)
    planes, exponents = two_planes(terms[:, None], SUM_BITS - sum_bits(len(terms)))
    sums = planes_to_float(groups.sum(planes), exponents)[:, 0]
    return sums / np.maximum(groups.sum(of_rows), 1).astype(np.float64)
