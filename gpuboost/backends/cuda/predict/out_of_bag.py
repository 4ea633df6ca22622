"""Out-of-bag sums on the device: rows are drawn again; leaf values of those not drawn are added."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from gpuboost.backends.cuda.data.features import DeviceFeatures
from gpuboost.backends.cuda.predict.packed_forest import DeviceForest, device_forest
from gpuboost.backends.cuda.predict.predict import find_leaves
from gpuboost.backends.cuda.runtime.launch import launch
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.backends.cuda.sampling.device_sampler import DeviceSampler, stride_of
from gpuboost.backends.cuda.sampling.draw import draw_counts
from gpuboost.backends.host.binned import code_blocks
from gpuboost.engine.bins import BinnedMatrix
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.sampling import RowSampler

BYTES_PER_DRAW = 12  # per row and tree: leaf, draw count, and draw count of the group before
OUT_OF_BAG_TREES = 64  # trees drawn together, at most; they fill a device even if rows are few


def sum_out_of_bag(
    runtime: Runtime,
    ensemble: Ensemble,
    matrix: BinnedMatrix,
    draws: Sequence[tuple[RowSampler, int]],
) -> tuple[np.ndarray, np.ndarray]:
    """Sum leaf values out of bag; see `gpuboost.backends.protocol.Backend.sum_out_of_bag`."""
    xp, n = runtime.xp, matrix.n_samples
    forest = device_forest(runtime, ensemble, np.dtype(np.float32))
    if not matrix.is_blocked:
        matrix = replace(matrix, stored=runtime.asarray(matrix.codes))
    total = xp.zeros((n, forest.n_values), dtype=xp.float64)
    count = xp.zeros(n, dtype=xp.int64)
    capacity = runtime.memory_budget() // (BYTES_PER_DRAW * n)
    for first, drawn in _drawn(runtime, draws, max(1, min(capacity, OUT_OF_BAG_TREES))):
        trees = replace(forest, offset=forest.offset[first : first + len(drawn[1]) + 1])
        for rows, block in code_blocks(matrix):
            found = find_leaves(runtime, trees, DeviceFeatures.of(xp, runtime.asarray(block)))
            _add(runtime, trees, found, drawn[0], rows.start, total, count)
    return runtime.to_host(total), runtime.to_host(count)


def _drawn(
    runtime: Runtime, draws: Sequence[tuple[RowSampler, int]], capacity: int
) -> Iterator[tuple[int, tuple[Array, list[int]]]]:
    """Yield, for each group of up to ``capacity`` trees, what is needed to add their leaf values.

    This is the index of the group's first tree in the ensemble, and a pair: the draw counts of the
    group, and the numbers of its trees in their sampler. A group has one sampler.
    """
    first = 0
    for _, group in groupby(draws, key=lambda draw: id(draw[0])):
        of_sampler = list(group)
        device = DeviceSampler(runtime, of_sampler[0][0])
        counts = draw_counts(device)
        for start in range(0, len(of_sampler), capacity):
            numbers = [tree for _, tree in of_sampler[start : start + capacity]]
            yield first, (counts(device.keys(numbers)), numbers)
            first += len(numbers)


def _add(
    runtime: Runtime,
    forest: DeviceForest,
    found: Array,
    drawn: Array,
    start: int,
    total: Array,
    count: Array,
) -> None:
    """Add the leaf values of rows from ``start`` on, in the trees that did not draw them.

    ``found``, int32 (trees, n), are the rows' leaves; ``total`` and ``count`` are updated in place.
    """
    n_trees, n = found.shape
    own = {"found": found, "drawn": drawn, "start": start, "n": n, "total": total, "count": count}
    own["stride"] = stride_of(drawn, n_trees)
    threads = constant("predict/predict.cu", "PREDICT_THREADS")
    n_blocks, constants = -(-n * forest.n_values // threads), {"NODE": forest.node}
    launch(runtime, "add_out_of_bag", n_blocks, forest, constants=constants, **own)
