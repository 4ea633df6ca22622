"""Exact SHAP values by Numba: the functions of `backends.numpy.explain`, with the same bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gpuboost.backends.numba.explain.against import add_against
from gpuboost.backends.numba.explain.path_dependent import add_interactions, add_shap_values
from gpuboost.backends.numba.explain.paths import PATH_ROWS, PathArrays, path_state
from gpuboost.backends.numba.references import Reference, by_reference
from gpuboost.backends.numba.threads.map import contiguous, map_in_order, row_chunks
from gpuboost.engine.explanations.additive import AdditiveModel
from gpuboost.engine.explanations.path_trees import PathTree
from gpuboost.engine.explanations.quadrature import shapley_weights

EDGES_OF_A_GROUP = 2**16  # edges of trees that the blocks of a task take together
BLOCKS_OF_A_TASK = 64


def shap_values(model: AdditiveModel, X: np.ndarray, n_threads: int) -> np.ndarray:
    """Path-dependent SHAP values: int64 (n, n_features, n_outputs)."""
    shape = model.n_features, model.n_outputs
    return _run(model, X, n_threads, shape, add_shap_values)


def shap_interactions(model: AdditiveModel, X: np.ndarray, n_threads: int) -> np.ndarray:
    """Path-dependent interaction values: int64 (n, n_features, n_features, n_outputs)."""
    shape = model.n_features, model.n_features, model.n_outputs
    halves = _run(model, X, n_threads, shape, add_interactions)
    features = np.arange(model.n_features)
    values = halves[:, features, features].copy()
    halves[:, features, features] = 0
    found = halves + halves.transpose(0, 2, 1, 3)
    found[:, features, features] = values - found.sum(axis=2)
    return found


def shap_against(
    model: AdditiveModel, X: np.ndarray, background: np.ndarray, n_threads: int
) -> np.ndarray:
    """Interventional SHAP values, summed over background rows: int64 (n, n_features, n_outputs)."""
    shape = model.n_features, model.n_outputs
    other = np.ascontiguousarray(background, dtype=np.float64)
    return _run(model, X, n_threads, shape, add_against, other, n_background=len(other))


def _run(
    model: AdditiveModel,
    X: np.ndarray,
    n_threads: int,
    shape: tuple[int, ...],
    add: Any,
    *more: Any,
    n_background: int = 1,
) -> np.ndarray:
    """Totals of all rows, of the given shape for each row: int64 (n, *shape)."""
    scale = model.scale(n_background)
    columns = _blocks(X)
    total = np.zeros((len(columns), *shape, PATH_ROWS), dtype=np.int64)
    size = max(1, min(BLOCKS_OF_A_TASK, -(-len(columns) // (2 * n_threads))))
    for trees in _groups(model):
        references = [_reference(tree) for tree in trees]
        addresses = np.array([tree.address for tree in references], dtype=np.int64)
        depth, n_points = max(t.max_depth for t in trees), max(t.n_points for t in trees)

        def run(blocks: slice, addresses: Any = addresses, like: Any = references[0]) -> None:
            state = by_reference(path_state(depth, n_points, model.ensemble.n_values))  # noqa: B023
            add(addresses, like, columns[blocks], *more, scale, state, total[blocks])

        list(map_in_order(run, row_chunks(len(columns), size), n_threads))
    found = np.moveaxis(total, -1, 1).reshape(-1, *shape)
    return found[: len(X)]


def _blocks(X: np.ndarray) -> np.ndarray:
    """Blocks of rows, the last one padded with 0: float64 (blocks, n_columns, `PATH_ROWS`)."""
    n_blocks = -(-len(X) // PATH_ROWS)
    found = np.zeros((n_blocks * PATH_ROWS, X.shape[1]))
    found[: len(X)] = X
    return np.ascontiguousarray(found.reshape(n_blocks, PATH_ROWS, -1).transpose(0, 2, 1))


def _groups(model: AdditiveModel) -> Iterator[list[PathTree]]:
    """The trees that have edges, one group after another."""
    found: list[PathTree] = []
    n_edges = 0
    for number in range(model.ensemble.n_trees):
        tree = model.path_tree(number)
        n_edges += tree.n_edges
        found += [tree] if tree.n_edges else []
        if n_edges >= EDGES_OF_A_GROUP:
            yield found
            found, n_edges = [], 0
    if found:
        yield found


def _reference(tree: PathTree) -> Reference:
    """The tree for compiled code."""
    own = {name: getattr(tree, name) for name in PathArrays._fields if name != "weights"}
    arrays = {k: contiguous(v, v.dtype) for k, v in own.items() if isinstance(v, np.ndarray)}
    return by_reference(PathArrays(**own | arrays, weights=shapley_weights(tree.max_depth)))
