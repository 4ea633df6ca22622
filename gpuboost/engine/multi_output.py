"""The target of a classification with several outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpuboost.engine.array_modules import copy_to_host
from gpuboost.engine.criteria import CRITERIA
from gpuboost.engine.fixed_point import planes_to_float
from gpuboost.engine.numerics import sum_in_order
from gpuboost.engine.sparse_rows import DenseRows
from gpuboost.engine.targets import NodeValues, TreeRows, ValueTarget


@dataclass(frozen=True, kw_only=True)
class MultiOutputClassTarget(ValueTarget):
    """Classes of several outputs: each class of each output is a channel with values 0 and 1.

    All outputs have the same number of channels; an output with fewer classes has channels of
    zeros, which add exactly 0 to scores and impurities. Means of the values are class
    probabilities. ``mean`` is zero, and the column of squares in ``wide`` is not used.

    Attributes
    ----------
    classes_per_output : int
        Number of channels of an output: the largest number of classes.
    """

    classes_per_output: int

    @property
    def scored_together(self) -> int:
        """The channels of one output."""
        return self.classes_per_output

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return self.n_channels // self.classes_per_output

    def exponents_in(self, rows: TreeRows) -> np.ndarray:
        """If the rows have their own: those of each channel, of no squares, and of the weight."""
        if rows.exponents is None:
            return self.exponents
        return np.tile(rows.exponents, self.n_channels + 2)

    def with_leaf_terms(self, rows: TreeRows) -> TreeRows:
        """The planes of the weight for each channel of value 1, of no squares, and of the weight.

        Values are 0 or 1, so these are the planes of weight times value.
        """
        if rows.wide is None:
            return rows
        values = copy_to_host(self.values)
        n, k = values.shape
        wide = np.zeros((n, k + 2, 2), np.int64)
        wide[:, :k] = values[:, :, None] * rows.wide[:, None, :]
        wide[:, k + 1] = rows.wide
        return replace(rows, wide=wide.reshape(n, -1))

    def gain_unit(self, criterion: int) -> float:
        """The criterion's unit, averaged over outputs."""
        return CRITERIA[criterion].class_unit / self.n_outputs

    def node_values(
        self, sums: np.ndarray, hessian: np.ndarray, rows: TreeRows, criterion: int
    ) -> NodeValues:
        """Class probabilities of all outputs, impurities averaged over outputs, and weights."""
        found, k = planes_to_float(sums, self.exponents_in(rows)), self.n_channels
        weight = found[:, k + 1] if found.shape[1] > k + 1 else hessian.astype(np.float64)
        probability = found[:, :k] / weight[:, None]
        per_output = probability.reshape(-1, self.classes_per_output)
        impurity = CRITERIA[criterion].impurity(per_output, DenseRows(per_output))
        mean = sum_in_order(impurity.reshape(len(sums), -1)) / self.n_outputs
        return NodeValues(probability, mean, weight)
