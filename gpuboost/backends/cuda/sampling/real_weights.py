"""Rows of trees with real-valued weights, which draw.cu rounds by a hash of the row."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuboost.backends.cuda.runtime.launch import full, launch, zeros
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.backends.cuda.sampling.device_sampler import (
    DeviceSampler,
    RowOrder,
    TreeKeys,
    stride_of,
)
from gpuboost.backends.cuda.sampling.rows import DeviceRows
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.task import NO_LIMIT


class RealWeights:
    """Lists the rows of trees with real-valued weights, which are rounded by a hash of the row.

    The weight of a row in a tree is the product of its draw count, its factor and the weight of its
    class in the tree.

    Parameters
    ----------
    device : DeviceSampler
    order : RowOrder
        The order in which rows are listed.
    factor : float64 (n,)
        Factors of the rows.
    code : int32 (n,)
        Classes of the rows; not read if there is one class.
    bits : tuple of int
        Number of bits of the largest integer weight, and the largest exponent of the power of two
        by which weights are scaled.
    n_classes : int
        Number of classes in ``code``; 1 if weights do not depend on the class.
    balances : bool
        Whether classes are weighted in inverse proportion to their draws in each tree.
    of_class : float64 (1, c), optional
        Weights of the classes of a single tree, in place of 1 or of balanced weights.
    """

    def __init__(
        self,
        device: DeviceSampler,
        order: RowOrder,
        *,
        factor: Array,
        code: Array,
        bits: tuple[int, int],
        n_classes: int = 1,
        balances: bool = False,
        of_class: Array | None = None,
    ) -> None:
        self._device, self._order, self._factor, self._code = device, order, factor, code
        self._n_classes, self._balances, self._of_class = n_classes, balances, of_class
        self._bits = bits

    @classmethod
    def of_sampler(cls, device: DeviceSampler, order: RowOrder) -> RealWeights:
        """Copy the weights of a sampler, which has real-valued weights, to the device."""
        sampler, upload = device.sampler, device.runtime.asarray
        factor = sampler.row_factor if sampler.reweighs else sampler.weights
        code = sampler.balance if sampler.reweighs else None
        return cls(
            device,
            order,
            factor=upload(np.ones(sampler.n_samples) if factor is None else factor),
            code=upload(np.zeros(1, np.int32) if code is None else code),
            bits=(sampler.weight_bits, NO_LIMIT),
            n_classes=1 if code is None else int(code.max()) + 1,
            balances=code is not None,
        )

    def list_rows(
        self, keys: TreeKeys, drawn: Array, columns: Array, rows: DeviceRows
    ) -> tuple[Array, Array | None, Array]:
        """List the rows of positive weight, even if the weight is rounded to zero.

        Parameters
        ----------
        keys : TreeKeys
        drawn : uint32 (trees, n) or (1, n)
            Draw counts.
        columns : int32 (C, n)
            Target columns of all rows.
        rows : DeviceRows
            Arrays that the rows are written to.

        Returns
        -------
        count : int64 (trees,)
            Number of rows of each tree.
        wide : int64 (trees, n, 2) or None
            Leaf columns of each tree, set for its listed rows only; None if all trees share them.
        unit : float64 (trees,)
            Unit of each tree's integer weights.
        """
        device, n_trees = self._device, len(keys)
        runtime, n_samples = device.runtime, device.sampler.n_samples
        weights = {**self._of(n_trees, drawn), "n_samples": n_samples}
        kept, largest = self._counts(n_trees)
        own = {"kept": kept, "largest": largest}
        launch(runtime, "count_weighted", kept.size, self._order, **weights, **own)
        exponent = device.xp.empty(n_trees, dtype=np.int32)
        bits, capacity = self._bits
        sizes = {"n_trees": n_trees, "bits": bits, "capacity": capacity}
        found = {"exponent": exponent, "unit": device.xp.empty(n_trees, dtype=np.float64)}
        launch(runtime, "scale_trees", 1, largest=largest, **sizes, **found)
        first, count = device.place(kept)
        wide, sums = self._own_sums(n_trees)
        own = {"exponent": exponent, "first": first, "target": columns}
        own |= {"n_columns": len(columns), "target_stride": len(rows), **sums, **weights}
        launch(runtime, "list_weighted", kept.size, keys, self._order, out=rows, **own)
        return count, wide, found["unit"]

    def _counts(self, n_trees: int) -> tuple[Array, Array]:
        """Allocate zeros for row counts (trees, parts), int64, and largest weights, uint64."""
        device, parts = self._device, self._device.parts
        both = zeros(device.runtime, n_trees * (parts + 1), np.int64)
        at = n_trees * parts
        return both[:at].reshape(n_trees, parts), both[at:].view(np.uint64)

    def _of(self, n_trees: int, drawn: Array) -> dict[str, Any]:
        """Kernel arguments from which the weights of rows are computed."""
        return {
            "drawn": drawn,
            "stride": stride_of(drawn, n_trees),
            "factor": self._factor,
            "code": self._code,
            "class_weight": self._class_weight(n_trees, drawn),
            "n_classes": self._n_classes,
        }

    def _class_weight(self, n_trees: int, drawn: Array) -> Array:
        """Weights of the classes of each tree: float64 (trees, c)."""
        device, sampler, runtime = self._device, self._device.sampler, self._device.runtime
        if self._of_class is not None:
            return self._of_class
        if not self._balances:
            return full(runtime, (n_trees, 1), 1.0, np.float64)
        in_class = zeros(runtime, (n_trees, self._n_classes), np.int64)
        chunks = -(-self._n_classes // constant("sampling/draw.cu", "CLASS_COUNTS"))
        grid, known = (n_trees * device.parts, chunks), {"n_classes": self._n_classes}
        rows = {"drawn": drawn, "code": self._code, "n_samples": sampler.n_samples}
        launch(runtime, "count_classes", grid, **rows, **known, in_class=in_class)
        class_weight = runtime.xp.empty(in_class.shape, dtype=np.float64)
        known |= {"in_class": in_class, "n_trees": n_trees, "n_draws": sampler.n_draws}
        launch(runtime, "balance_classes", 1, **known, class_weight=class_weight)
        return class_weight

    def _own_sums(self, n_trees: int) -> tuple[Array | None, dict[str, Any]]:
        """Allocate leaf columns per tree (None if trees share them) and make kernel arguments."""
        xp, sampler = self._device.xp, self._device.sampler
        exponents = sampler.shared_rows.exponents
        if exponents is None:
            none = xp.empty(1, dtype=xp.int64)
            return None, {"own_sums": False, "high": 0, "low": 0, "wide": none}
        wide = xp.empty((n_trees, sampler.n_samples, 2), dtype=xp.int64)
        high, low = int(exponents[0]), int(exponents[1] - exponents[0])
        return wide, {"own_sums": True, "high": high, "low": low, "wide": wide}
