"""Order statistics of residuals in leaves, by sorts on the device.

The numbers are those of `gpuboost.engine.order_statistics`: cumulative integer weights, compared
with a share of the weight of each group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.engine import gradients
from gpuboost.engine.order_statistics import integer_weights
from gpuboost.engine.statistics import SUM_BITS, planes_to_float, sum_bits, two_planes

if TYPE_CHECKING:
    from gpuboost.backends.cuda.row_sets import DeviceRowSet
    from gpuboost.backends.cuda.runtime import Runtime
    from gpuboost.engine.frontier import Array
    from gpuboost.engine.losses import OrderStatisticLoss


@dataclass(frozen=True, eq=False)
class SortedGroups:
    """Rows by group, and in each ascending by value; those of no group come first.

    Attributes
    ----------
    group : int32 (n,)
        Of the rows in this order, -1 for none.
    value : float64 (n,)
    weight : int64 (n,)
        0 of rows of no group.
    starts : int64 (n_groups + 1,)
        Where each group starts, and where the last one ends.
    """

    group: Array
    value: Array
    weight: Array
    starts: Array

    @classmethod
    def of(
        cls, xp: Any, values: Array, weights: Array, groups: Array, n_groups: int
    ) -> SortedGroups:
        """Sort rows; ``groups`` is int32 (n,)."""
        ascending = xp.argsort(values, kind="stable")
        order = ascending[xp.argsort(groups[ascending], kind="stable")]
        group = groups[order]
        starts = xp.searchsorted(group, xp.arange(n_groups + 1, dtype=np.int32))
        weight = xp.where(group >= 0, weights[order], 0)
        return cls(group, values[order], weight, starts)

    def sum(self, xp: Any, numbers: Array) -> Array:
        """Sums of integers (n,) over each group."""
        until = xp.zeros(len(numbers) + 1, dtype=np.int64)
        until[1:] = xp.cumsum(numbers)
        return until[self.starts[1:]] - until[self.starts[:-1]]

    def quantiles(self, xp: Any, level: float) -> Array:
        """As `order_statistics.weighted_quantiles`: float64 (n_groups,)."""
        first, last = self.starts[:-1], self.starts[1:] - 1
        until = xp.zeros(len(self.weight) + 1, dtype=np.int64)
        until[1:] = xp.cumsum(self.weight)
        before = until[first]
        totals = until[self.starts[1:]] - before
        cut = (totals.astype(np.float64) * level)[self.group]
        inside = (until[1:] - before[self.group]).astype(np.float64)
        at = [self.sum(xp, (short).astype(np.int64)) for short in (inside < cut, inside <= cut)]
        end = len(self.value) - 1  # an empty group may begin behind the last row
        lower, upper = (
            self.value[xp.minimum(xp.minimum(first + n, xp.maximum(last, 0)), end)] for n in at
        )
        middle = xp.where(lower == upper, lower, lower * 0.5 + upper * 0.5)
        return xp.where(totals > 0, middle, 0.0) + 0.0

    def mean_of_clipped(
        self, runtime: Runtime, centres: Array, limit: float, n_grouped: int
    ) -> np.ndarray:
        """As `order_statistics.mean_of_clipped`, on the host; ``n_grouped`` rows are in groups."""
        xp = runtime.xp
        left = xp.minimum(xp.maximum(self.value - centres[self.group], -limit), limit)
        terms = left * self.weight.astype(np.float64)
        planes, exponents = two_planes(terms[:, None], SUM_BITS - sum_bits(n_grouped))
        sums = [runtime.to_host(self.sum(xp, planes[:, p])) for p in range(2)]
        totals = np.maximum(runtime.to_host(self.sum(xp, self.weight)), 1)
        return planes_to_float(np.stack(sums, axis=1), exponents)[:, 0] / totals.astype(np.float64)


@dataclass(frozen=True, eq=False)
class LeafQuantiles:
    """Leaves of a loss that takes quantiles of the residuals, on the device.

    Parameters
    ----------
    runtime : Runtime
    loss : OrderStatisticLoss
    rows : DeviceRowSet
    weights : int64 (n,)
        Of `order_statistics.integer_weights`.
    """

    runtime: Runtime
    loss: OrderStatisticLoss
    rows: DeviceRowSet
    weights: Array

    @classmethod
    def of(cls, runtime: Runtime, loss: OrderStatisticLoss, rows: DeviceRowSet) -> LeafQuantiles:
        """Copy the weights."""
        weights = integer_weights(rows.given.weights, rows.n)
        return cls(runtime, loss, rows, runtime.asarray(weights))

    def residuals(self, column: int) -> Array:
        """Target less raw prediction: float64 (n,)."""
        return self.rows.y[column % len(self.rows.y)] - self.rows.raw[column]

    def leaf_values(
        self, column: int, leaf: Array, n_leaves: int, n_grouped: int, parameter: np.ndarray
    ) -> np.ndarray:
        """As `OrderStatisticLoss.leaf_values`: float64 (n_leaves,) on the host.

        Parameters
        ----------
        leaf : int32 (n,)
            From 0, or -1 for rows left out.
        n_grouped : int
            Rows that are not.
        """
        xp, level = self.runtime.xp, self.loss.refit_level
        values = self.residuals(column)
        found = SortedGroups.of(xp, values, self.weights, leaf, n_leaves)
        medians = found.quantiles(xp, float(level[column]))
        host = self.runtime.to_host(medians)
        if self.loss.formula != gradients.HUBER:
            return host
        limit = float(parameter[column])
        return host + found.mean_of_clipped(self.runtime, medians, limit, n_grouped)

    def sizes_quantile(self, level: float) -> np.ndarray:
        """Quantile of the absolute residuals of all rows: float64 (columns,), on the host."""
        xp, group = self.runtime.xp, self.runtime.xp.zeros(self.rows.n, dtype=np.int32)
        columns = []
        for column in range(self.loss.columns):
            sizes = xp.abs(self.residuals(column))
            found = SortedGroups.of(xp, sizes, self.weights, group, 1)
            columns.append(self.runtime.to_host(found.quantiles(xp, level)))
        return np.concatenate(columns)
