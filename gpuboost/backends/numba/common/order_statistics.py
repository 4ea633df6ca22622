"""Exact weighted quantiles of groups of rows: the compiled form of `engine.order_statistics`.

The values of a group are not sorted. Of a large group, only the values between two values of a
sample, which most likely enclose the quantile, are copied (Floyd and Rivest: Expected time bounds
for selection, 1975); if these do not enclose it, all are. Then three-way partitions around pivots
narrow the range of the quantile (Hoare's selection, with weights in place of counts). Threads take
the largest groups first.
"""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gpuboost.backends.numba.compiler import entry, helper, inlined
from gpuboost.backends.numba.threads.map import contiguous, row_chunks
from gpuboost.backends.numba.threads.pool import ThreadPool
from gpuboost.engine import order_statistics as reference
from gpuboost.engine.ensembles.compact import offsets
from gpuboost.engine.fixed_point import SUM_BITS, planes_to_float, sum_bits
from gpuboost.engine.losses.averages import plane_scales
from gpuboost.engine.order_statistics import Groups

TASKS_PER_THREAD = 4
MIN_GROUPED_ROWS = 1 << 14  # smallest number of rows that is worth a second thread
SAMPLE = 256  # rows of the sample that locates the quantile of a large group
# Smallest number of rows of a group that is sampled. Without sampling, boosting of 100k x 28 with
# absolute_error takes 6% longer.
MIN_SAMPLED = 8 * SAMPLE
GAPS = (132, 57, 23, 10, 4, 1)  # gaps of Shell's sort (Ciura, 2001)
_NO_WEIGHTS, _UNKNOWN = np.empty(0, np.int64), (None, None)
DEVIATIONS = 3.5  # standard deviations from the sample's quantile to each of the two values


@inlined
def _swap(values, weights, i, j):
    values[i], values[j] = values[j], values[i]
    weights[i], weights[j] = weights[j], weights[i]


