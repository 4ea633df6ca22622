"""Gradients and losses of every formula, compiled: the numbers of `engine.losses`, bit for bit.

Rows are cut into chunks for threads and chunks into blocks that stay in the first cache, so that
what a block needs twice is read from memory once. The functions of `engine.gradients` are free of
branches; with arrays of one column the compiler makes several rows of them at a time.
"""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.numba._shared import entry, formulas, helper, inlined, numerics
from gpuboost.backends.numba.threads import contiguous, row_chunks
from gpuboost.engine.averages import plane_scales
from gpuboost.engine.losses import USER
from gpuboost.engine.statistics import SUM_BITS, planes_to_float, sum_bits

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuboost.backends.numba.crew import Crew
    from gpuboost.engine.losses import Loss, Predicted

SOFTMAX = formulas.SOFTMAX

CHUNK = 1 << 13  # rows of one task
SHARED_ROWS = 1 << 14  # fewer are done sooner by one thread (measured)
BLOCK = 1 << 11  # rows that are looked at twice in a row


# ---- loops over one column ---------------------------------------------------------------------


def _gradient_loop(pair: Any) -> Any:
    """Gradients of a formula whose hessian is the weight."""

    @helper
    def fill(y, raw, parameter, g):
        for i in range(raw.size):
            g[i] = pair(y[i], raw[i], parameter)[0]

    return fill


def _pair_loop(pair: Any) -> Any:
    """Gradients and hessians of a formula."""

    @helper
    def fill(y, raw, parameter, g, h):
        for i in range(raw.size):
            gradient, hessian = pair(np.float64(y[i]), raw[i], parameter)
            g[i] = gradient
            h[i] = hessian

    return fill


def _value_loop(value: Any) -> Any:
    """Losses of a formula, added to ``total``."""

    @helper
    def add(y, raw, parameter, total):
        for i in range(raw.size):
            total[i] += value(np.float64(y[i]), raw[i], parameter)

    return add


@inlined
def _times(weights, values):
    """Multiply by the weights, none being ones."""
    for i in range(weights.size):
        values[i] *= weights[i]


# ---- loops by the number of the formula --------------------------------------------------------


def _only(loop: Any) -> Any:
    """A loop whatever the number is."""

    @helper
    def run(formula, *arrays):
        loop(*arrays)

    return run


def _this_or(number: int, loop: Any, others: Any) -> Any:
    """A loop if the number is its own, else one of others."""

    @helper
    def run(formula, *arrays):
        if formula == number:
            loop(*arrays)
        else:
            others(formula, *arrays)

    return run


def _by_number(make: Callable[[Any], Any], names: list[str], suffix: str = "") -> Any:
    """Loops of several formulas as one function, which is told the number first."""
    *some, last = [(getattr(formulas, name.upper()), name + suffix) for name in names]
    chosen = _only(make(getattr(formulas, last[1])))
    for number, name in reversed(some):
        chosen = _this_or(number, make(getattr(formulas, name)), chosen)
    return chosen


_PLAIN = ["squared_error", "absolute_error", "huber", "quantile"]
_POSITIVE = ["poisson", "gamma", "tweedie"]
_CLASSES = ["log_loss", "exponential"]

_plain_column = _by_number(_gradient_loop, _PLAIN)
_mean_column = _by_number(_pair_loop, _POSITIVE)
_class_column = _by_number(_pair_loop, _CLASSES)
_add_target_losses = _by_number(_value_loop, _PLAIN + _POSITIVE, "_loss")
_add_class_losses = _by_number(_value_loop, _CLASSES, "_loss")


# ---- what Python calls, for a chunk of rows ----------------------------------------------------
#
# Arrays hold one column after the other, y (Y, n) and raw (K, n): with one column that is the order
# of the rows too. For softmax they hold one row after the other, y being (n,). No weights are ones.


@entry
def plain_gradients(formula, y, raw, weights, parameter, g, rows):
    """Gradients where the hessian is the weight; column k belongs to output k modulo Y."""
    for start in range(rows[0], rows[1], BLOCK):
        stop = min(start + BLOCK, rows[1])
        for k in range(raw.shape[0]):
            out = g[k, start:stop]
            target = y[k % y.shape[0], start:stop]
            _plain_column(formula, target, raw[k, start:stop], parameter[k], out)
            _times(weights[start:stop], out)


def _pairs(column: Any) -> Any:
    """Gradients and hessians of all columns."""

    @helper
    def fill(formula, y, raw, weights, parameter, g, h, rows):
        for start in range(rows[0], rows[1], BLOCK):
            stop = min(start + BLOCK, rows[1])
            for k in range(raw.shape[0]):
                out, curve = g[k, start:stop], h[k, start:stop]
                target = y[k % y.shape[0], start:stop]
                column(formula, target, raw[k, start:stop], parameter[k], out, curve)
                _times(weights[start:stop], out)
                _times(weights[start:stop], curve)

    return fill


