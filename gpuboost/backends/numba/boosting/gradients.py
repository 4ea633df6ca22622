"""Gradients, times -1, and hessians of every loss, as in `engine.losses` bit for bit.

Formulas are compiled. Rows are cut into chunks for the threads, and chunks into blocks that stay in
the L1 and L2 caches, so that data used twice is read from memory once. The functions of
`engine.losses.formulas` have no branches, so the compiler vectorises the loops over the rows of one
column.
"""

# mypy: check-untyped-defs=False
# Numba infers the types of compiled functions.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types

from gpuboost.backends.numba.compiler import (
    Plugin,
    bits_of,
    call_for_nothing,
    entry,
    float_of,
    formulas,
    inlined,
    numerics,
    specialised,
)
from gpuboost.backends.numba.threads.map import contiguous, row_chunks
from gpuboost.backends.numba.threads.pool import ThreadPool
from gpuboost.engine.losses import Loss, Predicted
from gpuboost.engine.losses.base import CLASSES
from gpuboost.engine.losses.table import TABLE

CHUNK = 1 << 13  # rows of one task
SHARED_GRADIENTS = 1 << 14  # with fewer rows one thread is faster (measured)
GRADIENT_BLOCK = 1 << 11  # rows of a block, which is read several times
SAMPLED = 8  # one row in this many is sampled for the mean magnitude


class Directions(NamedTuple):
    """Directions (negative gradients) and hessians of the loss in K columns, times the weights.

    Attributes
    ----------
    gradient : float64 (K, n)
        Negative gradients.
    hessian : float64 (K, n) or (1, n)
        One row of weights if these are the hessians of all columns.
    sizes : float64 (chunks, 4)
        For each chunk, the largest and the approximate mean magnitude of the gradients, then of the
        hessians. Hessians that are weights have the values of all rows in each chunk. For a loss
        without a formula, all rows are one chunk.
    """

    gradient: np.ndarray
    hessian: np.ndarray
    sizes: np.ndarray


formula: Any = None  # set to a function of `engine.losses.formulas` by `loops_of`
COLUMN = types.Array(types.float64, 1, "C")


# ---- loops over one column ---------------------------------------------------------------------


def fill_pairs(y, raw, parameter, g, h):
    """Fill the negative gradients and the hessians of a formula."""
    for i in range(raw.size):
        gradient, hessian = formula(np.float64(y[i]), raw[i], parameter)
        g[i], h[i] = -gradient, hessian


@inlined
def _times(weights, values):
    """Multiply ``values`` by the weights in place; empty weights are ones."""
    for i in range(weights.size):
        values[i] *= weights[i]


# ---- loops by the number of the formula --------------------------------------------------------


def loops_of(loop: Any, kind: str) -> dict[int, Plugin]:
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


PAIR_LOOPS = loops_of(fill_pairs, "pair")


# ---- entries, which Python calls for a chunk of rows -------------------------------------------
#
# Arrays hold one column after the other: ``y`` (outputs, n) and ``raw`` (K, n). For softmax,
# ``classes`` is (n,) and ``raw`` is (n, K). Empty weights are ones. ``sizes`` is one row of
# `Directions.sizes`, initially zero; ``rows`` is the first row of the chunk and its end.


@inlined
def _note_sizes(values, rows, n_columns, sizes):
    """Update the largest and mean magnitudes of a chunk with those of some values of one column.

    Magnitudes are compared as integers, so that the compiler vectorises the loop.
    """
    largest, total, sampled = bits_of(sizes[0]), 0.0, 0
    for i in range(values.size):
        largest = max(largest, bits_of(abs(values[i])))
    for i in range(0, values.size, SAMPLED):
        total += abs(values[i])
        sampled += 1
    sizes[0] = float_of(largest)
    share = np.float64(values.size) / np.float64((rows[1] - rows[0]) * n_columns)
    sizes[1] += total / np.float64(sampled) * share


@entry
def column_gradients(fill, y, raw, weights, parameter, g, h, not_kept, sizes, rows):
    """Fill directions ``g`` and hessians ``h``; column k belongs to output k modulo ``len(y)``.

    ``fill`` is the address of the formula's `fill_pairs`. ``h`` has no rows if the hessian of each
    row is its weight; the formula's hessians are then written to ``not_kept`` (`GRADIENT_BLOCK`,).
    """
    for start in range(rows[0], rows[1], GRADIENT_BLOCK):
        stop = min(start + GRADIENT_BLOCK, rows[1])
        by = weights[start:stop]
        for k in range(raw.shape[0]):
            out, target = g[k, start:stop], y[k % y.shape[0], start:stop]
            curve = h[k, start:stop] if h.shape[0] else not_kept[: stop - start]
            call_for_nothing(fill, (target, raw[k, start:stop], parameter[k], out, curve))
            _times(by, out)
            _note_sizes(out, rows, raw.shape[0], sizes[:2])
            if h.shape[0]:
                _times(by, curve)
                _note_sizes(curve, rows, raw.shape[0], sizes[2:])


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
def _class_directions(classes, own, total, weights, parameter, g, h):
    """Fill directions and hessians of one class, whose unnormalised probabilities are ``own``.

    ``classes`` is (class of each row, number of this class).
    """
    for i in range(classes[0].size):
        y = 1.0 if classes[0][i] == classes[1] else 0.0
        gradient, hessian = formulas.softmax(y, own[i] / total[i], parameter)
        g[i], h[i] = -gradient, hessian
    _times(weights, g)
    _times(weights, h)


