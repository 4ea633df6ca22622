"""A sampler on the device: the keys of its random numbers, and the lists of drawn rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuboost.backends.cuda.runtime.launch import launch, zeros
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.backends.cuda.sampling.rows import DeviceRows
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.sampling import RowSampler


@dataclass(frozen=True)
class TreeKeys:
    """The numbers on the device that are hashed to the keys of some trees' random numbers.

    Attributes
    ----------
    seed : uint64 (1,)
        Seed of the sampler, or of the task if it has no sampler.
    trees : uint64 (trees,)
        Numbers of the trees.
    """

    seed: Array
    trees: Array

    def __len__(self) -> int:
        return len(self.trees)


@dataclass(frozen=True)
class RowOrder:
    """The order in which rows are listed, uint32 (n,), if ``ordered``; else rows ascend."""

    order: Array
    ordered: bool


def stride_of(drawn: Array, n_trees: int) -> int:
    """Stride between the draw counts ``drawn`` of two trees; 0 if several trees share them."""
    return drawn.shape[1] if len(drawn) == n_trees else 0


class DeviceSampler:
    """A sampler on the device, with the operations that all drawing methods share.

    Attributes
    ----------
    runtime : Runtime
    sampler : RowSampler
    xp : module
        The array module of ``runtime``.
    parts : int
        Number of parts of the rows, see draw.cu.
    """

    def __init__(self, runtime: Runtime, sampler: RowSampler) -> None:
        self.runtime, self.sampler, self.xp = runtime, sampler, runtime.xp
        self.parts = parts_of(sampler.n_samples, "PART")

    def keys(self, trees: Sequence[int]) -> TreeKeys:
        """Copy the seed and the numbers of some trees to the device."""
        seed = np.array([self.sampler.seed], dtype=np.uint64)
        numbers = np.array(trees, dtype=np.uint64)
        return TreeKeys(self.runtime.asarray(seed), self.runtime.asarray(numbers))

    def place(self, kept: Array) -> tuple[Array, Array]:
        """Compute where the rows of each part begin in the list of rows, and count rows by tree.

        ``kept`` is the number of rows of each part that are in the tree: int64 (trees, parts). The
        results are int64 (trees, parts) and int64 (trees,).
        """
        first = self.xp.empty(kept.shape, dtype=np.int64)
        count = self.xp.empty(len(kept), dtype=np.int64)
        sizes = {"n_trees": len(kept), "n_parts": kept.shape[1]}
        launch(self.runtime, "place_parts", 1, kept=kept, first=first, count=count, **sizes)
        return first, count

    def list_drawn(
        self, drawn: Array, n_trees: int, order: RowOrder, columns: Array, rows: DeviceRows
    ) -> Array:
        """Write the drawn rows to ``rows``; return their number in each tree, int64 (trees,).

        ``drawn`` are draw counts as in `draw_counts`, ``columns`` the target, int32 (C, n).
        """
        runtime, kept = self.runtime, zeros(self.runtime, (n_trees, self.parts), np.int64)
        n_samples = self.sampler.n_samples
        given = {"drawn": drawn, "stride": stride_of(drawn, n_trees), "n_samples": n_samples}
        launch(runtime, "count_drawn", kept.size, order, kept=kept, **given)
        first, count = self.place(kept)
        sizes = {"n_columns": len(columns), "target_stride": len(rows)}
        given |= {"first": first, "target": columns, **sizes}
        launch(runtime, "list_drawn", kept.size, order, out=rows, **given)
        return count


def parts_of(n_items: int, size: str) -> int:
    """Number of parts of ``n_items`` rows or draws; ``size`` names a constant of draw.cu."""
    return -(-n_items // constant("sampling/draw.cu", size))
