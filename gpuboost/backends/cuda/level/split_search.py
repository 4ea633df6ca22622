"""Split search: launches of split.cu, select_split.cu and next_feature.cu."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuboost.backends.cuda.data.matrix import DeviceMatrix
from gpuboost.backends.cuda.level.constraints import DeviceConstraints
from gpuboost.backends.cuda.level.histograms import FeatureLists
from gpuboost.backends.cuda.level.records import DeviceFrontier, DeviceSplits, Search
from gpuboost.backends.cuda.runtime.arrays import column, empty
from gpuboost.backends.cuda.runtime.compile_flags import CompileFlags
from gpuboost.backends.cuda.runtime.grid import striding_blocks
from gpuboost.backends.cuda.runtime.launch import fill, launch
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.backends.cuda.sampling.rows import DeviceRows
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.task import GrowTask

_GRID_ROWS = 65535


@dataclass(frozen=True)
class _FeatureSplits:
    """Best split of each slot by each listed feature; written by split.cu or next_feature.cu."""

    score: Array = column(np.float64, "n", "n_features")
    splittable: Array = column(np.uint8, "n", "n_features")
    bin: Array = column(np.int16, "n", "n_features")
    next_bin: Array = column(np.int16, "n", "n_features")
    draw: Array = column(np.float64, "n", "n_features")
    missing: Array = column(np.int8, "n", "n_features")
    mask: Array = column(np.uint32, "n", "n_features", "mask_words")


@dataclass(frozen=True)
class SplitSearch:
    """Finds the best splits of nodes with split.cu, select_split.cu and next_feature.cu.

    Parameters
    ----------
    runtime : Runtime
    task : GrowTask
    matrix : DeviceMatrix
    allowed : uint8 (trees, F)
        Mask of features that nodes may split on; of shape (nodes, F) with groups of features.
    min_hessian, min_category, root_hessian : int64 (trees,)
        Smallest weights of a child and of a category that is not rare, and weight of the root.
    unit : float64 (1,)
        `Target.gain_unit`.
    regular : float64 (3,)
        l1, l2 and the largest absolute leaf value, for the criterion NEWTON.
    constraints : DeviceConstraints
    by_lists : bool
        Whether histograms have only each node's listed features.
    flags : CompileFlags
    """

    runtime: Runtime
    task: GrowTask
    matrix: DeviceMatrix
    allowed: Array
    min_hessian: Array
    min_category: Array
    root_hessian: Array
    unit: Array
    regular: Array
    constraints: DeviceConstraints
    by_lists: bool
    flags: CompileFlags

    @property
    def n_channels(self) -> int:
        """Number of channels of the target."""
        return self.task.target.n_channels

    @property
    def by_class(self) -> bool:
        """Whether channels are classes."""
        return self.task.target.by_class

    def lists(self, frontier: DeviceFrontier, search: Search, slots: range) -> FeatureLists:
        """List the features of the histograms of ``slots``."""
        xp, n_features = self.runtime.xp, self.matrix.n_features
        if not self.by_lists:
            return FeatureLists(self.matrix.features, 0, n_features, xp.empty(1, dtype=xp.uint64))
        count = self.task.options.max_features
        lists = xp.empty((len(slots), count), dtype=xp.int32)
        last = xp.empty(len(slots), dtype=xp.uint64)
        own = {
            "first_slot": slots.start,
            "n_slots": len(slots),
            "n_features": n_features,
            "max_features": count,
            "listed": lists,
            "last": last,
        }
        self._by_warps("choose_features", frontier, search, **own)
        return FeatureLists(lists, count, count, last)

    def search(self, level: Searched, rows: DeviceRows, splits: DeviceSplits) -> None:
        """Write the splits of open nodes; if the first slot is 0, also empty splits of the rest."""
        found = self._by_feature(level)
        xp = self.runtime.xp
        undecided = xp.empty(level.frontier.capacity, dtype=xp.uint8)
        if self.by_lists:  # else not read
            fill(self.runtime, undecided, 0)
        self._decide(level, found, splits, level.search.open, undecided, level.first_slot == 0)
        if self.by_lists and not level.search.none:
            further, of_next = self._next_features(level, rows, undecided)
            left_over = xp.empty(level.frontier.capacity, dtype=xp.uint8)  # not read
            self._decide(further, of_next, splits, undecided, left_over, False)

    def _by_feature(self, level: Searched) -> _FeatureSplits:
        """Find the best split of each node by each listed feature."""
        matrix, search, lists, slots = self.matrix, level.search, level.lists, level.slots
        found = self._empty(len(slots), lists.n_listed)
        if search.none:
            return found
        given = self._of_candidates(level.frontier, "level/split.cu")
        records = (self, level, level.frontier, search, lists, matrix, self.task.options, found)
        for first in range(0, lists.n_listed, _GRID_ROWS):
            n_entries = min(_GRID_ROWS, lists.n_listed - first)
            n_blocks = -(-striding_blocks(self.runtime, len(slots) * n_entries) // n_entries)
            grid = (n_blocks, n_entries)
            launch(self.runtime, "split_features", grid, *records, **given, first_entry=first)
        return found

    def _empty(self, n: int, n_features: int) -> _FeatureSplits:
        """Allocate the splits of n slots by ``n_features`` features."""
        lengths = {"n": n, "n_features": n_features, "mask_words": self.matrix.mask_words}
        return empty(_FeatureSplits, self.runtime.xp, {}, **lengths)

    def _of_candidates(self, frontier: DeviceFrontier, file_name: str) -> dict[str, Any]:
        """Arguments of kernels that include candidates.cuh, except those in the records."""
        return {
            "constants": self.flags.constants(file_name),
            "min_hessian": self.min_hessian,
            **self.constraints.of_score(frontier, self.regular),
        }

    def _decide(
        self,
        level: Searched,
        found: _FeatureSplits,
        splits: DeviceSplits,
        open_nodes: Array,
        undecided: Array,
        is_first: bool,
    ) -> None:
        """Write the best of each open node's splits in ``found`` to ``splits``, if it is accepted.

        Otherwise the node gets an empty split. Nodes that no listed feature can split, while other
        features are left, are marked in ``undecided``. With ``is_first``, nodes that are not open
        get an empty split, too.
        """
        options, lists, frontier = self.task.options, level.lists, level.frontier
        own = {
            "open": open_nodes,
            "fill": is_first,
            "last_listed": lists.last,
            "undecided": undecided,
        }
        known = (level, level.search, lists, self.matrix, options, found)
        self._by_warps("decide_splits", frontier, *known, out=splits, **own)

    def _next_features(
        self, level: Searched, rows: DeviceRows, undecided: Array
    ) -> tuple[Searched, _FeatureSplits]:
        """Find the next feature that can split each undecided node, and the split by it."""
        xp, matrix, slots = self.runtime.xp, self.matrix, level.slots
        frontier, n_channels = level.frontier, self.task.target.n_channels
        histogram = xp.empty((len(slots), 1, 2 + n_channels, matrix.width), dtype=xp.int64)
        listed = xp.empty((len(slots), 1), dtype=xp.int32)
        found = self._empty(len(slots), 1)
        own = {"undecided": undecided, "last": level.lists.last}
        own |= {"histogram": histogram, "listed": listed}
        n_blocks = striding_blocks(self.runtime, frontier.capacity)
        given = self._of_candidates(frontier, "level/next_feature.cu")
        records = (self, level, frontier, level.search, rows, matrix, self.task.options, found)
        launch(self.runtime, "try_next_features", n_blocks, *records, **own, **given)
        lists = FeatureLists(listed, 1, 1, level.lists.last)
        return replace(level, lists=lists, histogram=histogram), found

    def _by_warps(self, name: str, frontier: DeviceFrontier, *records: Any, **values: Any) -> None:
        """Launch a kernel of select_split.cu, whose warps loop over nodes."""
        n_warps = constant("level/select_split.cu", "SELECT_WARPS")
        n_blocks = striding_blocks(self.runtime, -(-frontier.capacity // n_warps))
        launch(
            self.runtime,
            name,
            n_blocks,
            self,
            frontier,
            *records,
            constants=self.flags.constants("level/select_split.cu"),
            block=(constant("common/common.cuh", "WARP"), n_warps),
            **values,
        )


@dataclass(frozen=True)
class Searched:
    """The nodes of some slots, with their histograms.

    Attributes
    ----------
    frontier : DeviceFrontier
    search : Search
    slots : range
    lists : FeatureLists
    histogram : int64 (len(slots), lists.n_listed, 2 + n_channels, width)
        Histograms of the slots.
    previous : int64 (slots of the level before, n_features, 2 + n_channels, width)
        All histograms of the level before; not read if they were not kept.
    """

    frontier: DeviceFrontier
    search: Search
    slots: range
    lists: FeatureLists
    histogram: Array
    previous: Array

    @property
    def first_slot(self) -> int:
        """The first slot."""
        return self.slots.start

    @property
    def n_slots(self) -> int:
        """Number of slots."""
        return len(self.slots)