_mean_pairs, _class_pairs = _pairs(_mean_column), _pairs(_class_column)


@entry
def mean_gradients(formula, y, raw, weights, parameter, g, h, rows):
    """Gradients and hessians of poisson, gamma and tweedie."""
    _mean_pairs(formula, y, raw, weights, parameter, g, h, rows)


@entry
def class_gradients(formula, y, raw, weights, parameter, g, h, rows):
    """Gradients and hessians of two classes."""
    _class_pairs(formula, y, raw, weights, parameter, g, h, rows)


@inlined
def _softmax_weights(raw, out):
    """What the probabilities of each row are proportional to; both (rows, K)."""
    n, n_classes = raw.shape
    for i in range(n):
        largest = raw[i, 0]
        for k in range(1, n_classes):
            largest = max(largest, raw[i, k])
        for k in range(n_classes):
            out[i, k] = raw[i, k] - largest
    flat = out.reshape(-1)
    for j in range(flat.size):  # of all rows and classes, several at a time
        flat[j] = numerics.exp(flat[j])


@entry
def softmax_gradients(formula, classes, raw, weights, parameter, g, h, rows):
    """Gradients and hessians of several classes, arrays (n, K)."""
    n_classes, factor = raw.shape[1], parameter[0]
    for start in range(rows[0], rows[1], BLOCK):
        stop = min(start + BLOCK, rows[1])
        _softmax_weights(raw[start:stop], g[start:stop])
        for i in range(start, stop):
            total = g[i, 0]
            for k in range(1, n_classes):
                total += g[i, k]
            weight = weights[i] if weights.size else 1.0
            own = classes[i]
            for k in range(n_classes):
                y = 1.0 if own == k else 0.0
                gradient, hessian = formulas.softmax(y, g[i, k] / total, factor)
                g[i, k] = gradient * weight
                h[i, k] = hessian * weight


def _means(add_column: Any) -> Any:
    """The mean over columns of the loss of each row."""

    @helper
    def fill(formula, y, raw, parameter, total, rows):
        for start in range(rows[0], rows[1], BLOCK):
            stop = min(start + BLOCK, rows[1])
            total[start:stop] = 0.0
            for k in range(raw.shape[0]):
                target, column = y[k % y.shape[0], start:stop], raw[k, start:stop]
                add_column(formula, target, column, parameter[k], total[start:stop])
            for i in range(start, stop):
                total[i] /= np.float64(raw.shape[0])

    return fill


_target_means, _class_means = _means(_add_target_losses), _means(_add_class_losses)


@entry
def target_losses(formula, y, raw, parameter, total, rows):
    """Loss of each row, the mean over columns."""
    _target_means(formula, y, raw, parameter, total, rows)


@entry
def class_losses(formula, y, raw, parameter, total, rows):
    """Loss of each row, of two classes."""
    _class_means(formula, y, raw, parameter, total, rows)


@entry
def softmax_losses(formula, classes, raw, parameter, total, rows):
    """Loss of each row, of several classes; arrays (n, K)."""
    n_classes = raw.shape[1]
    space = np.empty((BLOCK, n_classes))
    for start in range(rows[0], rows[1], BLOCK):
        stop = min(start + BLOCK, rows[1])
        _softmax_weights(raw[start:stop], space[: stop - start])
        for i in range(start, stop):
            largest, added = raw[i, 0], space[i - start, 0]
            for k in range(1, n_classes):
                largest = max(largest, raw[i, k])
                added += space[i - start, k]
            total[i] = formulas.softmax_loss(raw[i, classes[i]], largest, added)


@entry
def largest_product(values, weights, rows):
    """Largest absolute value times weight; infinite if one is not finite."""
    largest, is_finite = 0.0, True
    for i in range(rows[0], rows[1]):
        size = abs(values[i] * weights[i]) if weights.size else abs(values[i])
        is_finite &= size < np.inf
        largest = size if size > largest else largest
    return largest if is_finite else np.inf


@entry
def plane_sums(values, weights, scales, rows):
    """Sums of the two planes of value times weight (`engine.statistics.two_planes`).

    ``scales`` (3,) are those of `engine.averages.plane_scales`.
    """
    high_sum, low_sum = np.int64(0), np.int64(0)
    for i in range(rows[0], rows[1]):
        x = values[i] * weights[i] if weights.size else values[i]
        scaled = x * scales[0] * scales[1]
        high = np.rint(scaled)
        high_sum += np.int64(high)
        low_sum += np.int64(np.rint((scaled - high) * scales[2]))
    return high_sum, low_sum


# ---- drivers -----------------------------------------------------------------------------------

_NO_WEIGHTS = np.zeros(0)


