"""Rows of trees that are drawn on the device: the launches of draw.cu.

The rows and weights equal those of `gpuboost.engine.sampling.RowSampler.rows`, for a batch of trees
at once. Nothing is read back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np

from gpuboost.backends.cuda.runtime.launch import count_up, full, launch, zeros
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.backends.cuda.sampling.device_sampler import (
    DeviceSampler,
    RowOrder,
    TreeKeys,
    parts_of,
)
from gpuboost.backends.cuda.sampling.real_weights import RealWeights
from gpuboost.backends.cuda.sampling.rows import DeviceRows, LeafColumns, class_order
from gpuboost.backends.cuda.sampling.uploaded_rows import target_columns
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.multi_output import MultiOutputClassTarget
from gpuboost.engine.sampling import ALL_ROWS, WITH_REPLACEMENT
from gpuboost.engine.task import GrowTask

_KEY_BITS, _ROW_BITS = 64, 32


class DeviceDrawing:
    """Draws the rows of batches of trees of a task.

    Parameters
    ----------
    runtime : Runtime
    task : GrowTask
        Task with a ``sampler``.

    Attributes
    ----------
    max_weight : int
        Upper bound on the integer weight of a row, see `RowSampler.bounds`.
    rows_per_tree : int
        Upper bound on the number of rows of a tree.
    """

    def __init__(self, runtime: Runtime, task: GrowTask) -> None:
        assert task.sampler is not None
        self._task, self._device = task, DeviceSampler(runtime, task.sampler)
        self._counts = draw_counts(self._device)
        self._columns = target_columns(runtime, task)
        wide = task.target.wide
        self._wide = None if wide is None else runtime.asarray(wide[None])
        self._order = row_order(runtime, task, self._columns)
        real = task.sampler.has_real_weights
        self._weights = RealWeights.of_sampler(self._device, self._order) if real else None
        self.max_weight = ceil(task.sampler.bounds[1])
        self.rows_per_tree = task.sampler.max_rows

    def rows(self, keys: TreeKeys) -> tuple[DeviceRows, Array, LeafColumns | None, int]:
        """Draw the rows of some trees.

        Returns
        -------
        rows : DeviceRows
            Rows, one tree after the other. Within a tree, rows ascend; with more than two classes,
            they are sorted by class first. The arrays are allocated at full capacity.
        count : int64 (trees,)
            Number of rows of each tree.
        leaf : LeafColumns or None
            None if leaf values need only the integer weights (of the rows of each class).
        max_weight : int
            Upper bound on the integer weight of a row.
        """
        drawn, wide = self._counts(keys), self._wide
        capacity = len(keys) * self.rows_per_tree
        rows = DeviceRows.empty(self._device.xp, capacity, len(self._columns))
        if self._weights is None:
            count = self._device.list_drawn(drawn, len(keys), self._order, self._columns, rows)
        else:
            count, own, _ = self._weights.list_rows(keys, drawn, self._columns, rows)
            wide = wide if own is None else own
        return rows, count, self._leaf_columns(wide, len(keys)), self.max_weight

    def _leaf_columns(self, wide: Array | None, n_trees: int) -> LeafColumns | None:
        runtime, target = self._device.runtime, self._task.target
        if wide is None:
            return None
        wide_of = runtime.xp.empty(n_trees, dtype=np.int32)
        count_up(runtime, wide_of, len(wide) == n_trees)
        return LeafColumns(wide, wide_of, target.n_classes, self._device.sampler.shared_rows.draws)


def draws_on_device(task: GrowTask) -> bool:
    """Whether the rows of the trees are drawn on the device, not uploaded.

    The kernels do not make the leaf terms of several outputs of classes from a tree's own weights.
    """
    if task.sampler is None:
        return False
    return not (task.sampler.reweighs and isinstance(task.target, MultiOutputClassTarget))


def row_order(runtime: Runtime, task: GrowTask, columns: Array) -> RowOrder:
    """Return the order in which the rows of trees are listed."""
    if task.target.is_multiclass:
        return RowOrder(class_order(runtime.xp, columns), True)
    return RowOrder(runtime.xp.empty(1, dtype=runtime.xp.uint32), False)


# ---- Draw counts -------------------------------------------------------------------------------


def draw_counts(device: DeviceSampler) -> Callable[[TreeKeys], Array]:
    """Return a function that computes the same draw counts as `RowSampler.draw_counts`.

    The function takes the keys of some trees and returns uint32 (trees, n), or (1, n) if all trees
    share the counts. With ``method="all"``, the draw counts are `RowSampler.whole`, or else 1.
    """
    if device.sampler.method == ALL_ROWS:
        drawn = counts_of_every_row(device)
        return lambda keys: drawn
    repeats = device.sampler.method == WITH_REPLACEMENT
    return (_Bootstrap if repeats else _WithoutReplacement)(device)


def counts_of_every_row(device: DeviceSampler) -> Array:
    """Draw counts of a draw of all rows: the weights `RowSampler.whole`, or else 1."""
    if device.sampler.whole is None:
        return device.xp.ones((1, device.sampler.n_samples), dtype=np.uint32)
    return device.runtime.asarray(device.sampler.whole).view(np.uint32)[None]


class _Bootstrap:
    """Draw with replacement, with equal probability or in proportion to the rows' weights."""

    def __init__(self, device: DeviceSampler) -> None:
        self._device, self._guides = device, list[Guided]()
        cumulative = device.sampler.cumulative
        if cumulative is not None:
            self._guides.append(Guided.of(device, device.runtime.asarray(cumulative)))

    def __call__(self, keys: TreeKeys) -> Array:
        device, sampler = self._device, self._device.sampler
        drawn = zeros(device.runtime, (len(keys), sampler.n_samples), np.uint32)
        sizes = {"n_samples": sampler.n_samples, "n_draws": sampler.n_draws}
        blocks = len(keys) * parts_of(sampler.n_draws, "PART")
        name = "draw_weighted" if self._guides else "draw_uniform"
        launch(device.runtime, name, blocks, keys, *self._guides, drawn=drawn, **sizes)
        return drawn


