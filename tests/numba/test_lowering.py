"""The short translations of array access, ranges and calls mean what they mean in Python."""

from __future__ import annotations

import itertools
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.errors import UnsupportedError

from gpuboost.backends.numba.compiler import helper, inlined
from gpuboost.backends.numba.pipeline import EntryCompiler

njit = numba.njit(pipeline_class=EntryCompiler, _nrt=False)
BOUNDS = (-9, -5, -1, 0, 1, 3, 5, 9)
NODE = np.dtype([("feature", np.int32), ("value", np.float64)])


def numbers(*shape: int) -> np.ndarray:
    """Consecutive numbers in an array that starts within another, so that wild reads show."""
    whole = np.full((np.prod(shape) + 40,), -1000, dtype=np.int64)
    own = whole[20:-20].reshape(shape)
    own[...] = np.arange(own.size).reshape(shape)
    return own


def same(function: Any, *arguments: Any) -> None:
    """Compare what compiled code and Python write to the arguments and to 40 numbers."""
    found, expected = np.zeros((2, 40), dtype=np.int64)
    before = [argument.copy() for argument in arguments]
    njit(function)(*arguments, found)
    written = [argument.copy() for argument in arguments]
    for argument, saved in zip(arguments, before, strict=True):
        argument[...] = saved
    function(*arguments, expected)
    assert all(map(np.array_equal, written, arguments))
    assert np.array_equal(found, expected) and expected.any()


def test_elements() -> None:
    def copy(a, b, c, out):
        for i in range(len(out)):
            out[i] = a[i % 10] + 10 * b[i % 3, i % 7] + 100 * c[i % 2, i % 3, i % 4]
        out[-2] = a[-1] + b[-1, -2] + c[-2, 1, -4]
        a[-3], b[1, -1] = 77, 78
        out[-1] = a[7] + b[1, 6]

    given = numbers(10), numbers(3, 7), numbers(2, 3, 4)
    same(copy, *given)
    same(copy, numbers(20)[::2], numbers(7, 3).T, numbers(4, 3, 2).T)
    same(copy, given[0].astype(np.uint8), given[1].astype(np.float32), given[2].astype(np.int16))


@pytest.mark.parametrize("kind", [np.int32, np.uint64])
def test_elements_by_other_integers(kind: Any) -> None:
    def copy(places, a, out):
        for i in range(len(places)):
            out[i] = a[places[i], places[i]]

    same(copy, np.array([4, 0, 2], dtype=kind), numbers(5, 5))


def test_slices() -> None:
    def sizes(a, start, stop, out):
        parts = a[start:stop], a[start:], a[:stop], a[:]
        for k in range(4):
            out[2 * k] = len(parts[k])
            out[2 * k + 1] = parts[k][-1] if len(parts[k]) > 0 else 0
            parts[k][: start + 1] = 5 + k
        for i in range(len(a)):
            out[8 + i] = a[i]

    compiled = njit(sizes)
    for start, stop in itertools.product(BOUNDS, BOUNDS):
        found, expected = np.zeros((2, 40), dtype=np.int64)
        compiled(numbers(6), start, stop, found)
        sizes(numbers(6), start, stop, expected)
        assert np.array_equal(found, expected), (start, stop)


def test_rows_and_parts_of_matrices() -> None:
    def parts(b, c, out):
        row, part, plane, last = b[1], b[1:3, 2], c[-1], b[:, -1]
        out[0], out[1] = row.shape[0], row[3]
        out[2], out[3] = part.shape[0], part[1]
        out[4], out[5], out[6] = plane.shape[0], plane.shape[1], plane[1, 2]
        out[7], out[8] = len(last), last[2]
        inner = c[0, 1:3][1]
        out[9], out[10] = inner.size, inner[0]
        c[1, 2][:2] = 99
        out[11] = c[1, 2, 1]

    same(parts, numbers(3, 5), numbers(2, 3, 4))
    same(parts, numbers(5, 3).T, numbers(4, 3, 2).T)