@entry
def softmax_gradients(classes, raw, weights, factor, g, h, losses, space, sizes, rows):
    """Fill directions and hessians of several classes, (K, n), and the unweighted loss of each row.

    ``factor`` is the parameter of the loss. ``space`` is a buffer, float64 (K + 2,
    `GRADIENT_BLOCK`).
    """
    n_classes, width = raw.shape[1], space.shape[1]
    total, largest = space[n_classes], space[n_classes + 1]
    flat = space.reshape(-1)
    weight = flat[: width * n_classes].reshape((width, n_classes))
    for start in range(rows[0], rows[1], GRADIENT_BLOCK):
        stop = min(start + GRADIENT_BLOCK, rows[1])
        n = stop - start
        _class_weights(raw[start:stop], weight[:n], total, largest)
        by = weights[start:stop]
        for k in range(n_classes):
            out, curve, own = g[k, start:stop], h[k, start:stop], (classes[start:stop], k)
            _class_directions(own, weight[:n, k], total, by, factor, out, curve)
            _note_sizes(out, rows, n_classes, sizes[:2])
            _note_sizes(curve, rows, n_classes, sizes[2:])
        for i in range(start, stop):
            at = i - start
            losses[i] = formulas.softmax_loss(raw[i, classes[i]], largest[at], total[at])


# ---- drivers -----------------------------------------------------------------------------------

NO_WEIGHTS = np.zeros(0)


def directions(
    loss: Loss, predicted: Predicted, parameter: np.ndarray, pool: ThreadPool
) -> Directions:
    """Gradients, times -1, and hessians of `Loss.gradients`, bit for bit.

    If the loss has a formula, raw predictions are copied, unless they are row-major (for softmax)
    or column-major (for other losses).
    """
    if not loss.has_formula:
        return _directions_of(*loss.gradients(predicted, parameter))
    if loss.takes_rows:
        return class_directions(predicted, parameter, pool)[0]
    w = weights_of(predicted)
    target, columns = arrays_of(loss, predicted)
    kinds = typeof(target[0]), COLUMN, types.float64, COLUMN, COLUMN
    fill = PAIR_LOOPS[loss.formula].address(*kinds)
    given = (fill, target, columns, w, contiguous(parameter, np.float64))
    (n_columns, n), sizes = columns.shape, _no_sizes(len(predicted.raw))
    g, h = np.empty((n_columns, n)), np.empty((0 if loss.constant_hessian else n_columns, n))

    def fill_chunk(rows: tuple[int, int]) -> None:
        not_kept = np.empty(GRADIENT_BLOCK)
        column_gradients(*given, g, h, not_kept, sizes[rows[0] // CHUNK], rows)

    by_chunks(fill_chunk, n, pool)
    if loss.constant_hessian:
        h = (w if len(w) else np.ones(n))[None]
        sizes[:, 2], sizes[:, 3] = h.max(), h.mean()
    return Directions(g, h, sizes)


def class_directions(
    predicted: Predicted, parameter: np.ndarray, pool: ThreadPool
) -> tuple[Directions, np.ndarray]:
    """The `Directions` of several classes, and the unweighted loss of each row."""
    classes, raw = contiguous(predicted.y, np.int32), contiguous(predicted.raw, np.float64)
    w, n = weights_of(predicted), len(raw)
    g, h, losses = np.empty((raw.shape[1], n)), np.empty((raw.shape[1], n)), np.empty(n)
    given, sizes = (classes, raw, w, float(parameter[0]), g, h, losses), _no_sizes(n)

    def fill_chunk(rows: tuple[int, int]) -> None:
        space = np.empty((raw.shape[1] + 2, GRADIENT_BLOCK))
        softmax_gradients(*given, space, sizes[rows[0] // CHUNK], rows)

    by_chunks(fill_chunk, n, pool)
    return Directions(g, h, sizes), losses


def _directions_of(gradient: np.ndarray, hessian: np.ndarray) -> Directions:
    """The `Directions` from computed gradients and hessians (n, K)."""
    g, h = np.ascontiguousarray(-gradient.T), np.ascontiguousarray(hessian.T)
    sizes = [f(values) for values in (abs(g), h) for f in (np.max, np.mean)]
    return Directions(g, h, np.array([sizes]))


def _no_sizes(n: int) -> np.ndarray:
    return np.zeros((-(-n // CHUNK), 4))


def weights_of(predicted: Predicted) -> np.ndarray:
    """Weights of the rows; empty if all are ones."""
    weights = predicted.weights
    return NO_WEIGHTS if weights is None else contiguous(weights, np.float64)


def by_chunks(work: Callable[[tuple[int, int]], Any], n: int, pool: ThreadPool) -> list[Any]:
    """Call ``work`` with the first row and the end of each chunk; return the results in order.

    Threads share the chunks, unless there are at most `SHARED_GRADIENTS` rows.
    """
    chunks = [(at.start, at.stop) for at in row_chunks(n, CHUNK)]
    return pool.results(work, chunks, n > SHARED_GRADIENTS)


def arrays_of(loss: Loss, predicted: Predicted) -> tuple[np.ndarray, np.ndarray]:
    """Targets (outputs, n) and raw predictions (K, n), in the layout that compiled code takes."""
    y, raw = predicted.y, predicted.raw
    y = y.reshape(len(y), -1).T
    target = contiguous(y, np.int32 if loss.is_classifier else np.float64)
    return target, contiguous(raw.T, np.float64)
