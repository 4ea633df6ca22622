"""Exact SHAP values by Numba: the functions of `backends.numpy.explain`, with the same bits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.backends.compiling import parallel
from gpuboost.backends.numba.explain.interventional import add_interventional
from gpuboost.backends.numba.explain.path_dependent import add_interactions, add_shap_values
from gpuboost.backends.numba.explain.paths import PATH_ROWS, PathArrays, path_state
from gpuboost.backends.numba.references import Reference, by_reference
from gpuboost.backends.numba.threads.map import contiguous, row_chunks
from gpuboost.backends.packed import PackedEnsembles
from gpuboost.engine.explanations.additive import AdditiveModel, completed
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
    return completed(_run(model, X, n_threads, shape, add_interactions))


def interventional_shap(
    model: AdditiveModel, X: np.ndarray, background: np.ndarray, n_threads: int
) -> np.ndarray:
    """Interventional SHAP values, summed over background rows: int64 (n, n_features, n_outputs)."""
    shape = model.n_features, model.n_outputs
    other = np.ascontiguousarray(background, dtype=np.float64)
    return _run(model, X, n_threads, shape, add_interventional, other, n_background=len(other))


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
    n_rows = columns.shape[2]  # of a block
    total = np.zeros((len(columns), *shape, n_rows), dtype=np.int64)
    size = max(1, min(BLOCKS_OF_A_TASK, -(-len(columns) // (2 * n_threads))))
    for group in _groups(model):

        def run(blocks: slice, group: _Group = group) -> None:
            state = path_state(n_rows, group.max_depth, group.n_points, model.ensemble.n_values)
            given = group.addresses, group.trees[0], columns[blocks], *more
            add(*given, scale, by_reference(state), total[blocks])

        parallel(run, row_chunks(len(columns), size), n_threads)
    found = np.moveaxis(total, -1, 1).reshape(-1, *shape)
    return found[: len(X)]


def _blocks(X: np.ndarray) -> np.ndarray:
    """Blocks of rows, the last one padded with 0: float64 (blocks, n_columns, rows).

    A block has `PATH_ROWS` rows; few rows are one block, of a multiple of 8 rows.
    """
    n_rows = min(PATH_ROWS, max(8, -(-len(X) // 8) * 8))
    n_blocks = -(-len(X) // n_rows)
    found = np.zeros((n_blocks * n_rows, X.shape[1]))
    found[: len(X)] = X
    return np.ascontiguousarray(found.reshape(n_blocks, n_rows, -1).transpose(0, 2, 1))


@dataclass(frozen=True, eq=False)
class _Group:
    """Trees that the blocks of a task take together: their `PathArrays` and largest sizes."""

    trees: list[Reference]
    addresses: np.ndarray
    max_depth: int
    n_points: int

    @classmethod
    def of(cls, trees: list[PathTree]) -> _Group:
        found = [_reference(tree) for tree in trees]
        addresses = np.array([each.address for each in found], dtype=np.int64)
        max_depth, n_points = (max(t.max_depth for t in trees), max(t.n_points for t in trees))
        return cls(found, addresses, max_depth, n_points)


_groups_of: PackedEnsembles[list[_Group]] = PackedEnsembles()


def _groups(model: AdditiveModel) -> Iterable[_Group]:
    """The trees in groups, which are kept if the model keeps its trees."""
    if model.keeps_trees:
        return _groups_of.of((model,), None, lambda: list(_make_groups(model)))
    return _make_groups(model)


def _make_groups(model: AdditiveModel) -> Iterator[_Group]:
    """Groups of the trees that have edges, one after another."""
    found: list[PathTree] = []
    n_edges = 0
    for number in range(model.ensemble.n_trees):
        tree = model.path_tree(number)
        n_edges += tree.n_edges
        found += [tree] if tree.n_edges else []
        if n_edges >= EDGES_OF_A_GROUP:
            yield _Group.of(found)
            found, n_edges = [], 0
    if found:
        yield _Group.of(found)


def _reference(tree: PathTree) -> Reference:
    """The tree for compiled code."""
    own = {name: getattr(tree, name) for name in PathArrays._fields if name != "weights"}
    arrays = {k: contiguous(v, v.dtype) for k, v in own.items() if isinstance(v, np.ndarray)}
    return by_reference(PathArrays(**own | arrays, weights=shapley_weights(2 * tree.n_points)))
