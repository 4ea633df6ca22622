"""Rows of trees by real weights, rounded by a hash of the row: launches of draw.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.runtime.launch import full, launch_for_roots, zeros
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.backends.cuda.sampling.launch import stride_of
from gpuboost.engine.task import NO_LIMIT

if TYPE_CHECKING:
    from gpuboost.backends.cuda.sampling.launch import DrawLauncher, TreeKeys
    from gpuboost.backends.cuda.sampling.rows import DeviceRows
    from gpuboost.engine.growth.frontier import Array


class RealWeights:
    """Lists rows by real weights, rounded by a hash of the row.

    A row weighs its draw count times its factor times the weight of its class in the tree.
    """

    def __init__(self, launch: DrawLauncher, order: tuple[Array, np.int32]) -> None:
        sampler, upload = launch.sampler, launch.runtime.asarray
        factor = sampler.row_factor if sampler.reweighs else sampler.weights
        code = sampler.balance if sampler.reweighs else None
        self._launch, self._order = launch, order
        self._factor = upload(np.ones(sampler.n_samples) if factor is None else factor)
        self._code = upload(np.zeros(1, np.int32) if code is None else code)
        self._n_classes = 1 if code is None else int(code.max()) + 1
        self._balances = code is not None
        # Of the largest weight as an integer, and the largest power of two that makes integers.
        self._bits = np.int32(sampler.weight_bits), np.int32(NO_LIMIT)

    def list_rows(
        self, keys: TreeKeys, drawn: Array, columns: Array, rows: DeviceRows
    ) -> tuple[Array, Array | None]:
        """List the rows of positive weight.

        Returns
        -------
        count : int64 (trees,)
        wide : int64 (trees, n, 2) or None
            Leaf sums that trees have to themselves.
        """
        launch, n_trees = self._launch, len(keys)
        n_samples = np.int64(launch.sampler.n_samples)
        weights = self._of(n_trees, drawn)
        kept, largest = self._counts(n_trees)
        launch("count_weighted", kept.size, (*weights, *self._order, n_samples, kept, largest))
        exponent = launch.xp.empty(n_trees, dtype=np.int32)
        scale = (largest, np.int32(n_trees), *self._bits, exponent, self._units(n_trees))
        launch_for_roots(launch.runtime, "scale_trees", scale)
        first, count = launch.place(kept)
        wide, own = self._own_sums(n_trees)
        args = (
            *(*keys.arguments, *weights, exponent, first, *self._order, columns),
            *(n_samples, np.int32(len(columns)), np.int64(len(rows)), *own),
            *(rows.row, rows.weight, rows.target),
        )
        launch("list_weighted", kept.size, args)
        return count, wide

    def _counts(self, n_trees: int) -> tuple[Array, Array]:
        """Zeros: of the rows of parts of trees, int64 (trees, parts), and uint64 (trees,)."""
        launch, parts = self._launch, self._launch.parts
        both = zeros(launch.runtime, n_trees * (parts + 1), np.int64)
        at = n_trees * parts
        return both[:at].reshape(n_trees, parts), both[at:].view(np.uint64)

    def _units(self, n_trees: int) -> Array:
        """Room for what the integer weights of each tree are multiplied by: float64 (trees,)."""
        return self._launch.xp.empty(n_trees, dtype=np.float64)

    def _of(self, n_trees: int, drawn: Array) -> tuple[Any, ...]:
        """The arguments that say what rows weigh."""
        class_weight = self._class_weight(n_trees, drawn)
        stride, n_classes = stride_of(drawn, n_trees), np.int32(self._n_classes)
        return drawn, stride, self._factor, self._code, class_weight, n_classes

    def _class_weight(self, n_trees: int, drawn: Array) -> Array:
        """Weights that give the classes of each tree's draws equal weight: float64 (trees, c)."""
        launch, sampler, runtime = self._launch, self._launch.sampler, self._launch.runtime
        if not self._balances:
            return full(runtime, (n_trees, 1), 1.0, np.float64)
        in_class = zeros(runtime, (n_trees, self._n_classes), np.int64)
        chunks = -(-self._n_classes // constant("sampling/draw.cu", "CLASS_COUNTS"))
        sizes = (np.int64(sampler.n_samples), np.int32(self._n_classes))
        grid = (n_trees * launch.parts, chunks)
        launch("count_classes", grid, (drawn, self._code, *sizes, in_class))
        class_weight = runtime.xp.empty(in_class.shape, dtype=np.float64)
        counts = (np.int32(n_trees), np.int32(self._n_classes), np.int64(sampler.n_draws))
        launch_for_roots(runtime, "balance_classes", (in_class, *counts, class_weight))
        return class_weight

    def _own_sums(self, n_trees: int) -> tuple[Array | None, tuple[Any, ...]]:
        """Room for leaf sums of trees' own, if they have any, and the arguments that say so."""
        xp, sampler = self._launch.xp, self._launch.sampler
        exponents = sampler.brief.exponents
        if exponents is None:
            none = xp.empty(1, dtype=xp.int64)
            return None, (np.int32(0), np.int32(0), np.int32(0), none)
        wide = xp.empty((n_trees, sampler.n_samples, 2), dtype=xp.int64)
        high, low = int(exponents[0]), int(exponents[1] - exponents[0])
        return wide, (np.int32(1), np.int32(high), np.int32(low), wide)
