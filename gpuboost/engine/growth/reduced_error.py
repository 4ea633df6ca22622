"""Reduced-error pruning of finished trees: the subtree of least loss on held-out rows.

From the bottom up, an inner node stays one only if the subtree below it, already pruned, has a
smaller loss on the held-out rows than the node would have as a leaf. So the result has the least
loss of all pruned subtrees, and it is the smallest of these.

A loss is that of all rows in a node, predicted by the node's value, up to a term of each row that
is the same in every node. Losses are exact integers, so that decisions depend neither on the order
of the rows nor on the device: weights and products of weights and targets become fixed-point
numbers (`engine.fixed_point`), which are added as integers and combined as Python integers.

References
----------
Quinlan: Simplifying decision trees (1987), section 2.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpuboost.engine.fixed_point import SUM_BITS, exponent_of, scale_by_power, sum_bits, two_planes
from gpuboost.engine.growth.pruning import with_splits
from gpuboost.engine.growth.tree import Tree, levels, sum_children

_SPLITTER = 134217729.0  # 2**27 + 1, by which Dekker's product splits a float64 into two halves


def reduced_error_pruned(tree: Tree, losses: np.ndarray) -> Tree:
    """The smallest pruned subtree of least loss.

    Parameters
    ----------
    tree : Tree
    losses : object (m,)
        Loss of each node on the held-out rows that reach it, as integers; see `ClassRows.losses`
        and `ValueRows.losses`.
    """
    best, splits = losses.copy(), tree.left > 0
    for nodes in reversed(levels(tree.left)):
        inner = np.flatnonzero(tree.left[nodes]) + nodes.start
        below = best[tree.left[inner]] + best[tree.left[inner] + 1]
        splits[inner] = below < best[inner]
        best[inner] = np.minimum(best[inner], below)
    return with_splits(tree, splits)


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Held-out rows of a classification, whose loss is the weight of wrongly classified rows.

    Attributes
    ----------
    codes : int (n, n_outputs)
        Class of each row. The loss of several outputs is the sum of their losses.
    weights : float64 (n,)
    """

    codes: np.ndarray
    weights: np.ndarray

    @cached_property
    def planes(self) -> tuple[np.ndarray, np.ndarray]:
        """The weights as fixed-point numbers, and the exponents of their two planes."""
        return two_planes(self.weights[:, None], SUM_BITS - sum_bits(len(self.weights)))

    def take(self, rows: np.ndarray) -> ClassRows:
        """Some of the rows."""
        return ClassRows(self.codes[rows], self.weights[rows])

    def losses_at(self, tree: Tree, leaves: np.ndarray) -> np.ndarray:
        """Loss of each row at its leaf, averaged over outputs, without weights: float64 (n,)."""
        return (self._classes_of(tree)[leaves] != self.codes).mean(axis=1)

    def losses(self, tree: Tree, leaves: np.ndarray) -> np.ndarray:
        """Loss of each node: object (m,). ``leaves`` (n,) has the leaf of each row.

        It is minus the weight of the rows that have the most probable class of the node.
        """
        planes, exponents = self.planes
        right = np.zeros((tree.node_count, 2), dtype=np.int64)
        found = np.zeros(tree.node_count, dtype=object)
        for codes, chosen in zip(self.codes.T, self._classes_of(tree).T, strict=True):
            for code in np.unique(chosen):
                rows, nodes = codes == code, chosen == code
                right[nodes] = _sums_of_nodes(tree, leaves[rows], planes[rows])[nodes]
            found = found - _as_integers(right, exponents)[:, 0]
        return found

    def _classes_of(self, tree: Tree) -> np.ndarray:
        """The most probable class of each node and output: int64 (m, n_outputs)."""
        return tree.value.reshape(tree.node_count, self.codes.shape[1], -1).argmax(axis=2)


@dataclass(frozen=True, eq=False)
class ValueRows:
    """Held-out rows of a regression, whose loss is the weighted squared error.

    Attributes
    ----------
    y : float64 (n, n_outputs)
        The loss of several outputs is the sum of their losses.
    weights : float64 (n,)
    """

    y: np.ndarray
    weights: np.ndarray

    @cached_property
    def unit(self) -> int:
        """Exponent of the unit of targets, in which they are at most 1."""
        return int(exponent_of(self.y).max())

    @cached_property
    def planes(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights, products of weights and targets, and the rounding errors of these products."""
        weights = scale_by_power(self.weights[:, None], -exponent_of(self.weights[:, None]))
        products = exact_product(weights, scale_by_power(self.y, -self.unit))
        columns = np.concatenate([weights, *products], axis=1)
        return two_planes(columns, SUM_BITS - sum_bits(len(columns)))

    def take(self, rows: np.ndarray) -> ValueRows:
        """Some of the rows."""
        return ValueRows(self.y[rows], self.weights[rows])

    def losses_at(self, tree: Tree, leaves: np.ndarray) -> np.ndarray:
        """Loss of each row at its leaf, averaged over outputs, without weights: float64 (n,)."""
        difference = tree.value[leaves] - self.y
        return (difference * difference).mean(axis=1)

    def losses(self, tree: Tree, leaves: np.ndarray) -> np.ndarray:
        """Loss of each node: object (m,). ``leaves`` (n,) has the leaf of each row.

        With weights w, targets y and the value v of the node, it is the sum of
        w (y - v)**2 - w y**2, which is v (v sum(w) - 2 sum(w y)), in one unit for all nodes.
        """
        planes, exponents = self.planes
        sums = _as_integers(_sums_of_nodes(tree, leaves, planes), exponents)
        n_outputs = self.y.shape[1]
        weight, products, errors = sums[:, :1], sums[:, 1 : n_outputs + 1], sums[:, n_outputs + 1 :]
        values, bits = _exact_integers(scale_by_power(tree.value, -self.unit))
        return (values * (values * weight - (products + errors) * 2 ** (bits + 1))).sum(axis=1)


def exact_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rounded products of arrays of float64, at most 1 in size, and what rounding took away.

    Dekker: A floating-point technique for extending the available precision (1971).
    """
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, error


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two numbers of at most 26 bits whose sum is ``x``."""
    shifted = _SPLITTER * x
    high = shifted - (shifted - x)
    return high, x - high


def _sums_of_nodes(tree: Tree, leaves: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Sums of integer columns (n, k) over the rows that reach each node: int64 (m, k)."""
    sums = np.zeros((columns.shape[1], tree.node_count), dtype=np.int64)
    for own, column in zip(sums, columns.T, strict=True):
        np.add.at(own, leaves, column)
    sum_children(tree.left, sums.T)
    return sums.T


def _as_integers(sums: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """Sums of `two_planes` (m, 2 K) as Python integers of one unit: object (m, K)."""
    exact = sums.astype(object) << (exponents.max() - exponents).astype(object)
    return exact[:, 0::2] + exact[:, 1::2]


def _exact_integers(x: np.ndarray) -> tuple[np.ndarray, int]:
    """Integers i (object) and a number of bits b >= 0 such that ``x`` is i * 2**-b."""
    fraction, exponent = np.frexp(x)
    lowest = min(53, int(exponent[x != 0].min(initial=53)))
    shift = np.maximum(exponent - lowest, 0).astype(object)
    return np.ldexp(fraction, 53).astype(np.int64).astype(object) << shift, 53 - lowest
