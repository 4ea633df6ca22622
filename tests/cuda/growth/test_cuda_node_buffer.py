"""Nodes of the buffer are numbered breadth-first and their sums added up, as on the host."""

from __future__ import annotations

import numpy as np
import pytest

from gpuboost.backends.cuda.growth.node_buffer import Numbers
from gpuboost.backends.cuda.runtime.launch import launch
from gpuboost.engine.growth.level_history import breadth_first
from gpuboost.engine.growth.tree import sum_children
from tests import cuda_shim
from tests.cuda.shim_runtime import ShimRuntime

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)


def bushy(rng: np.random.Generator, n_inner: int) -> np.ndarray:
    """Left children of a random tree whose nodes are numbered in the order of the splits."""
    left, leaves = [0], [0]
    for _ in range(n_inner):
        node = leaves.pop(int(rng.integers(len(leaves))))
        left[node] = len(left)
        leaves += [len(left), len(left) + 1]
        left += [0, 0]
    return np.array(left)


def test_numbers_and_sums_of_large_trees() -> None:
    """Levels have more nodes than a block has threads, and nodes are stored in random order."""
    rng = np.random.default_rng(0)
    trees = [bushy(rng, n) for n in (5000, 0, 1, 700)]
    n_trees, rows = len(trees), np.array([5001, 1, 2, 701])
    start = np.cumsum(rows) - rows
    size = sum(map(len, trees))
    pairs = rng.permutation((size - n_trees) // 2)  # position of the children of each split
    left = np.zeros(size, dtype=np.int32)
    places, first = [], 0
    for tree, own in enumerate(trees):
        below = n_trees + 2 * pairs[first : first + len(own) // 2, None] + np.arange(2)
        places.append(np.concatenate([[tree], below.ravel()]))
        first += len(own) // 2
        left[places[-1]] = np.where(own > 0, places[-1][own], 0)
    feature = rng.integers(0, 2, size).astype(np.int32)
    sums = rng.integers(-(2**40), 2**40, (size, 3))
    hessian = rng.integers(1, 99, size)
    expected = []
    for tree, own in enumerate(trees):
        order = breadth_first(own)
        local = np.empty(len(own), dtype=np.int64)
        local[order] = np.arange(len(own))
        numbers = np.where(own[order] > 0, local[own[order]], 0)
        of_nodes = sums[places[tree][order]].copy()
        sum_children(numbers, of_nodes)
        by_mask = (numbers > 0) & (feature[places[tree][order]] == 1)
        category = np.where(by_mask, np.cumsum(by_mask) - 1, -1)
        expected.append((places[tree][order], numbers, of_nodes, category))
    most = 2 * int(rows.sum()) + n_trees
    order_out, category_out = (np.full(most, -9, dtype=np.int32) for _ in range(2))
    level_end = np.zeros(int(rows.sum()) + n_trees, dtype=np.int32)
    table = np.zeros((3, n_trees + 1), dtype=np.int64)
    runtime = ShimRuntime(order_seed=4)
    given = {"start": start, "min_rows": 1, "max_nodes": 0, "max_levels": 0, "n_trees": n_trees}
    given |= {"hessian": hessian, "feature": feature, "left": left, "sums": sums}
    given |= {"is_categorical": np.array([0, 1], dtype=np.uint8), "has_masks": 1}
    given |= {"n_sums": 3, "adds": 1}
    numbers = Numbers(order_out, category_out, level_end, table)
    launch(runtime, "number_nodes", n_trees, numbers, **given)
    launch(runtime, "place_trees", 1, n_trees=n_trees, table=table)
    assert table[0].tolist() == np.cumsum([0, *map(len, trees)]).tolist()
    assert table[1].tolist() == np.cumsum([0, *(e[3].max() + 1 for e in expected)]).tolist()
    assert table[2, :-1].tolist() == hessian[:n_trees].tolist()
    for tree, (nodes, numbers, of_nodes, category) in enumerate(expected):
        first_node = 2 * int(start[tree]) + tree
        own = slice(first_node, first_node + len(nodes))
        np.testing.assert_array_equal(order_out[own], nodes)
        np.testing.assert_array_equal(category_out[own], category)
        np.testing.assert_array_equal(left[nodes], numbers)
        np.testing.assert_array_equal(sums[nodes], of_nodes)
