"""The rows of trees made on the device: the launches of draw.cu. Nothing is read back.

The numbers are those of `gpuboost.engine.sampling.RowSampler.rows`, for a batch of trees at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.filling import count_up, full, launch_for_roots, zeros
from gpuboost.backends.cuda.rows import DeviceRows, LeafColumns, class_order, in_class_order
from gpuboost.backends.cuda.source import constant
from gpuboost.backends.cuda.uploads import target_columns
from gpuboost.engine.sampling import ALL_ROWS, WITH_REPLACEMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpuboost.backends.cuda.runtime import Runtime
    from gpuboost.engine.frontier import Array
    from gpuboost.engine.sampling import RowSampler
    from gpuboost.engine.spec import GrowTask

_KEY_BITS, _ROW_BITS = 64, 32


@dataclass(frozen=True)
class TreeKeys:
    """What the random numbers of some trees are keyed with, on the device.

    Attributes
    ----------
    seed : uint64 (1,)
    number : uint64 (trees,)
    """

    seed: Array
    number: Array

    def __len__(self) -> int:
        return len(self.number)

    @property
    def arguments(self) -> tuple[Array, Array]:
        """As kernels take it."""
        return self.number, self.seed


class DeviceDrawing:
    """Draws the rows of the trees of a task, any batch of them at a time.

    Parameters
    ----------
    runtime : Runtime
    task : GrowTask
        One with a ``sampler``.

    Attributes
    ----------
    max_weight : int
        No row weighs more, in any tree.
    rows_per_tree : int
        No tree has more.
    """

    def __init__(self, runtime: Runtime, task: GrowTask) -> None:
        assert task.sampler is not None
        self._task, self._launch = task, _Launcher(runtime, task.sampler)
        self._counts = DrawCounts(runtime, task.sampler)
        self._columns = target_columns(runtime, task)
        wide = task.target.wide
        self._wide = None if wide is None else runtime.asarray(wide[None])
        self._order = _listing_order(runtime, task, self._columns)
        real = task.sampler.has_real_weights
        self._weights = _RealWeights(self._launch, self._order) if real else None
        self.max_weight = ceil(task.sampler.bounds[1])
        self.rows_per_tree = task.sampler.most_rows

    def keys(self, trees: Sequence[int]) -> TreeKeys:
        """Those of some trees, copied to the device."""
        return self._launch.keys(trees)

    def rows(self, keys: TreeKeys) -> tuple[DeviceRows, Array, LeafColumns | None, int]:
        """The rows of some trees.

        Returns
        -------
        rows : DeviceRows
            Those of tree after tree, ascending, or, of more than two classes, by class and then
            ascending; there is room for the most there can be.
        count : int64 (trees,)
            Rows of each tree.
        leaf : LeafColumns or None
            None: leaf values are made of draw counts alone.
        max_weight : int
        """
        drawn, wide = self._counts.of(keys), self._wide
        room = len(keys) * self.rows_per_tree
        rows = DeviceRows.room(self._launch.xp, room, len(self._columns))
        if self._weights is None:
            count = self._list_drawn(drawn, rows, len(keys))
        else:
            count, own = self._weights.list_rows(keys, drawn, self._columns, rows)
            wide = wide if own is None else own
        return rows, count, self._leaf_columns(wide, len(keys)), self.max_weight

    def _list_drawn(self, drawn: Array, rows: DeviceRows, n_trees: int) -> Array:
        """List the rows that are drawn; how many of each tree."""
        launch, stride = self._launch, _stride(drawn, n_trees)
        kept = zeros(launch.runtime, (n_trees, launch.parts), np.int64)
        n_samples = np.int64(launch.sampler.n_samples)
        launch("count_drawn", kept.size, (drawn, stride, *self._order, n_samples, kept))
        first, count = launch.place(kept)
        given = (drawn, stride, first, *self._order, self._columns, n_samples)
        sizes = (np.int32(len(self._columns)), np.int64(len(rows)))
        launch("list_drawn", kept.size, (*given, *sizes, rows.row, rows.weight, rows.target))
        return count

    def _leaf_columns(self, wide: Array | None, n_trees: int) -> LeafColumns | None:
        runtime, target = self._launch.runtime, self._task.target
        if wide is None:
            return None
        wide_of = runtime.xp.empty(n_trees, dtype=np.int32)
        count_up(runtime, wide_of, len(wide) == n_trees)
        n_classes = 1 if target.classes is None else target.n_classes
        return LeafColumns(wide, wide_of, n_classes, self._launch.sampler.brief.draws)


def _listing_order(runtime: Runtime, task: GrowTask, columns: Array) -> tuple[Array, np.int32]:
    """The order in which rows are listed, and whether it is not their own."""
    if in_class_order(task.target):
        return class_order(runtime.xp, columns), np.int32(1)
    return runtime.xp.empty(1, dtype=runtime.xp.uint32), np.int32(0)


def _stride(drawn: Array, n_trees: int) -> np.int64:
    """From one tree's draw counts to the next's; 0 where all trees share them."""
    return np.int64(drawn.shape[1] if len(drawn) == n_trees else 0)


class _Launcher:
    """Launches kernels of draw.cu for one sampler."""

    def __init__(self, runtime: Runtime, sampler: RowSampler) -> None:
        self.runtime, self.sampler, self.xp = runtime, sampler, runtime.xp
        self.parts = parts_of(sampler.n_samples, "PART")

    def keys(self, trees: Sequence[int]) -> TreeKeys:
        """Those of some trees, copied to the device."""
        seed = np.array([self.sampler.seed], dtype=np.uint64)
        numbers = np.array(trees, dtype=np.uint64)
        return TreeKeys(self.runtime.asarray(seed), self.runtime.asarray(numbers))

    def place(self, kept: Array) -> tuple[Array, Array]:
        """Where rows of parts begin, and how many trees have: ``kept`` is (trees, parts)."""
        first = self.xp.empty(kept.shape, dtype=np.int64)
        count = self.xp.empty(len(kept), dtype=np.int64)
        sizes = (np.int64(len(kept)), np.int64(kept.shape[1]))
        launch_for_roots(self.runtime, "place_parts", (kept, *sizes, first, count))
        return first, count

    def __call__(self, name: str, blocks: int | tuple[int, int], args: tuple[Any, ...]) -> None:
        grid = blocks if isinstance(blocks, tuple) else (blocks,)
        self.launch(name, grid, constant("draw.cu", "DRAW_THREADS"), args)

    def launch(self, name: str, grid: tuple[int, ...], threads: int, args: tuple[Any, ...]) -> None:
        self.runtime.kernel("draw.cu", name, {})(grid, (threads,), args)


def parts_of(n_items: int, size: str) -> int:
    """Parts of so many rows or draws; ``size`` is the constant that tells theirs."""
    return -(-n_items // constant("draw.cu", size))


# ---- How often rows are drawn ------------------------------------------------------------------


class DrawCounts:
    """How often each row is drawn for a tree, as `RowSampler.draw_counts`.

    With ``method="all"`` whole weights stand for draws.
    """

    def __init__(self, runtime: Runtime, sampler: RowSampler) -> None:
        self._launch = _Launcher(runtime, sampler)
        self._draw = _draw_of(self._launch)

    def __call__(self, trees: Sequence[int]) -> Array:
        """uint32 (trees, n), or (1, n) where it is the same for all."""
        return self.of(self._launch.keys(trees))

    def of(self, keys: TreeKeys) -> Array:
        """The same for trees whose keys are on the device."""
        return self._draw(keys)


def _draw_of(launch: _Launcher) -> Callable[[TreeKeys], Array]:
    sampler = launch.sampler
    if sampler.method == ALL_ROWS:
        return _EveryRow(launch)
    if sampler.method != WITH_REPLACEMENT:
        return _WithoutReplacement(launch)
    return _Bootstrap(launch) if sampler.cumulative is None else _WeightedBootstrap(launch)


class _EveryRow:
    """All rows, as often as their whole weight says."""

    def __init__(self, launch: _Launcher) -> None:
        whole, xp = launch.sampler.whole, launch.xp
        self._drawn = xp.ones((1, launch.sampler.n_samples), dtype=xp.uint32)
        if whole is not None:
            self._drawn = launch.runtime.asarray(whole).view(np.uint32)[None]

    def __call__(self, keys: TreeKeys) -> Array:
        return self._drawn


class _Bootstrap:
    """With replacement, all rows alike."""

    _name = "draw_uniform"

    def __init__(self, launch: _Launcher) -> None:
        self._launch = launch

    def __call__(self, keys: TreeKeys) -> Array:
        launch, sampler = self._launch, self._launch.sampler
        drawn = zeros(launch.runtime, (len(keys), sampler.n_samples), np.uint32)
        sizes = (np.int64(sampler.n_samples), np.int64(sampler.n_draws))
        blocks = len(keys) * parts_of(sampler.n_draws, "PART")
        launch(self._name, blocks, (*keys.arguments, *self._by(), *sizes, drawn))
        return drawn

    def _by(self) -> tuple[Any, ...]:
        return ()


class _WeightedBootstrap(_Bootstrap):
    """With replacement, rows in proportion to their weights."""

    _name = "draw_weighted"

    def __init__(self, launch: _Launcher) -> None:
        super().__init__(launch)
        sampler, xp = launch.sampler, launch.xp
        assert sampler.cumulative is not None
        bits = max(1, sampler.n_samples.bit_length() - 1)
        self._cumulative = launch.runtime.asarray(sampler.cumulative)
        self._guide = xp.empty(2**bits + 1, dtype=xp.uint32)
        self._shift = np.int32(64 - bits)
        threads = constant("draw.cu", "DRAW_THREADS")
        sizes = (np.int64(sampler.n_samples), self._shift, np.int64(2**bits))
        launch("make_guide", 2**bits // threads + 1, (self._cumulative, *sizes, self._guide))

    def _by(self) -> tuple[Any, ...]:
        return self._cumulative, self._guide, self._shift


class _WithoutReplacement:
    """The rows of the smallest keys."""

    def __init__(self, launch: _Launcher) -> None:
        weights = launch.sampler.weights
        self._launch = launch
        self._weighted = np.int32(weights is not None)
        self._weights = launch.runtime.asarray(np.ones(1) if weights is None else weights)

    def __call__(self, keys: TreeKeys) -> Array:
        launch, xp, sampler = self._launch, self._launch.xp, self._launch.sampler
        runtime, n_trees, n_samples = launch.runtime, len(keys), np.int64(sampler.n_samples)
        last = zeros(runtime, (n_trees, 2), np.uint64)
        wanted = full(runtime, n_trees, sampler.n_draws, np.int64)
        digits = zeros(runtime, (n_trees, constant("draw.cu", "DIGITS")), np.uint32)
        order = (*keys.arguments, self._weights, self._weighted, n_samples)
        blocks = n_trees * parts_of(sampler.n_samples, "DIGIT_PART")
        for settled, shift, of_row in _digit_passes():
            at = (np.uint64(settled), np.int32(shift), np.int32(of_row))
            launch("count_digits", blocks, (*order, last, wanted, *at, digits))
            choice = (digits, last, wanted, *at[1:])
            launch.launch("choose_digit", (n_trees,), constant("common.cuh", "WARP"), choice)
        drawn = xp.empty((n_trees, sampler.n_samples), dtype=xp.uint32)
        launch("mark_smallest", n_trees * launch.parts, (*order, last, drawn))
        return drawn


def _digit_passes() -> Iterator[tuple[int, int, bool]]:
    """Bits settled before, shift, and whether it is a digit of the row: for each digit in turn.

    The last digit of a number reaches back into what is settled, where its bits are the same in
    all candidates.
    """
    digit = constant("draw.cu", "DIGITS").bit_length() - 1
    for bits, of_row in ((_KEY_BITS, False), (_ROW_BITS, True)):
        for left in range(bits, 0, -digit):
            yield (2**bits - 1) ^ (2**left - 1), max(left - digit, 0), of_row


# ---- Real weights ------------------------------------------------------------------------------


class _RealWeights:
    """Lists rows by real weights, rounded by a hash of the row.

    A row weighs its draw count times its factor times the weight of its class in the tree.
    """

    def __init__(self, launch: _Launcher, order: tuple[Array, np.int32]) -> None:
        sampler, upload = launch.sampler, launch.runtime.asarray
        factor = sampler.row_factor if sampler.reweighs else sampler.weights
        code = sampler.balance if sampler.reweighs else None
        self._launch, self._order = launch, order
        self._factor = upload(np.ones(sampler.n_samples) if factor is None else factor)
        self._code = upload(np.zeros(1, np.int32) if code is None else code)
        self._n_classes = 1 if code is None else int(code.max()) + 1
        self._balances = code is not None

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
        kept = zeros(launch.runtime, (n_trees, launch.parts), np.int64)
        largest = zeros(launch.runtime, n_trees, np.uint64)
        launch("count_weighted", kept.size, (*weights, *self._order, n_samples, kept, largest))
        exponent = launch.xp.empty(n_trees, dtype=np.int32)
        bits = np.int32(launch.sampler.weight_bits)
        scale = (largest, np.int32(n_trees), bits, exponent)
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

    def _of(self, n_trees: int, drawn: Array) -> tuple[Any, ...]:
        """The arguments that say what rows weigh."""
        class_weight = self._class_weight(n_trees, drawn)
        stride, n_classes = _stride(drawn, n_trees), np.int32(self._n_classes)
        return drawn, stride, self._factor, self._code, class_weight, n_classes

    def _class_weight(self, n_trees: int, drawn: Array) -> Array:
        """Weights that give the classes of each tree's draws equal weight: float64 (trees, c)."""
        launch, sampler, runtime = self._launch, self._launch.sampler, self._launch.runtime
        if not self._balances:
            return full(runtime, (n_trees, 1), 1.0, np.float64)
        in_class = zeros(runtime, (n_trees, self._n_classes), np.int64)
        chunks = -(-self._n_classes // constant("draw.cu", "CLASS_COUNTS"))
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