def gradients(
    loss: Loss, predicted: Predicted, parameter: np.ndarray, crew: Crew
) -> tuple[np.ndarray, np.ndarray]:
    """What `Loss.gradients` returns, (n, columns) each, in any memory order.

    ``raw`` is read as it is if rows lie one after the other for classes, and columns for real
    targets; else it is copied.
    """
    if loss.formula == USER:
        return loss.gradients(predicted, parameter)
    raw, weights = predicted.raw, predicted.weights
    fill, _ = _compiled(loss)
    target, columns = _arrays(loss, predicted)
    w = _NO_WEIGHTS if weights is None else contiguous(weights, np.float64)
    given = (np.int64(loss.formula), target, columns, w, contiguous(parameter, np.float64))
    if loss.constant_hessian:
        g = np.empty_like(columns)
        _by_chunks(lambda rows: fill(*given, g, rows), len(raw), crew)
        of_row = np.ones(1) if weights is None else w
        return g.T, np.broadcast_to(of_row[:, None], raw.shape)
    g, h = np.empty_like(columns), np.empty_like(columns)
    _by_chunks(lambda rows: fill(*given, g, h, rows), len(raw), crew)
    return (g, h) if loss.formula == SOFTMAX else (g.T, h.T)


def row_losses(loss: Loss, predicted: Predicted, parameter: np.ndarray, crew: Crew) -> np.ndarray:
    """What `Loss.row_losses` returns."""
    if loss.formula == USER:
        return loss.row_losses(predicted, parameter)
    return _losses(loss, predicted, parameter, _NO_WEIGHTS, crew)[0]


def mean_loss(loss: Loss, predicted: Predicted, parameter: np.ndarray, crew: Crew) -> float:
    """What `Loss.mean_loss` returns."""
    if loss.formula == USER:
        return loss.mean_loss(predicted, parameter)
    if predicted.weights is None:
        values, largest = _losses(loss, predicted, parameter, _NO_WEIGHTS, crew)
        return _sum(values, _NO_WEIGHTS, largest, crew) / float(len(values))
    w = contiguous(predicted.weights, np.float64)
    values, largest = _losses(loss, predicted, parameter, w, crew)
    heaviest = max(_by_chunks(lambda rows: largest_product(w, _NO_WEIGHTS, rows), len(w), crew))
    return _sum(values, w, largest, crew) / _sum(w, _NO_WEIGHTS, heaviest, crew)


def _losses(
    loss: Loss, predicted: Predicted, parameter: np.ndarray, weights: np.ndarray, crew: Crew
) -> tuple[np.ndarray, float]:
    """Loss of each row, and the largest one times its weight."""
    _, add = _compiled(loss)
    given = (np.int64(loss.formula), *_arrays(loss, predicted), contiguous(parameter, np.float64))
    total = np.empty(len(predicted.raw))

    def fill(rows: tuple[int, int]) -> float:
        add(*given, total, rows)
        return largest_product(total, weights, rows)

    return total, max(_by_chunks(fill, len(total), crew))


def _sum(values: np.ndarray, weights: np.ndarray, largest: float, crew: Crew) -> float:
    """Sum of value times weight, as `engine.averages.weighted_mean` makes it."""
    if largest == np.inf:
        return float("inf")
    n = len(values)
    scales, exponents = plane_scales(np.array([largest]), SUM_BITS - sum_bits(n))
    scales = scales[:, 0].copy()
    parts = _by_chunks(lambda rows: plane_sums(values, weights, scales, rows), n, crew)
    sums = np.array(parts, dtype=np.int64).sum(axis=0)
    return float(planes_to_float(sums, exponents[:, 0])[0])


def _by_chunks(work: Callable[[tuple[int, int]], Any], n: int, crew: Crew) -> list[Any]:
    """``work`` of the first row and the end of every chunk, by threads."""
    chunks = [(at.start, at.stop) for at in row_chunks(n, CHUNK)]
    return crew.results(work, chunks, n > SHARED_ROWS)


def _compiled(loss: Loss) -> tuple[Any, Any]:
    """Compiled gradients and row losses."""
    if loss.formula == SOFTMAX:
        return softmax_gradients, softmax_losses
    if loss.is_classifier:
        return class_gradients, class_losses
    return (plain_gradients if loss.constant_hessian else mean_gradients), target_losses


def _arrays(loss: Loss, predicted: Predicted) -> tuple[np.ndarray, np.ndarray]:
    """Target and raw predictions as compiled code takes them."""
    y, raw = predicted.y, predicted.raw
    if loss.formula == SOFTMAX:
        return contiguous(y, np.int32), contiguous(raw, np.float64)
    y = y.reshape(len(y), -1).T
    target = contiguous(y, np.int32 if loss.is_classifier else np.float64)
    return target, contiguous(raw.T, np.float64)
