"""The rows of trees made on the device: the launches of draw.cu. Nothing is read back.

The numbers are those of `gpuboost.engine.sampling.RowSampler.rows`, for a batch of trees at once.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.rows import DeviceRows, LeafColumns
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
        self._columns = runtime.asarray(target_columns(task))
        wide = task.target.wide
        self._wide = None if wide is None else runtime.asarray(wide[None])
        self._weights = _RealWeights(self._launch) if task.sampler.has_real_weights else None
        self.max_weight = ceil(task.sampler.weight_facts.largest)
        self.rows_per_tree = most_rows(task.sampler)

    def rows(self, trees: Sequence[int]) -> tuple[DeviceRows, Array, LeafColumns | None, int]:
        """The rows of some trees.

        Returns
        -------
        rows : DeviceRows
            Ascending, those of tree after tree; there is room for the most there can be.
        count : int64 (trees,)
            Rows of each tree.
        leaf : LeafColumns or None
            None: leaf values are made of draw counts alone.
        max_weight : int
        """
        numbers = self._launch.numbers(trees)
        drawn, wide = self._counts.of(numbers), self._wide
        room = len(trees) * self.rows_per_tree
        rows = DeviceRows.room(self._launch.xp, room, len(self._columns))
        if self._weights is None:
            count = self._list_drawn(drawn, rows, len(trees))
        else:
            count, own = self._weights.list_rows(numbers, drawn, self._columns, rows)
            wide = wide if own is None else own
        return rows, count, self._leaf_columns(wide, len(trees)), self.max_weight

    def _list_drawn(self, drawn: Array, rows: DeviceRows, n_trees: int) -> Array:
        """List the rows that are drawn; how many of each tree."""
        launch, stride = self._launch, _stride(drawn, n_trees)
        kept = launch.xp.zeros((n_trees, launch.parts), dtype=launch.xp.int64)
        n_samples = np.int64(launch.sampler.n_samples)
        launch("count_drawn", kept.size, (drawn, stride, n_samples, kept))
        given = (drawn, stride, _places(launch.xp, kept), self._columns, n_samples)
        sizes = (np.int32(len(self._columns)), np.int64(len(rows)))
        launch("list_drawn", kept.size, (*given, *sizes, rows.row, rows.weight, rows.target))
        return kept.sum(axis=1)

    def _leaf_columns(self, wide: Array | None, n_trees: int) -> LeafColumns | None:
        xp, target = self._launch.xp, self._task.target
        if wide is None:
            return None
        own = len(wide) == n_trees
        wide_of = xp.arange(n_trees, dtype=xp.int32) if own else xp.zeros(n_trees, dtype=xp.int32)
        n_classes = 1 if target.classes is None else target.n_classes
        return LeafColumns(wide, wide_of, n_classes, self._launch.sampler.brief.draws)


def most_rows(sampler: RowSampler) -> int:
    """Rows that a tree has at most."""
    n_rows = sampler.n_samples
    for weights in (sampler.weights, sampler.row_factor):
        if weights is not None:
            n_rows = min(n_rows, int(np.count_nonzero(weights)))
    return n_rows if sampler.method == ALL_ROWS else min(n_rows, sampler.n_draws)


def _places(xp: Any, kept: Array) -> Array:
    """Where each part's first row goes."""
    return (xp.cumsum(kept.ravel()) - kept.ravel()).astype(xp.int64)


def _stride(drawn: Array, n_trees: int) -> np.int64:
    """From one tree's draw counts to the next's; 0 where all trees share them."""
    return np.int64(drawn.shape[1] if len(drawn) == n_trees else 0)


class _Launcher:
    """Launches kernels of draw.cu for one sampler."""

    def __init__(self, runtime: Runtime, sampler: RowSampler) -> None:
        self.runtime, self.sampler, self.xp = runtime, sampler, runtime.xp
        self.seed = np.uint64(sampler.seed)
        self.parts = parts_of(sampler.n_samples, "PART")

    def numbers(self, trees: Sequence[int]) -> Array:
        """The numbers of trees, as kernels key their randomness with them."""
        return self.runtime.asarray(np.array(trees, dtype=np.uint64))

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
        return self.of(self._launch.numbers(trees))

    def of(self, numbers: Array) -> Array:
        """The same for numbers of trees that lie on the device: uint64 (trees,)."""
        return self._draw(numbers)


def _draw_of(launch: _Launcher) -> Callable[[Array], Array]:
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
            self._drawn = launch.runtime.asarray(whole.astype(np.uint32)[None])

    def __call__(self, trees: Array) -> Array:
        return self._drawn