def test_fields_of_records() -> None:
    def swap(nodes, out):
        for i in range(len(nodes)):
            nodes[i].feature += 1
            out[i] = nodes[i].feature + np.int64(nodes[i].value)
        nodes[0] = nodes[-1]
        out[10] = nodes[0].feature

    nodes = np.zeros(4, dtype=NODE)
    nodes["feature"], nodes["value"] = [3, 1, 4, 1], [2.0, 7.0, 1.0, 8.0]
    same(swap, nodes.view(np.recarray))


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint64])
def test_ranges(kind: Any) -> None:
    def count(start, stop, step, out):
        last = np.int64(-7)
        for i in range(stop):
            out[0] += i
        for i in range(start, stop):
            last = np.int64(i)
            out[1] += 10 * last
            for j in range(i, stop):
                if j == stop - kind(1):
                    break
                out[3] += np.int64(j)
        out[4] = last
        for i in range(start, stop, step):
            out[5] = 10 * out[5] + np.int64(i)
        for _ in range(3, 1):
            out[6] += 1
        for i in range(5, 0, -2):
            out[7] = 10 * out[7] + i

    for start, stop in ((0, 7), (2, 5), (5, 5), (7, 3)):
        found, expected = np.zeros((2, 40), dtype=np.int64)
        njit(count)(kind(start), kind(stop), kind(2), found)
        count(kind(start), kind(stop), kind(2), expected)
        assert np.array_equal(found, expected)


def test_calls_of_helpers() -> None:
    @helper
    def pair(a, b):
        return a + b, a[0] if b else False

    @helper
    def fill(out, value):
        if value < 0:
            return
        out[int(value)] = value

    @njit
    def run(a, out):
        fill(out, np.int64(3))
        fill(out, np.int64(-1))
        total = np.int64(0)
        for i in range(len(a)):
            both = (a[i], a[i] > 2)
            total += both[0] if both[1] else 0
        out[1] = total

    found = np.zeros(5, dtype=np.int64)
    run(numbers(5), found)
    assert found.tolist() == [0, 7, 0, 3, 0]


def test_variables_of_loops_and_conditions() -> None:
    @inlined
    def limits(n, step=1):
        return (n, step)

    def search(a, out):
        best, at, rest = a[0], 0, a
        for i in range(len(a)):
            if a[i] == 4:
                continue
            if a[i] > best:
                best, at = a[i], i
                rest = a[i:]
            if i == 7:
                break
        else:
            best = -1
        lengths = (len(rest), len((1, 2, 3)))
        pair = limits(n=at)
        out[0], out[1], out[2], out[3], out[4] = best, at, lengths[0], lengths[1], pair[1]

    compiled = njit(search)
    for n in (8, 3):
        found = np.zeros(5, dtype=np.int64)
        compiled(numbers(n), found)
        expected = [7, 7, 1, 3, 1] if n == 8 else [-1, 2, 1, 3, 1]
        assert found.tolist() == expected


def test_helpers_may_return_ranges() -> None:
    @helper
    def every_second(n):
        return range(0, n, 2)

    @njit
    def run(n, out):
        for i in every_second(n):
            out[i] = i + 1

    found = np.zeros(8, dtype=np.int64)
    run(5, found)
    assert found.tolist() == [1, 0, 3, 0, 5, 0, 0, 0]


def test_helpers_may_not_return_either_a_number_or_none() -> None:
    @helper
    def either(n):
        return n if n > 3 else None

    def call(n, out):
        if either(n) is None:
            out[0] = 5

    with pytest.raises(UnsupportedError, match="not either"):
        njit(call)(2, np.zeros(1, dtype=np.int64))


def test_a_variable_assigned_under_a_condition_is_not_wrong() -> None:
    def run(n, out):
        if n > 3:
            value = n
        if n > 3:
            out[0] = value

    found = np.zeros(1, dtype=np.int64)
    njit(run)(5, found)
    print(found)
    assert found[0] == 5


def test_errors_cannot_be_raised() -> None:
    def fail(n):
        if n > 3:
            raise ValueError("large")

    with pytest.raises(UnsupportedError, match="compiled functions cannot raise errors"):
        njit(fail)(2)
