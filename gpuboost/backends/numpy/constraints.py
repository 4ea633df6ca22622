"""Constraints that nodes inherit from their ancestors: bounds on values, interaction groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuboost.engine import newton
from gpuboost.engine.growth.constraints import NodeBounds
from gpuboost.engine.growth.frontier import Frontier
from gpuboost.engine.task import GrowTask


class FrontierConstraints:
    """The constraints of a fit: bounds, monotonic features, and features that may interact."""

    def __init__(self, task: GrowTask) -> None:
        options, features = task.options, np.arange(task.matrix.n_features)
        regular, directions = options.regularisation, options.directions
        self._regular, self._max_value = (regular.l1, regular.l2), regular.max_value
        self._directions = None if directions is None else np.array(directions)
        self._has_groups = options.interactions is not None
        groups = [np.isin(features, own) for own in options.interactions or ()]
        self._groups = np.array(groups, dtype=bool).reshape(len(groups), len(features))

    def of_roots(self, m: int) -> dict[str, Any]:
        """Constraints of m roots: a dict of columns of `Frontier`."""
        groups = np.ones((m, len(self._groups)), dtype=bool)
        return {"bounds": NodeBounds.of_roots(m, self._max_value), "groups": groups}

    def of_children(
        self, node: Frontier, feature: np.ndarray, hessian: np.ndarray, gradient: np.ndarray
    ) -> dict[str, Any]:
        """Constraints of the children (left, right, left, ...) of nodes split by ``feature``.

        Parameters
        ----------
        node : Frontier
            The m split nodes.
        feature : int64 (m,)
            The feature that each node is split on.
        hessian, gradient : int64 (m,), (m, K)
            Sums of the left child.
        """
        groups = node.groups & self._groups[:, feature].T
        bounds = node.bounds[np.arange(len(feature)).repeat(2)]
        if self._directions is not None:
            g = np.stack([gradient, node.gradient - gradient])[:, :, 0].astype(np.float64)
            h = np.stack([hessian, node.hessian - hessian]).astype(np.float64)
            values = newton.values_in_bounds(g, h, *self.limits(node.bounds))
            bounds = node.bounds.of_children(self._directions[feature], *values)
        return {"bounds": bounds, "groups": groups.repeat(2, axis=0)}

    def limits(self, bounds: NodeBounds) -> tuple[Any, Any]:
        """The penalties and the bounds on leaf values, in the form that `engine.criteria` takes."""
        return self._regular, (bounds.lower, bounds.upper)

    def in_order(self, valid: np.ndarray, feature: np.ndarray, *parts: Any) -> np.ndarray:
        """Restrict the mask ``valid`` to splits whose values are in the order ``feature`` requires.

        ``feature`` is the feature of each split. ``parts`` are the arguments of
        `newton.is_monotonic` after the sign.
        """
        if self._directions is None:
            return valid
        return valid & newton.is_monotonic(self._directions[feature], *parts)

    def allow(self, node: Frontier, allowed: np.ndarray) -> np.ndarray:
        """Restrict ``allowed`` features, bool (m, F), to the interaction groups of the nodes."""
        if not self._has_groups:
            return allowed
        return allowed & (node.groups[:, :, None] & self._groups).any(axis=1)
