"""Compiled functions of the engine: the same bits as the Python functions."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from gpuboost.backends.numba.compiler import criteria as compiled_criteria
from gpuboost.backends.numba.compiler import inlined
from gpuboost.backends.numba.compiler import newton as compiled_newton
from gpuboost.backends.numba.compiler import numerics as compiled_numerics
from gpuboost.backends.numba.compiler import randomness as compiled_randomness
from gpuboost.backends.numba.pipeline import EntryCompiler
from gpuboost.engine import criteria, newton, numerics, randomness

njit = numba.njit(pipeline_class=EntryCompiler, _nrt=False)


def elementwise(function: Any, n_arguments: int, dtype: Any = np.float64) -> Any:
    """A loop in compiled code over a compiled scalar function that returns numbers of a type."""
    calls = {
        1: lambda a, i: function(a[0][i]),
        2: lambda a, i: function(a[0][i], a[1][i]),
        3: lambda a, i: function(a[0][i], a[1][i], a[2][i]),
        4: lambda a, i: function(a[0][i], a[1][i], a[2][i], a[3][i]),
        5: lambda a, i: function(a[0][i], a[1][i], a[2][i], a[3][i], a[4][i]),
    }
    call = inlined(calls[n_arguments])

    @njit
    def loop(arguments: Any, found: Any) -> None:
        for i in range(len(found)):
            found[i] = call(arguments, i)

    def run(*arguments: Any) -> np.ndarray:
        found = np.empty(len(arguments[0]), dtype=dtype)
        loop(arguments, found)
        return found

    return run


@pytest.mark.parametrize(
    ("name", "n_arguments"),
    [
        ("variance_term", 4),
        ("variance_gain", 3),
        ("entropy_term", 1),
        ("newton_value", 4),
        ("bounded", 3),
        ("newton_term", 5),
        ("newton_gain", 3),
        ("middle", 2),
    ],
)
def test_compiled_criteria_are_the_engine_s(name: str, n_arguments: int) -> None:
    rng = np.random.default_rng(1)
    size = (n_arguments, 20_000)
    # Integers of every magnitude up to 2**47: products are rounded, so fused ones would differ.
    arguments = np.floor(rng.random(size) * 2.0 ** rng.integers(0, 48, size)) + 1
    compiled, own = (
        (compiled_newton, newton) if hasattr(newton, name) else (compiled_criteria, criteria)
    )
    found = elementwise(getattr(compiled, name), n_arguments)(*arguments)
    assert np.array_equal(found, getattr(own, name)(*arguments))


@pytest.mark.parametrize(
    "row", criteria.CRITERIA.values(), ids=lambda row: f"criterion-{row.number}"
)
def test_compiled_scores_are_the_engine_s(row: criteria.Criterion) -> None:
    add, score = (getattr(compiled_criteria, each.__name__) for each in (row.add, row.score))
    limits = (3.5, 1.25), (-0.75, 0.875)

    def score_of_one(g, h, gl, hl):
        sums = add((0.0, 0.0, 0.0), gl, g, hl, h, limits)
        return score(add(sums, g - gl, g, hl, h, limits), hl, h)

    def expected(g, h, gl, hl):
        sums = row.add((0.0, 0.0, 0.0), gl, g, hl, h, limits)
        return row.score(row.add(sums, g - gl, g, hl, h, limits), hl, h)

    rng = np.random.default_rng(1)
    whole = np.floor(rng.random((2, 20_000)) * 2.0 ** rng.integers(1, 48, (2, 20_000))) + 2
    parts = np.floor(whole * rng.random((2, 20_000)))
    parts[1] = np.clip(parts[1], 1, whole[1] - 1)
    found = elementwise(njit(score_of_one), 4)(*whole, *parts)
    assert np.array_equal(found, expected(*whole, *parts))


@pytest.mark.parametrize("minimum", [0.0, 0.5])
@pytest.mark.parametrize("needs_gain", [False, True])
@pytest.mark.parametrize("criterion", [criteria.VARIANCE, criteria.ENTROPY])
def test_compiled_gains_are_the_engine_s(criterion: int, needs_gain: bool, minimum: float) -> None:
    gain_of, is_enough = compiled_criteria.gain_of, compiled_criteria.is_enough
    number = np.int64(criterion)

    def gain_of_one(score, h):
        return gain_of(number, score, h)

    def is_enough_of_one(gain, root):
        return is_enough(gain, root, 0.75, minimum, needs_gain)

    scores = np.array([-1.0, 0.0, 1e-300, 0.5, 3.0, 4.0, 1e9])
    h = np.array([3.0, 2.0, 7.0, 1.0, 2.0, 3.0, 10.0])
    gains, roots = criteria.gain_of(criterion, scores, h), 2.0 * h
    accepted = criteria.is_enough(gains, roots, 0.75, minimum, needs_gain)
    assert np.array_equal(elementwise(njit(gain_of_one), 2)(scores, h), gains)
    assert np.array_equal(elementwise(njit(is_enough_of_one), 2)(gains, roots), accepted)
    assert not accepted[0] and accepted[1] == (not needs_gain and minimum == 0.0) and accepted[-1]


def test_compiled_log_is_the_engine_s() -> None:
    rng = np.random.default_rng(2)
    x = rng.random(50_000) * 10.0 ** rng.integers(-300, 300, 50_000)
    x = np.concatenate([x, 2.0 ** np.arange(-1000, 1000), [1.0, np.nextafter(1.0, 2.0)]])
    assert np.array_equal(elementwise(compiled_numerics.log, 1)(x), numerics.log(x))


@pytest.mark.parametrize(
    "name", ["hash_index", "feature_rank", "level_key", "threshold_draw", "left_key", "right_key"]
)
def test_compiled_hashes_are_the_engine_s(name: str) -> None:
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 2**64, 5000, dtype=np.uint64)
    features = rng.integers(0, 2**20, 5000).astype(np.uint64)
    arguments = (keys,) if name in ("left_key", "right_key") else (keys, features)
    expected = getattr(randomness, name)(*arguments)
    compiled = getattr(compiled_randomness, name)
    found = elementwise(compiled, len(arguments), expected.dtype)(*arguments)
    assert np.array_equal(found, expected)