@dataclass(frozen=True)
class Guided:
    """A running sum of fixed-point weights, and a guide to where searches in it begin.

    Attributes
    ----------
    cumulative : uint64 (n,)
        The running sum.
    guide : uint32 (entries + 1,)
        First row that random words can draw, for each value of their leading bits; then the last
        row.
    shift : int
        Number of the remaining bits of a random word.
    """

    cumulative: Array
    guide: Array
    shift: int

    @classmethod
    def of(cls, device: DeviceSampler, cumulative: Array) -> Guided:
        """Make the guide of a running sum."""
        n = device.sampler.n_samples
        bits = max(1, n.bit_length() - 1)
        guide = device.xp.empty(2**bits + 1, dtype=device.xp.uint32)
        found = cls(cumulative, guide, 64 - bits)
        threads = constant("sampling/draw.cu", "DRAW_THREADS")
        sizes = {"n_samples": n, "last": 2**bits}
        launch(device.runtime, "make_guide", 2**bits // threads + 1, found, **sizes)
        return found


class _WithoutReplacement:
    """Draw without replacement: the rows with the smallest random keys.

    Without weights, all rows are equally likely. With weights, the keys are exponentially
    distributed with the weights as rates.
    """

    def __init__(self, device: DeviceSampler) -> None:
        weights = device.sampler.weights
        self._device = device
        own = device.runtime.asarray(np.ones(1) if weights is None else weights)
        self._weights = {"weights": own, "weighted": weights is not None}

    def __call__(self, keys: TreeKeys) -> Array:
        device, xp, sampler = self._device, self._device.xp, self._device.sampler
        runtime, n_trees = device.runtime, len(keys)
        last = zeros(runtime, (n_trees, 2), np.uint64)
        wanted = full(runtime, n_trees, sampler.n_draws, np.int64)
        digits = zeros(runtime, (n_trees, constant("sampling/draw.cu", "DRAW_DIGITS")), np.uint32)
        given = {**self._weights, "n_samples": sampler.n_samples, "last": last}
        blocks = n_trees * parts_of(sampler.n_samples, "DIGIT_PART")
        for settled, shift, of_row in _digit_passes():
            own = {"wanted": wanted, "shift": shift, "of_row": of_row, "digits": digits}
            launch(runtime, "count_digits", blocks, keys, **given, **own, settled=settled)
            launch(runtime, "choose_digit", n_trees, **own, last=last)
        drawn = xp.empty((n_trees, sampler.n_samples), dtype=xp.uint32)
        launch(runtime, "mark_smallest", n_trees * device.parts, keys, **given, drawn=drawn)
        return drawn


def _digit_passes() -> Iterator[tuple[int, int, bool]]:
    """Yield, for each digit: mask of the settled bits, shift, whether it is of the row number.

    Digits of the key come first, then digits of the row number. The last digit of either can
    overlap the settled bits, which are the same for all candidates.
    """
    digit = constant("sampling/draw.cu", "DRAW_DIGITS").bit_length() - 1
    for bits, of_row in ((_KEY_BITS, False), (_ROW_BITS, True)):
        for left in range(bits, 0, -digit):
            yield (2**bits - 1) ^ (2**left - 1), max(left - digit, 0), of_row
