"""Launches of kernels of draw.cu: how rows are listed, and what random numbers are keyed with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.runtime.launch import launch_for_roots, zeros
from gpuboost.backends.cuda.runtime.source import constant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuboost.backends.cuda.runtime.protocol import Runtime
    from gpuboost.backends.cuda.sampling.rows import DeviceRows
    from gpuboost.engine.growth.frontier import Array
    from gpuboost.engine.sampling import RowSampler


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


def stride_of(drawn: Array, n_trees: int) -> np.int64:
    """From one tree's draw counts to the next's; 0 where all trees share them."""
    return np.int64(drawn.shape[1] if len(drawn) == n_trees else 0)


class DrawLauncher:
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

    def list_drawn(
        self,
        drawn: Array,
        n_trees: int,
        order: tuple[Array, np.int32],
        columns: Array,
        rows: DeviceRows,
    ) -> Array:
        """List the rows that are drawn; how many of each tree."""
        stride, n_samples = stride_of(drawn, n_trees), np.int64(self.sampler.n_samples)
        kept = zeros(self.runtime, (n_trees, self.parts), np.int64)
        self("count_drawn", kept.size, (drawn, stride, *order, n_samples, kept))
        first, count = self.place(kept)
        given = (drawn, stride, first, *order, columns, n_samples)
        sizes = (np.int32(len(columns)), np.int64(len(rows)))
        self("list_drawn", kept.size, (*given, *sizes, rows.row, rows.weight, rows.target))
        return count

    def __call__(self, name: str, blocks: int | tuple[int, int], args: tuple[Any, ...]) -> None:
        grid = blocks if isinstance(blocks, tuple) else (blocks,)
        self.launch(name, grid, constant("sampling/draw.cu", "DRAW_THREADS"), args)

    def launch(self, name: str, grid: tuple[int, ...], threads: int, args: tuple[Any, ...]) -> None:
        self.runtime.kernel("sampling/draw.cu", name, {})(grid, (threads,), args)


def parts_of(n_items: int, size: str) -> int:
    """Parts of so many rows or draws; ``size`` is the constant that tells theirs."""
    return -(-n_items // constant("sampling/draw.cu", size))