@inlined
def _pivot(values, low, high):
    """Median of the first, middle and last values of [low, high)."""
    a, b, c = values[low], values[(low + high) // 2], values[high - 1]
    return max(min(a, b), min(max(a, b), c))


@inlined
def _part(values, weights, low, high, pivot):
    """Move values below the pivot to the front, and values above the pivot to the back.

    ::

        low      below      i    above
         | < pivot | = pivot |  ?  | > pivot |  high

    Returns ``below``, ``above``, the weight of the values below the pivot, and the weight of the
    values equal to it.
    """
    below, i, above = low, low, high
    lighter, same = np.int64(0), np.int64(0)
    while i < above:
        if values[i] < pivot:
            lighter += weights[i]
            _swap(values, weights, i, below)
            below += 1
            i += 1
        elif values[i] > pivot:
            above -= 1
            _swap(values, weights, i, above)
        else:
            same += weights[i]
            i += 1
    return below, above, lighter, same


@helper
def _smallest(values, weights, low, high):
    """Smallest value of positive weight in [low, high); NaN if there is none."""
    found = np.nan
    for i in range(low, high):
        if weights[i] > 0 and not found <= values[i]:
            found = values[i]
    return found


@helper
def _select(values, weights, cut, before):
    """The smallest value whose cumulative weight is at least ``cut``, and the next larger value.

    If the cumulative weight exceeds ``cut``, or no larger value has positive weight, the second
    value equals the first. Values of weight 0 are skipped. Values and weights are reordered. The
    first value is always in the remaining range [low, high). ``before`` is the weight of all values
    below this range (at first, of values that were not copied), and ``beyond`` is the smallest
    value of positive weight above it, NaN if there is none.
    """
    low, high, beyond = 0, values.size, np.nan
    while True:
        pivot = _pivot(values, low, high)
        below, above, lighter, same = _part(values, weights, low, high, pivot)
        reached = np.float64(before + lighter + same)
        if reached < cut:
            before += lighter + same
            low = above
            continue
        if np.float64(before + lighter) < cut:
            if reached > cut:
                return pivot, pivot
            minimum = _smallest(values, weights, above, high)
            minimum = beyond if np.isnan(minimum) else minimum
            return pivot, pivot if np.isnan(minimum) else minimum
        minimum = pivot if same > 0 else _smallest(values, weights, above, high)
        beyond = beyond if np.isnan(minimum) else minimum
        high = below


@inlined
def _sort(values, weights, n):
    """Sort the first ``n`` values together with their weights, in place (Shell's sort)."""
    for gap in GAPS:
        for i in range(gap, n):
            value, weight, at = values[i], weights[i], i
            while at >= gap and values[at - gap] > value:
                values[at], weights[at] = values[at - gap], weights[at - gap]
                at -= gap
            values[at], weights[at] = value, weight


@inlined
def _weight(weights, row):
    """Weight of a row; all weights are 1 if there are none."""
    return weights[row] if weights.size else np.int64(1)


@helper
def _bounds(values, weights, rows, quantile_level, own, own_weights):
    """Two values, possibly infinite, that most likely enclose the quantile of the rows.

    ``own`` and ``own_weights`` are buffers, whose first `SAMPLE` elements are overwritten.
    """
    step = rows.size // SAMPLE
    total, squares = 0.0, 0.0
    for i in range(SAMPLE):
        row = rows[i * step]
        own[i], own_weights[i] = values[row], _weight(weights, row)
        weight = np.float64(own_weights[i])
        total += weight
        squares += weight * weight
    _sort(own, own_weights, SAMPLE)
    spread = DEVIATIONS * np.sqrt(quantile_level * (1.0 - quantile_level) * squares)
    low, high = quantile_level * total - spread, quantile_level * total + spread
    lowest, highest, reached = -np.inf, np.inf, 0.0
    for i in range(SAMPLE):
        before, reached = reached, reached + np.float64(own_weights[i])
        if before < low <= reached:
            lowest = own[i]
        if before < high <= reached and high < total:
            highest = own[i]
    return lowest, highest


@inlined
def _copy_between(values, weights, rows, bounds, own, own_weights):
    """Copy values and weights of rows between two bounds; return their number and three weights.

    The weights are those of the rows below both bounds, of the rows between them (or at one of
    them), and of all rows.
    """
    n = 0
    below, between, total = np.int64(0), np.int64(0), np.int64(0)
    for j in range(rows.size):
        value, weight = values[rows[j]], _weight(weights, rows[j])
        is_between = (value >= bounds[0]) & (value <= bounds[1])
        own[n], own_weights[n] = value, weight
        n += 1 if is_between else 0
        total += weight
        below += weight if value < bounds[0] else 0
        between += weight if is_between else 0
    return n, below, between, total


@helper
def group_bounds(values, weights, rows, quantile_level, own, own_weights):
    """The two values whose midpoint is the quantile of one group; both 0 if its weight is 0.

    ``own`` (float64) and ``own_weights`` (int64) are buffers with at least the group's size.
    """
    if rows.size >= MIN_SAMPLED:
        bounds = _bounds(values, weights, rows, quantile_level, own, own_weights)
        n, below, between, total = _copy_between(values, weights, rows, bounds, own, own_weights)
        cut = quantile_level * np.float64(total)
        if np.float64(below) < cut and cut < np.float64(below + between):
            return _select(own[:n], own_weights[:n], cut, below)
    bounds = -np.inf, np.inf
    n, below, _, total = _copy_between(values, weights, rows, bounds, own, own_weights)
    if total == 0:
        return 0.0, 0.0
    return _select(own[:n], own_weights[:n], quantile_level * np.float64(total), below)


# ---- entries, which Python calls for some of the groups or for a chunk of rows -----------------


@entry
def quantiles(values, weights, rows, starts, chosen, quantile_level, out, own, own_weights):
    """Write the quantile of each ``chosen`` group to ``out`` (n_groups,); 0 if its weight is 0.

    ``own`` and ``own_weights`` are the buffers of `group_bounds`.
    """
    for g in chosen:
        of_group = rows[starts[g] : starts[g + 1]]
        lower, upper = group_bounds(values, weights, of_group, quantile_level, own, own_weights)
        out[g] = (lower if lower == upper else 0.5 * lower + 0.5 * upper) + 0.0


@inlined
def _clipped(value, centre, limit, weight):
    """The term of one row in the sums of `engine.order_statistics.mean_of_clipped`."""
    left = value - centre
    left = -limit if left < -limit else (limit if left > limit else left)
    return left * np.float64(weight)


@entry
def largest_clipped(values, weights, rows, starts, chosen, centres, limit):
    """Largest absolute value of a term of `_clipped` in the ``chosen`` groups."""
    largest = 0.0
    for g in chosen:
        for j in range(starts[g], starts[g + 1]):
            term = _clipped(values[rows[j]], centres[g], limit, _weight(weights, rows[j]))
            largest = max(largest, abs(term))
    return largest


@entry
def sums_of_clipped(values, weights, rows, starts, chosen, centres, limit, scales, sums):
    """Add both planes of the terms, and the weights, to ``sums`` for each ``chosen`` group."""
    for g in chosen:
        for j in range(starts[g], starts[g + 1]):
            weight = _weight(weights, rows[j])
            term = _clipped(values[rows[j]], centres[g], limit, weight)
            scaled = term * scales[0] * scales[1]
            high = np.rint(scaled)
            sums[g, 0] += np.int64(high)
            sums[g, 1] += np.int64(np.rint((scaled - high) * scales[2]))
            sums[g, 2] += weight


@entry
def count_rows(group_of_row, chunk, counts):
    """Count the rows of each group in a chunk of rows."""
    for i in range(chunk[0], chunk[1]):
        if group_of_row[i] >= 0:
            counts[group_of_row[i]] += 1


@entry
def place_rows(group_of_row, chunk, places, rows):
    """Write the rows of a chunk to ``rows``, at the next ``places`` of their groups."""
    for i in range(chunk[0], chunk[1]):
        g = group_of_row[i]
        if g >= 0:
            rows[places[g]] = i
            places[g] += 1


# ---- drivers -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CompiledOrder:
    """Functions of `engine.order_statistics`, compiled and run on a thread pool.

    Integer weights are computed by the original function and cached, so arrays of weights must not
    change during a fit.
    """

    pool: ThreadPool
    _known: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict, compare=False)

    def groups_of(self, leaf_of_row: np.ndarray, n_groups: int) -> Groups:
        """Group the rows by ``leaf_of_row``, which is negative for rows in no group."""
        group, n = contiguous(leaf_of_row, np.int32), len(leaf_of_row)
        cuts = row_chunks(n, max(MIN_GROUPED_ROWS, -(-n // max(1, self.pool.n_threads))))
        chunks = [(cut.start, cut.stop) for cut in cuts]
        counts = np.zeros((len(chunks), n_groups), np.int64)
        tasks = list(zip(chunks, counts, strict=True))
        self.pool.results(lambda task: count_rows(group, *task), tasks)
        starts = offsets(counts.sum(axis=0).tolist())
        counts[1:] = counts[:-1].cumsum(axis=0)
        counts[:1] = 0
        counts += starts[:-1]
        rows = np.empty(starts[-1], dtype=np.uint32)
        self.pool.results(lambda task: place_rows(group, *task, rows), tasks)
        return Groups(rows, starts)

    def integer_weights(self, weights: np.ndarray | None, n: int) -> np.ndarray:
        """Result of `engine.order_statistics.integer_weights`, cached: int64 (n,)."""
        key = n if weights is None else -id(weights)
        if key not in self._known:
            kept = np.zeros(0) if weights is None else weights  # kept alive so its id is not reused
            found = reference.integer_weights(weights, n)
            if weights is not None and (found == 1).all():
                found = self.integer_weights(None, n)
            self._known[key] = kept, found
        return self._known[key][1]

    def weighted_quantiles(
        self, values: np.ndarray, weights: np.ndarray, groups: Groups, quantile_level: float
    ) -> np.ndarray:
        """Quantile of the values of each group, 0 for a group of weight 0: float64 (n_groups,)."""
        given, out = self._given(values, weights, groups), np.empty(len(groups.starts) - 1)

        def write_quantiles(chosen: np.ndarray) -> None:
            largest = int(np.diff(groups.starts)[chosen].max())
            buffers = np.empty(largest), np.empty(largest, np.int64)
            quantiles(*given, chosen, float(quantile_level), out, *buffers)

        self._by_groups(write_quantiles, groups)
        return out

    def mean_of_clipped(
        self,
        values: np.ndarray,
        weights: np.ndarray,
        groups: Groups,
        centres: np.ndarray,
        limit: float,
    ) -> np.ndarray:
        """Weighted mean, in each group, of ``values - centre`` clipped to [-limit, limit].

        With NumPy instead, boosting of 100k x 28 with huber takes 10% longer.
        """
        given, centres = self._given(values, weights, groups), contiguous(centres, np.float64)
        largest = max(
            self._by_groups(lambda chosen: largest_clipped(*given, chosen, centres, limit), groups)
        )
        scales, exponents = plane_scales(np.array([largest]), SUM_BITS - sum_bits(len(groups.rows)))
        scales = scales[:, 0].copy()
        sums = np.zeros((len(groups.starts) - 1, 3), dtype=np.int64)
        self._by_groups(
            lambda chosen: sums_of_clipped(*given, chosen, centres, limit, scales, sums), groups
        )
        totals = planes_to_float(sums[:, :2], exponents[:, 0])
        return totals[:, 0] / np.maximum(sums[:, 2], 1).astype(np.float64)

    def _given(
        self, values: np.ndarray, weights: np.ndarray, groups: Groups
    ) -> tuple[np.ndarray, ...]:
        """Arrays in the layout that compiled code takes."""
        are_ones = weights is self._known.get(len(weights), _UNKNOWN)[1]
        return (
            contiguous(values, np.float64),
            _NO_WEIGHTS if are_ones else contiguous(weights, np.int64),
            contiguous(groups.rows, np.uint32),
            contiguous(groups.starts, np.int64),
        )

    def _by_groups(self, work: Callable[[np.ndarray], object], groups: Groups) -> list:
        """Call ``work`` on threads, each time with some of the groups, the largest first.

        Returns the results of all calls.
        """
        order = np.argsort(-np.diff(groups.starts), kind="stable")
        n_tasks = 1 if self.pool.n_threads <= 1 else self.pool.n_threads * TASKS_PER_THREAD
        parts = [np.ascontiguousarray(order[i::n_tasks]) for i in range(n_tasks)]
        together = len(groups.rows) > MIN_GROUPED_ROWS
        return self.pool.results(work, [part for part in parts if len(part)], together)
