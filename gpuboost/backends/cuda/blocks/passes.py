"""Passes over the rows of a batch of trees on a device; see `numpy.blocks.passes.BlockPasses`.

    on the device   nodes, weights and targets of all rows, as many codes as its memory holds
    copied to it    the other codes in every pass, and the splits of each level
    copied back     histograms and counts of each level, leaf sums; leaves when the trees are grown

The host searches the histograms and keeps the trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from gpuboost.backends.cuda.blocks.codes import DeviceCodes
from gpuboost.backends.cuda.blocks.records import BlockRows, Routing, SearchedNodes, tree_stride
from gpuboost.backends.cuda.runtime.grid import blocks_for
from gpuboost.backends.cuda.runtime.launch import launch, zeros
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.backends.numpy.blocks.passes import BlockPasses, PassThreads, node_table
from gpuboost.backends.numpy.blocks.sums import RowGroups
from gpuboost.engine.code_blocks import CodeChunk
from gpuboost.engine.growth.frontier import Array, Frontier
from gpuboost.engine.targets import ClassTarget, TreeRows, ValueTarget
from gpuboost.engine.task import GrowTask

_FILE = "blocks/block_rows.cu"


class DevicePasses(BlockPasses):
    """The passes over rows and codes of a batch of trees, on a device."""

    def __init__(
        self,
        runtime: Runtime,
        codes: DeviceCodes,
        budget: int,
        task: GrowTask,
        tree_rows: Sequence[TreeRows],
        threads: PassThreads,
    ) -> None:
        super().__init__(task, tree_rows, threads)
        self._runtime, self._codes, self._budget = runtime, codes, budget
        self._rows: Any = None  # `BlockRows` after `open_roots`
        self._found: Array = None  # leaf of each row

    @property
    def histogram_bytes(self) -> int:
        """Bytes of histograms that fit the memory of the host and of the device."""
        return min(self._task.memory_budget, self._budget)

    def loads_rows(self, n_bytes: int) -> bool:
        """Whether the histograms of the next level, of ``n_bytes`` bytes, need several passes."""
        return 2 * n_bytes > self.histogram_bytes

    def open_roots(self, trees: Sequence[int], node: np.ndarray) -> Frontier:
        """Set ``node`` to the roots of the rows in each tree, and copy it; return the roots."""
        roots = super().open_roots(trees, node)
        with self._runtime.active():
            weight = self._upload([own.weight for own in self._tree_rows], np.uint32)
            self._rows = BlockRows(self._runtime.asarray(node), weight, self._values())
        return roots

    def run(
        self, node: np.ndarray, frontier: Frontier, slot: np.ndarray | None = None, n_slots: int = 0
    ) -> np.ndarray:
        """Send rows to their nodes, count them, and make histograms: (F, n_slots, width, cell)."""
        matrix, runtime = self._task.matrix, self._runtime
        shape = matrix.n_features, n_slots, matrix.width, self.cell
        with runtime.active():
            histogram = zeros(runtime, shape, np.int64) if n_slots else None
            routing = self._routing(len(frontier))
            if histogram is not None:
                assert slot is not None
                self._run_chunks(routing, self._searched(frontier, slot), histogram)
            elif routing is not None:
                for rows in self._blocks.row_slices:
                    self._route_rows(routing, rows)
            self._pending = None
            if routing is not None:
                np.add(frontier.count, runtime.to_host(routing.count), out=frontier.count)
            if histogram is None:
                return np.zeros(shape, np.int64)
            return np.asarray(runtime.to_host(histogram))

    def value_ranges(self, node: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        """Lower ``low`` and raise ``high`` to the range of each node's target values."""
        runtime = self._runtime
        with runtime.active():
            found = [runtime.asarray(bound.astype(np.int32)) for bound in (low, high)]
            given = {"low": found[0], "high": found[1], "n_channels": low.shape[1]}
            self._launch("block_value_ranges", **given)
            low[...], high[...] = (runtime.to_host(bound) for bound in found)

    def leaf_sums(
        self, node: np.ndarray, frontier: Frontier, leaves: np.ndarray, shape: tuple[int, int]
    ) -> np.ndarray:
        """Leaf sums of some nodes, for each class if there are any: int64 (m, classes * P)."""
        (n_classes, n_columns), runtime = shape, self._runtime
        place = node_table(frontier, leaves, np.arange(len(leaves)) * n_classes)
        with runtime.active():
            sums = zeros(runtime, (len(leaves) * n_classes, n_columns), np.int64)
            if len(leaves):
                given = {"wide": self._wide, "wide_stride": tree_stride(self._wide)}
                given |= {"n_columns": n_columns, "draws": self._tree_rows[0].draws}
                by_class = isinstance(self._task.target, ClassTarget)
                place = runtime.asarray(place.astype(np.int32))
                self._launch("add_block_leaves", place=place, by_class=by_class, sums=sums, **given)
            return np.asarray(runtime.to_host(sums)).reshape(len(leaves), n_classes * n_columns)

    def record_leaves(self, node: np.ndarray, number: np.ndarray, found: np.ndarray) -> None:
        """Set the number of the leaf of each row in one; `read_leaves` copies them."""
        runtime = self._runtime
        with runtime.active():
            if self._found is None:
                self._found = zeros(runtime, found.shape, np.int32)
            given = {"number": runtime.asarray(number.astype(np.int32)), "found": self._found}
            self._launch("record_block_leaves", **given)

    def nodes_of(self, node: np.ndarray) -> np.ndarray:
        """The nodes of rows."""
        with self._runtime.active():
            return np.asarray(self._runtime.to_host(self._rows.node))

    def read_leaves(self, found: np.ndarray) -> None:
        """Copy the leaves of rows to ``found``."""
        if self._found is not None:
            with self._runtime.active():
                found[...] = self._runtime.to_host(self._found)

    # ---- chunks of codes -----------------------------------------------------------------------

    def _run_chunks(
        self, routing: Routing | None, searched: SearchedNodes, histogram: Array
    ) -> None:
        """Send the rows of all chunks to their nodes, and add them to histograms."""
        target, current = self._task.target, slice(0, 0)
        rows = self._rows
        if self.signs is not None:
            rows = BlockRows(rows.node, rows.weight, self._upload(list(self.signs), np.int32))
        given = {
            "histogram": histogram,
            "n_slots": histogram.shape[1],
            "width": histogram.shape[2],
            "n_channels": target.n_channels,
            "by_class": target.is_multiclass,
            "times_weight": not target.has_gradients,
            "counted": self._task.options.min_samples_leaf > 1,
        }
        for chunk in self._codes.chunks():
            if routing is not None and chunk.rows != current:
                self._route_rows(routing, chunk.rows, chunk)
            current, own = chunk.rows, self._sum_grid(chunk, searched.n_places)
            launch(self._runtime, *own.pop("launch"), rows, searched, **given, **own)

    def _sum_grid(self, chunk: CodeChunk, n_places: int) -> dict[str, Any]:
        """The kernel, grid and arguments that add a chunk: in shared memory if that is enough."""
        runtime, n_features, trees = self._runtime, len(chunk.codes), len(self._rows.node)
        n_bytes = 8 * self.cell * n_places * self._task.matrix.width
        group = min(constant(_FILE, "GROUP_FEATURES"), n_features, runtime.shared_memory // n_bytes)
        given = of_chunk(chunk) | {"first_feature": chunk.first, "n_features": n_features}
        n_rows = given["n_rows"]
        if group == 0:
            group = constant(_FILE, "GROUP_FEATURES")
            grid = blocks_of(n_rows), -(-n_features // group), trees
            return given | {"launch": ("add_block_rows", grid), "group": group}
        groups, threads = -(-n_features // group), constant(_FILE, "SUM_ROWS_THREADS")
        n_blocks = -(-runtime.n_multiprocessors // (groups * trees))
        grid = min(n_blocks, -(-n_rows // threads)), groups, trees
        given |= {"group": group, "shared_mem": group * n_bytes}
        return given | {"launch": ("sum_block_rows", grid)}

    def _searched(self, frontier: Frontier, slot: np.ndarray) -> SearchedNodes:
        """The nodes that get histograms, numbered in each tree."""
        n_trees = len(self._rows.node)
        groups = RowGroups.of(slot, frontier.tree, n_trees)
        place = np.where(slot >= 0, groups.group[1:], -1).astype(np.int32)
        slots = np.full((n_trees, groups.n_groups), -1, np.int32)
        slots[frontier.tree[groups.nodes], place[groups.nodes]] = groups.slots
        return SearchedNodes(self._runtime.asarray(place), self._runtime.asarray(slots))

    def _route_rows(self, routing: Routing, rows: slice, chunk: CodeChunk | None = None) -> None:
        """Send the rows of a block to the children of their nodes, by all codes or some columns."""
        is_whole = chunk is not None and len(chunk.codes) == self._task.matrix.n_features
        codes: Any = chunk.codes if chunk is not None and is_whole else None
        if codes is None:
            codes, is_whole = self._codes.columns(rows, routing.used)
        given = {
            **of_chunk(CodeChunk(rows, 0, codes)),
            "feature": routing.feature if is_whole else routing.column,
            "n_nodes": len(routing.count),
        }
        grid = blocks_of(given["n_rows"]), 1, len(self._rows.node)
        launch(
            self._runtime,
            "route_block_rows",
            grid,
            step=routing.step,
            count=routing.count,
            node=self._rows.node,
            n_samples=self._rows.n_samples,
            **given,
        )

    def _routing(self, n_nodes: int) -> Routing | None:
        """The splits of the last level on the device, None if rows are in their nodes."""
        pending, runtime = self._pending, self._runtime
        if pending is None:
            return None
        feature = pending.feature
        used = np.unique(feature[feature >= 0])
        column = np.where(feature >= 0, np.searchsorted(used, feature), -1)
        return Routing(
            used,
            runtime.asarray(feature.astype(np.int32)),
            runtime.asarray(column.astype(np.int32)),
            runtime.asarray(pending.step),
            zeros(runtime, n_nodes, np.int64),
        )

    # ---- rows ----------------------------------------------------------------------------------

    def _launch(self, name: str, **given: Any) -> None:
        """Launch a kernel over all rows of all trees."""
        rows = self._rows
        grid = blocks_of(rows.n_samples), 1, len(rows.node)
        launch(self._runtime, name, grid, rows, **given)

    def _upload(self, of_trees: Sequence[np.ndarray], dtype: Any) -> Array:
        """Arrays of the trees as one array (trees, ...); (1, ...) if all trees have the same."""
        first = of_trees[0]
        parts = [first] if all(own is first for own in of_trees) else of_trees
        array = self._runtime.xp.empty((len(parts), *first.shape), dtype=dtype)
        for tree, own in enumerate(parts):
            self._runtime.upload(np.ascontiguousarray(own, dtype), array[tree])
        return array

    def _values(self) -> Array:
        """Gradients, values or classes of rows; zeros for medians, whose signs come later."""
        target = self._task.target
        given: Any = [np.zeros((0, 1), np.int32)]
        if target.has_gradients:
            given = [own.gradient for own in self._tree_rows]
        elif isinstance(target, ClassTarget):
            given = [target.classes[:, None]]
        elif isinstance(target, ValueTarget):
            given = [target.values]
        return self._upload(given, np.int32)

    @cached_property
    def _wide(self) -> Array:
        """Terms of leaf sums: int64 (trees or 1, n, P)."""
        target: Any = self._task.target
        given = [target.wide if own.wide is None else own.wide for own in self._tree_rows]
        return self._upload(given, np.int64)


def blocks_of(n_rows: int) -> int:
    """Number of blocks of threads that loop over rows."""
    return blocks_for(n_rows, constant(_FILE, "BLOCK_ROWS_THREADS"))


def of_chunk(chunk: CodeChunk) -> dict[str, Any]:
    """The arguments of kernels that depend on the rows of a chunk."""
    first, n_rows = chunk.rows.start, chunk.rows.stop - chunk.rows.start
    return {"codes": chunk.codes, "first_row": first, "n_rows": n_rows}
