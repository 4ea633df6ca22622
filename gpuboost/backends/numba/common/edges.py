"""The number of edges below each value, without branches that depend on the values.

The range of a feature's edges is divided into `CELLS` cells of equal width. A value's cell is a
rounded multiple of its distance from the first edge, so larger values never have smaller cells:
edges of lower cells are below the value, and those of higher cells are not. The edges of its own
cell are searched bit by bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuboost.backends.numba.compiler import inlined, numerics
from gpuboost.engine.numerics import cell_of

CELLS = 1024
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
    n_bits : int64 (F,)
        Bits of the number of edges in the fullest cell.
    """

    edges: np.ndarray
    n_bins: np.ndarray
    origin: np.ndarray
    scale: np.ndarray
    below: np.ndarray
    n_bits: np.ndarray


def edge_tables(edges: np.ndarray, n_bins: np.ndarray) -> EdgeTables:
    """The tables for ``edges`` (F, at most 65,535), padded with +inf."""
    n_features, width = edges.shape
    with np.errstate(all="ignore"):
        finite = np.where(np.isfinite(edges), edges, np.nan)
        origin = np.fmin.reduce(finite, axis=1, initial=np.nan)
        scale = CELLS / (np.fmax.reduce(finite, axis=1, initial=np.nan) - origin)
    scale[~np.isfinite(scale)] = 0
    below = np.empty((n_features, CELLS), np.min_scalar_type(width))
    n_bits = np.empty(n_features, np.int64)
    ends = edges.dtype.type(0), edges.dtype.type(CELLS - 1)
    for first in range(0, n_features, _TOGETHER):
        own = slice(first, first + _TOGETHER)
        with np.errstate(all="ignore"):
            cells = cell_of(edges[own], origin[own, None], scale[own, None], *ends)
        place = cells.astype(np.int64) + CELLS * np.arange(len(cells))[:, None]
        is_edge = np.arange(width) < n_bins[own, None] - 1
        count = np.bincount(place[is_edge], minlength=place.shape[0] * CELLS).reshape(-1, CELLS)
        below[own] = np.cumsum(count, axis=1) - count
        n_bits[own] = np.frexp(count.max(axis=1))[1]
    table = np.full((n_features, width + (1 << n_bits.max(initial=0))), np.inf, edges.dtype)
    table[:, :width] = edges
    return EdgeTables(table, np.ascontiguousarray(n_bins, np.int64), origin, scale, below, n_bits)


@inlined
def _count_in_cells(values, found, n, edges, below, n_bits):
    """Replace the cell of each value in ``found`` by the number of edges below the value.

    ``n_bits`` is a literal, so that the compiler writes out the steps and needs no branch.
    """
    for i in range(n):
        number, step = np.uint32(below[np.uint32(found[i])]), np.uint32(1 << n_bits)
        for _ in range(n_bits):
            step >>= np.uint32(1)
            number += step * np.uint32(edges[number + step - np.uint32(1)] < values[i])
        found[i] = np.int32(number)


@inlined
def count_edges_below(values, found, n, tables, feature):
    """Write to ``found``, int32, the number of a feature's edges below each of ``n`` values."""
    edges, below, n_bits = tables.edges[feature], tables.below[feature], tables.n_bits[feature]
    origin, scale = tables.origin[feature], tables.scale[feature]
    first, last = values.dtype.type(0), values.dtype.type(CELLS - 1)
    for i in range(n):
        found[i] = np.int32(numerics.cell_of(values[i], origin, scale, first, last))
    if n_bits == 1:
        _count_in_cells(values, found, n, edges, below, 1)
    elif n_bits == 2:
        _count_in_cells(values, found, n, edges, below, 2)
    elif n_bits == 3:
        _count_in_cells(values, found, n, edges, below, 3)
    elif n_bits == 4:
        _count_in_cells(values, found, n, edges, below, 4)
    else:  # a step for all values before the next one: a loop over the steps would have branches
        for i in range(n):
            found[i] = below[np.uint32(found[i])]
        for bit in range(n_bits - 1, -1, -1):
            step = np.uint32(1 << bit)
            for i in range(n):
                number = np.uint32(found[i])
                is_below = np.uint32(edges[number + step - np.uint32(1)] < values[i])
                found[i] = np.int32(number + step * is_below)
