"""Visits of the rows of a row set: leaf values, losses, gradients and hessians, in one pass.

A visit does up to three things, block by block, so that data used twice is read from memory once:

    add the values of the rows' leaves to their raw predictions
    compute the losses at these raw predictions
    compute the directions, which are gradients times -1, and hessians, at these raw predictions

Formulas are compiled, and equal to `engine.losses` bit for bit. The functions of
`engine.losses.formulas` have no branches, so the compiler vectorises the loops over the rows of one
column. Arrays hold one column after the other, but the raw predictions of softmax (K classes) hold
one row after the other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from gpuboost.backends.numba.compiler import (
    Plugin,
    bits_of,
    call_for_nothing,
    float_of,
    formulas,
    inlined,
    numerics,
    specialised,
)
from gpuboost.backends.numba.references import Reference
from gpuboost.backends.numba.threads.barrier import next_task
from gpuboost.backends.numba.threads.commands import SharedFunction
from gpuboost.engine.losses.base import CLASSES
from gpuboost.engine.losses.table import TABLE

GRADIENT_BLOCK = 1 << 11  # rows of a block, which is read several times
SAMPLED = 8  # one row in this many is sampled for the mean magnitude


class RowArrays(NamedTuple):
    """A row set with n rows, for a loss with a formula and K columns of raw predictions.

    Attributes
    ----------
    fill, add : int
        Addresses of the formula's `fill_pairs` and `add_losses`; 0 for softmax.
    y : float64 or int32 (outputs, n)
        Targets; column k belongs to output k modulo the number of outputs.
    raw : float64 (K, n), or (n, K) for softmax
        Raw predictions.
    weights : float64 (n,) or (0,)
        Weights; none if all are ones.
    parameter : float64 (K,)
        The loss's parameter in this round.
    gradient : float64 (K, n), or (0, n) if the row set is only evaluated
        Directions, times the weights.
    hessian : float64 (K, n), or (0, n) if the hessian of each row is its weight
        Hessians, times the weights.
    losses : float64 (n,)
        Loss of each row, without its weight: the mean over columns.
    sizes : float64 (chunks, 4)
        For each chunk, the largest and the approximate mean magnitude of the gradients, then of the
        hessians.
    space : float64 (threads, `GRADIENT_BLOCK` * b)
        Buffers of the threads: b is 1, or K + 2 for softmax.
    chunk : int
        Number of rows of a chunk.
    """

    fill: int
    add: int
    y: np.ndarray
    raw: np.ndarray
    weights: np.ndarray
    parameter: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray
    losses: np.ndarray
    sizes: np.ndarray
    space: np.ndarray
    chunk: int


class Visit(NamedTuple):
    """What a visit of rows does.

    Attributes
    ----------
    rows : reference to RowArrays
    values : float64 (nodes,)
        Values of the nodes of all trees of a round, one column after the other.
    first : int64 (K,)
        Index in ``values`` of the first value of each column.
    leaf : int32 (L, n)
        Leaf of each row, in one tree per column, or in the tree of all columns (L is 1). (0, n) to
        add nothing.
    finds_losses, finds_directions : bool
        What is computed; softmax always computes losses.
    """

    rows: Reference
    values: np.ndarray
    first: np.ndarray
    leaf: np.ndarray
    finds_losses: bool
    finds_directions: bool


# ---- loops over one column, by the number of the formula ---------------------------------------

formula: Any = None  # set to a function of `engine.losses.formulas` by `_loops_of`


def fill_pairs(y, raw, parameter, g, h):
    """Fill the negative gradients and the hessians of a formula."""
    for i in range(raw.size):
        gradient, hessian = formula(np.float64(y[i]), raw[i], parameter)
        g[i], h[i] = -gradient, hessian


def add_losses(y, raw, parameter, total):
    """Add the losses of a formula to ``total``."""
    for i in range(raw.size):
        total[i] += formula(np.float64(y[i]), raw[i], parameter)


def _loops_of(loop: Any, kind: str) -> dict[int, Plugin]:
    """Plugins of a loop for the number of each formula.

    ``kind`` is "pair" or "value", an attribute of `engine.losses.base.LossRow`. Formulas of several
    classes are left out.
    """
    functions = {row.number: getattr(row, kind) for row in TABLE if row.target != CLASSES}
    return {
        number: Plugin(
            specialised(loop, function.__name__, formula=getattr(formulas, function.__name__)),
            types.none,
        )
        for number, function in functions.items()
    }


PAIR_LOOPS, LOSS_LOOPS = _loops_of(fill_pairs, "pair"), _loops_of(add_losses, "value")


# ---- blocks of rows ----------------------------------------------------------------------------


@inlined
def _times(weights, values):
    """Multiply ``values`` by the weights in place; empty weights are ones."""
    for i in range(weights.size):
        values[i] *= weights[i]


@inlined
def _note_sizes(values, share, sizes):
    """Update the largest and mean magnitudes of a chunk with those of some values of one column.

    ``share`` is their share of the values of all columns in the chunk. Magnitudes are compared as
    integers, so that the compiler vectorises the loop.
    """
    largest, total, sampled = bits_of(sizes[0]), 0.0, 0
    for i in range(values.size):
        largest = max(largest, bits_of(abs(values[i])))
    for i in range(0, values.size, SAMPLED):
        total += abs(values[i])
        sampled += 1
    sizes[0] = float_of(largest)
    sizes[1] += total / np.float64(sampled) * share


@inlined
def _add_values(visit, start, stop):
    """Add the values of leaves to the raw predictions of a block of rows."""
    raw = visit.rows.raw
    for k in range(raw.shape[0]):
        own, leaf = raw[k, start:stop], visit.leaf[k % visit.leaf.shape[0], start:stop]
        values = visit.values[visit.first[k] :]
        for i in range(own.size):
            own[i] += values[np.uint64(leaf[i])]


@inlined
def _find_losses(rows, start, stop):
    """Compute the losses of a block of rows."""
    n_columns, total = rows.raw.shape[0], rows.losses[start:stop]
    total[:] = 0.0
    for k in range(n_columns):
        target = rows.y[k % rows.y.shape[0], start:stop]
        call_for_nothing(rows.add, (target, rows.raw[k, start:stop], rows.parameter[k], total))
    for i in range(total.size):
        total[i] /= np.float64(n_columns)


@inlined
def _find_directions(rows, not_kept, sizes, start, stop, share):
    """Compute the directions and hessians of a block of rows."""
    by, is_kept = rows.weights[start:stop], rows.hessian.shape[0] > 0
    for k in range(rows.raw.shape[0]):
        out, target = rows.gradient[k, start:stop], rows.y[k % rows.y.shape[0], start:stop]
        curve = rows.hessian[k, start:stop] if is_kept else not_kept[: stop - start]
        given = (target, rows.raw[k, start:stop], rows.parameter[k], out, curve)
        call_for_nothing(rows.fill, given)
        _times(by, out)
        _note_sizes(out, share, sizes[:2])
        if is_kept:
            _times(by, curve)
            _note_sizes(curve, share, sizes[2:])


def visit_columns(visit, barrier):
    """Visit the rows of any loss but softmax, taking chunks until none is left."""
    rows, not_kept = visit.rows, visit.rows.space[barrier.thread]
    (n_columns, n), n_chunks = rows.raw.shape, rows.sizes.shape[0]
    task = next_task(barrier)
    while task < n_chunks:
        first, sizes = task * rows.chunk, rows.sizes[task]
        last = min(first + rows.chunk, n)
        if visit.finds_directions:
            sizes[: 4 if rows.hessian.shape[0] else 2] = 0.0
        for start in range(first, last, GRADIENT_BLOCK):
            stop = min(start + GRADIENT_BLOCK, last)
            if visit.leaf.shape[0]:
                _add_values(visit, start, stop)
            if visit.finds_losses:
                _find_losses(rows, start, stop)
            if visit.finds_directions:
                share = np.float64(stop - start) / np.float64((last - first) * n_columns)
                _find_directions(rows, not_kept, sizes, start, stop, share)
        task = next_task(barrier)


# ---- softmax -----------------------------------------------------------------------------------


@inlined
def _add_class_values(visit, start, stop):
    """Add the values of leaves to the raw predictions of a block of rows."""
    raw = visit.rows.raw
    for k in range(raw.shape[1]):
        leaf, first = visit.leaf[k % visit.leaf.shape[0]], visit.first[k]
        for i in range(start, stop):
            raw[i, k] += visit.values[first + leaf[i]]


@inlined
def _class_weights(raw, out, total, largest):
    """Fill ``out`` (rows, K) with unnormalised class probabilities, and ``total`` with their sums.

    Also fills ``largest`` with the largest raw prediction of each row.
    """
    n, n_classes = raw.shape
    for i in range(n):
        highest = raw[i, 0]
        for k in range(1, n_classes):
            highest = max(highest, raw[i, k])
        for k in range(n_classes):
            out[i, k] = raw[i, k] - highest
        largest[i] = highest
    flat = out.reshape(-1)
    for j in range(flat.size):  # a flat loop over rows and classes, which is vectorised
        flat[j] = numerics.exp(flat[j])
    for i in range(n):
        added = out[i, 0]
        for k in range(1, n_classes):
            added += out[i, k]
        total[i] = added


@inlined
def _class_directions(rows, weight, total, start, stop, share, sizes):
    """Fill directions and hessians of a block from its unnormalised class probabilities."""
    classes, by = rows.y[0, start:stop], rows.weights[start:stop]
    for k in range(rows.raw.shape[1]):
        out, curve = rows.gradient[k, start:stop], rows.hessian[k, start:stop]
        for i in range(classes.size):
            y = 1.0 if classes[i] == k else 0.0
            pair = formulas.softmax(y, weight[i, k] / total[i], rows.parameter[0])
            out[i], curve[i] = -pair[0], pair[1]
        _times(by, out)
        _times(by, curve)
        _note_sizes(out, share, sizes[:2])
        _note_sizes(curve, share, sizes[2:])


def visit_classes(visit, barrier):
    """Visit the rows of softmax, taking chunks until none is left."""
    rows, own, n_chunks = visit.rows, visit.rows.space[barrier.thread], visit.rows.sizes.shape[0]
    (n, n_classes), block = rows.raw.shape, np.int64(GRADIENT_BLOCK)
    weight = own[: block * n_classes].reshape((block, n_classes))
    total, largest = own[block * n_classes :], own[block * (n_classes + 1) :]
    task = next_task(barrier)
    while task < n_chunks:
        first, sizes = task * rows.chunk, rows.sizes[task]
        last = min(first + rows.chunk, n)
        if visit.finds_directions:
            sizes[:] = 0.0
        for start in range(first, last, block):
            stop = min(start + block, last)
            if visit.leaf.shape[0]:
                _add_class_values(visit, start, stop)
            _class_weights(rows.raw[start:stop], weight[: stop - start], total, largest)
            if visit.finds_directions:
                share = np.float64(stop - start) / np.float64((last - first) * n_classes)
                _class_directions(rows, weight, total, start, stop, share, sizes)
            for i in range(start, stop):
                of_class, at = rows.raw[i, rows.y[0, i]], i - start
                rows.losses[i] = formulas.softmax_loss(of_class, largest[at], total[at])
        task = next_task(barrier)


VISIT_COLUMNS, VISIT_CLASSES = SharedFunction(visit_columns), SharedFunction(visit_classes)
