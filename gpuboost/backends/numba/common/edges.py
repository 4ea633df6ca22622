"""The number of edges below each value, without branches that depend on the values.

The range of a feature's edges is divided into `CELLS` cells of equal width. A value's cell is a
rounded multiple of its distance from the first edge, so larger values never have smaller cells:
edges of lower cells are below the value, and those of higher cells are not. The edges of its own
cell are searched bit by bit.
"""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.compiler import inlined, numerics
from gpuboost.engine.numerics import cell_of

CELLS = 1024
MAX_IN_CELL = 15
STRIDE = np.int32(16)  # edges from one that is compared with all values to the next
_TOGETHER = 256  # features whose cells are counted together


class EdgeTables(NamedTuple):
    """The edges of features in the form that compiled code takes.

    Attributes
    ----------
    edges : float32 or float64 (F, width)
        Edges, increasing, padded with +inf, so that a search never leaves the table.
    n_bins : int64 (F,)
        Number of edges, plus one.
    origin, scale : as ``edges`` (F,)
        First finite edge, NaN if there is none; and number of cells per unit, 0 if all values are
        in the first cell.
    below : uint8 or uint16 (F, `CELLS`)
        Number of edges in lower cells.
    step : int32 (F,)
        Smallest power of 2 above the number of edges of any cell; 0 if a cell has more than
        `MAX_IN_CELL`, as for a few values far from the others. Then cells are not used.
    """

    edges: np.ndarray
    n_bins: np.ndarray
    origin: np.ndarray
    scale: np.ndarray
    below: np.ndarray
    step: np.ndarray


def edge_tables(edges: np.ndarray, n_bins: np.ndarray) -> EdgeTables:
    """The tables for ``edges`` (F, at most 65,535), padded with +inf."""
    n_features, width = edges.shape
    table = np.full((n_features, width + MAX_IN_CELL + 2), np.inf, edges.dtype)
    table[:, :width] = edges
    with np.errstate(all="ignore"):
        finite = np.where(np.isfinite(edges), edges, np.nan)
        origin = np.fmin.reduce(finite, axis=1, initial=np.nan)
        scale = CELLS / (np.fmax.reduce(finite, axis=1, initial=np.nan) - origin)
    scale[~np.isfinite(scale)] = 0
    below = np.empty((n_features, CELLS), np.min_scalar_type(width))
    step = np.empty(n_features, np.int32)
    ends = edges.dtype.type(0), edges.dtype.type(CELLS - 1)
    for first in range(0, n_features, _TOGETHER):
        own = slice(first, first + _TOGETHER)
        with np.errstate(all="ignore"):
            cells = cell_of(edges[own], origin[own, None], scale[own, None], *ends)
        place = cells.astype(np.int64) + CELLS * np.arange(len(cells))[:, None]
        is_edge = np.arange(width) < n_bins[own, None] - 1
        count = np.bincount(place[is_edge], minlength=place.shape[0] * CELLS).reshape(-1, CELLS)
        below[own] = np.cumsum(count, axis=1) - count
        largest = count.max(axis=1)
        step[own] = np.where(largest > MAX_IN_CELL, 0, 1 << np.frexp(largest)[1])
    return EdgeTables(table, np.ascontiguousarray(n_bins, np.int64), origin, scale, below, step)


@inlined
def count_edges_below(values, found, n, tables, feature):
    """Write to ``found`` the number of a feature's edges below each value.

    Without cells, all values are compared with every `STRIDE`-th edge, which takes no memory
    accesses at computed addresses. (For 255 bins, that takes 0.7 of the time of searching all bits,
    and cells take 0.4.)
    """
    edges, n_bins, step = tables.edges[feature], tables.n_bins[feature], tables.step[feature]
    if step > 0:
        origin, scale, below = tables.origin[feature], tables.scale[feature], tables.below[feature]
        first, last = values.dtype.type(0), values.dtype.type(CELLS - 1)
        for i in range(n):
            found[i] = below[np.uint32(numerics.cell_of(values[i], origin, scale, first, last))]
    else:
        for i in range(n):
            found[i] = 0
        for k in range(STRIDE - 1, n_bins - 1, STRIDE):
            edge = edges[k]
            for i in range(n):
                found[i] += STRIDE if edge < values[i] else np.int32(0)
        step = STRIDE
    while step > 1:
        step >>= np.int32(1)
        for i in range(n):
            found[i] += step if edges[np.uint32(found[i] + step - np.int32(1))] < values[i] else 0