class _Bootstrap:
    """With replacement, all rows alike."""

    _name = "draw_uniform"

    def __init__(self, launch: _Launcher) -> None:
        self._launch = launch

    def __call__(self, trees: Array) -> Array:
        launch, sampler = self._launch, self._launch.sampler
        drawn = launch.xp.zeros((len(trees), sampler.n_samples), dtype=launch.xp.uint32)
        sizes = (np.int64(sampler.n_samples), np.int64(sampler.n_draws))
        blocks = len(trees) * parts_of(sampler.n_draws, "PART")
        launch(self._name, blocks, (trees, launch.seed, *self._by(), *sizes, drawn))
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

    def __call__(self, trees: Array) -> Array:
        launch, xp, sampler = self._launch, self._launch.xp, self._launch.sampler
        last = xp.zeros((len(trees), 2), dtype=xp.uint64)
        wanted = xp.full(len(trees), sampler.n_draws, dtype=xp.int64)
        digits = xp.zeros((len(trees), constant("draw.cu", "DIGITS")), dtype=xp.uint32)
        order = (trees, launch.seed, self._weights, self._weighted, np.int64(sampler.n_samples))
        blocks = len(trees) * parts_of(sampler.n_samples, "DIGIT_PART")
        for settled, shift, of_row in _digit_passes():
            at = (np.uint64(settled), np.int32(shift), np.int32(of_row))
            launch("count_digits", blocks, (*order, last, wanted, *at, digits))
            choice = (digits, last, wanted, *at[1:])
            launch.launch("choose_digit", (len(trees),), constant("common.cuh", "WARP"), choice)
        drawn = xp.empty((len(trees), sampler.n_samples), dtype=xp.uint32)
        launch("mark_smallest", len(trees) * launch.parts, (*order, last, drawn))
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

    def __init__(self, launch: _Launcher) -> None:
        sampler, upload = launch.sampler, launch.runtime.asarray
        factor = sampler.row_factor if sampler.reweighs else sampler.weights
        code = sampler.balance if sampler.reweighs else None
        self._launch = launch
        self._factor = upload(np.ones(sampler.n_samples) if factor is None else factor)
        self._code = upload(np.zeros(1, np.int32) if code is None else code)
        self._n_classes = 1 if code is None else int(code.max()) + 1
        self._balances = code is not None

    def list_rows(
        self, trees: Array, drawn: Array, columns: Array, rows: DeviceRows
    ) -> tuple[Array, Array | None]:
        """List the rows of positive weight.

        Returns
        -------
        count : int64 (trees,)
        wide : int64 (trees, n, 2) or None
            Leaf sums that trees have to themselves.
        """
        launch, xp = self._launch, self._launch.xp
        n_samples = np.int64(launch.sampler.n_samples)
        weights = self._of(trees, drawn)
        kept = xp.zeros((len(trees), launch.parts), dtype=xp.int64)
        largest = xp.zeros(len(trees), dtype=xp.uint64)
        launch("count_weighted", kept.size, (*weights, n_samples, kept, largest))
        bits = launch.sampler.weight_bits
        exponent = (bits - xp.frexp(largest.view(xp.float64))[1]).astype(xp.int32)
        wide, own = self._own_sums(len(trees))
        args = (
            *(trees, launch.seed, *weights, exponent, _places(xp, kept), columns, n_samples),
            *(np.int32(len(columns)), np.int64(len(rows)), *own),
            *(rows.row, rows.weight, rows.target),
        )
        launch("list_weighted", kept.size, args)
        return kept.sum(axis=1), wide

    def _of(self, trees: Array, drawn: Array) -> tuple[Any, ...]:
        """The arguments that say what rows weigh."""
        class_weight = self._class_weight(len(trees), drawn)
        stride, n_classes = _stride(drawn, len(trees)), np.int32(self._n_classes)
        return drawn, stride, self._factor, self._code, class_weight, n_classes

    def _class_weight(self, n_trees: int, drawn: Array) -> Array:
        """Weights that give the classes of each tree's draws equal weight: float64 (trees, c)."""
        launch, xp, sampler = self._launch, self._launch.xp, self._launch.sampler
        if not self._balances:
            return xp.ones((n_trees, 1))
        in_class = xp.zeros((n_trees, self._n_classes), dtype=xp.int64)
        chunks = -(-self._n_classes // constant("draw.cu", "CLASS_COUNTS"))
        sizes = (np.int64(sampler.n_samples), np.int32(self._n_classes))
        grid = (n_trees * launch.parts, chunks)
        launch("count_classes", grid, (drawn, self._code, *sizes, in_class))
        present = (in_class > 0).sum(axis=1, keepdims=True)
        return sampler.n_draws / (present * xp.maximum(in_class, 1)).astype(xp.float64)

    def _own_sums(self, n_trees: int) -> tuple[Array | None, tuple[Any, ...]]:
        """Room for leaf sums of trees' own, if they have any, and the arguments that say so."""
        xp, sampler = self._launch.xp, self._launch.sampler
        exponents = sampler.brief.exponents
        if exponents is None:
            none = xp.zeros(1, dtype=xp.int64)
            return None, (np.int32(0), np.int32(0), np.int32(0), none)
        wide = xp.empty((n_trees, sampler.n_samples, 2), dtype=xp.int64)
        high, low = int(exponents[0]), int(exponents[1] - exponents[0])
        return wide, (np.int32(1), np.int32(high), np.int32(low), wide)
