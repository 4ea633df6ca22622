"""Functions of the kernels' common header equal those of the engine, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuboost.backends.cuda.runtime.source import (
    constant,
    kernel_folder,
    kernel_source,
    spliced,
)
from gpuboost.engine import criteria, newton, numerics, randomness
from gpuboost.engine import task as spec
from gpuboost.engine.sparse_rows import DenseRows
from tests import cuda_shim
from tests.cuda_shim.launcher import KernelError, Module

needs_compiler = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)

N = 20_000
KERNELS = """
extern "C" __global__ void random_words(const uint64* key, const uint64* index, const uint64* code,
                                        int32 n, uint64* words, double* draws)
{
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    words[0 * (int64)n + i] = mix(key[i]);
    words[1 * (int64)n + i] = hash_index(key[i], index[i]);
    words[2 * (int64)n + i] = feature_rank(key[i], index[i]);
    words[3 * (int64)n + i] = category_goes_left(key[i], index[i], code[i]) ? 1 : 0;
    words[4 * (int64)n + i] = missing_goes_left(key[i], index[i]) ? 1 : 0;
    words[5 * (int64)n + i] = stream_key(key[0], ROUND_WEIGHT, index[i]);
    words[6 * (int64)n + i] = level_key(key[i], index[i]);
    draws[0 * (int64)n + i] = uniform(key[i]);
    draws[1 * (int64)n + i] = threshold_draw(key[i], index[i]);
}

template <typename Criterion>
__device__ Terms added(const Regular& regular, double gl, double g, double hl, double h)
{
    Terms terms = {0.0, 0.0, 0.0, true};
    Criterion::add(terms, regular, gl, g, hl, h);
    return terms;
}

extern "C" __global__ void functions(const double* gl, const double* g, const double* hl,
                                     const double* h, const double* x, int32 n, double* out)
{
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[0 * (int64)n + i] = natural_log(x[i]);
    const Terms given = {x[i], g[i], gl[i], true};
    out[1 * (int64)n + i] = added<Variance>({}, gl[i], g[i], hl[i], h[i]).left;
    out[2 * (int64)n + i] = Variance::score(given, hl[i], h[i]);
    out[3 * (int64)n + i] = entropy_term(hl[i]);
    out[4 * (int64)n + i] = added<Entropy>({}, hl[i], h[i], 0.0, 0.0).right;
    out[5 * (int64)n + i] = Entropy::score(given, hl[i], h[i]);
    out[6 * (int64)n + i] = Misclassification::score({gl[i], g[i], h[i], true}, hl[i], h[i]);
    out[7 * (int64)n + i] = added<Twoing>({}, gl[i], g[i], hl[i], h[i]).left;
    out[8 * (int64)n + i] = Twoing::score(given, hl[i], h[i]);
}

extern "C" __global__ void newton(const double* g, const double* h, const double* lower,
                                  const double* upper, int32 n, double l1, double l2, double* out)
{
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const Regular regular = {l1, l2, {lower[i], upper[i]}, 0};
    const double value = regular.value(g[i], h[i]);
    double lowers[2], uppers[2];
    write_child_bounds({g[i], h[i]}, 1, lower[i], upper[i], 0, lowers, uppers);
    out[0 * (int64)n + i] = newton_value(g[i], h[i], l1, l2);
    out[1 * (int64)n + i] = value;
    out[2 * (int64)n + i] = regular.term(g[i], h[i], value);
    out[3 * (int64)n + i] = Newton::score({g[i], h[i], lower[i], true}, 1.0, 2.0);
    out[4 * (int64)n + i] = uppers[0];
    out[5 * (int64)n + i] = lowers[1];
    out[6 * (int64)n + i] = lowers[0];
    out[7 * (int64)n + i] = uppers[1];
    write_child_bounds({g[i], h[i]}, -1, lower[i], upper[i], 0, lowers, uppers);
    out[8 * (int64)n + i] = lowers[0];
    out[9 * (int64)n + i] = uppers[1];
}

extern "C" __global__ void deviances(const double* gl, const double* g, const double* hl,
                                     const double* h, const double* x, int32 n, double* out)
{
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[0 * (int64)n + i] = half_deviance(x[i]);
    out[1 * (int64)n + i] = poisson_term(gl[i], g[i], hl[i], h[i]);
    const Terms terms = added<Poisson>({}, gl[i], g[i], hl[i], h[i]);
    out[2 * (int64)n + i] = Poisson::score(terms, hl[i], h[i]);
}

extern "C" __global__ void exponentials(const double* x, int32 n, double* out)
{
    const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = natural_exp(x[i]);
}

template <typename... All>
__device__ void put_facts(CriterionTable<All...>, int32* facts)
{
    ((*facts++ = All::NUMBER, *facts++ = All::BOTH_CLASSES, *facts++ = All::TIMES_HESSIAN,
      *facts++ = All::COMPILED_APART),
     ...);
    *facts = -1;
}

extern "C" __global__ void criteria(int32* facts)
{
    put_facts(Criteria(), facts);
}

extern "C" __global__ void gains(int32 number, double score, double h, int32 n, const double* p,
                                 double* out)
{
    double sum = 0.0;
    for (int32 k = 0; k < n; ++k) sum = Criteria::add_probability(number, sum, p[k]);
    out[0] = Criteria::gain(number, score, h);
    out[1] = Criteria::impurity(number, sum);
}

extern "C" __global__ void sums(const int64* values, int64* out)
{
    out[threadIdx.x] = warp_sum(values[threadIdx.x]);
}
"""


def kernel(name: str) -> Any:
    return Module(KERNELS, file_name="common_test.cu").get_function(name)


def launch(name: str, *args: Any) -> None:
    kernel(name)((-(-N // 256),), (256,), args)


def words(rng: np.random.Generator) -> np.ndarray:
    """Random 64-bit words of every magnitude, and the limits of their halves."""
    edges = np.array([0, 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1], dtype=np.uint64)
    found = rng.integers(0, 2**64 - 1, N, dtype=np.uint64, endpoint=True)
    found >>= rng.integers(0, 64, N, dtype=np.uint64)
    found[: 8 * len(edges)] = rng.permutation(np.repeat(edges, 8))
    return found


def whole_numbers(rng: np.random.Generator, largest: float = 2.0**62) -> np.ndarray:
    """Integers as float64: small, large, 0, and powers of two with their neighbours."""
    found = np.floor(np.exp2(rng.uniform(0, np.log2(largest), N)))
    found[:100] = np.arange(100)
    powers = np.exp2(rng.integers(0, int(np.log2(largest)), 300))
    found[100:400] = powers + rng.integers(-1, 2, 300)
    return rng.permutation(found)


def assert_same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.view(np.uint64), expected.view(np.uint64))


def stream_keys(seed: int, index: np.ndarray) -> np.ndarray:
    purpose = randomness.ROUND_WEIGHT
    return np.concatenate([randomness.stream_key(seed, purpose, int(i)) for i in index])


@needs_compiler
def test_random_words() -> None:
    rng = np.random.default_rng(0)
    key, index = words(rng), words(rng)
    code = rng.integers(0, 256, N, dtype=np.uint64)
    found, draws = np.empty((7, N), np.uint64), np.empty((2, N))
    launch("random_words", key, index, code, np.int32(N), found, draws)
    expected = (
        randomness.mix(key),
        randomness.hash_index(key, index),
        randomness.feature_rank(key, index),
        randomness.category_goes_left(key, index, code),
        randomness.missing_goes_left(key, index),
        stream_keys(int(key[0]), index),
        randomness.level_key(key, index),
    )
    for own, other in zip(found, expected, strict=True):
        assert_same_bits(own, other)
    assert_same_bits(draws[0], randomness.uniform(key))
    assert_same_bits(draws[1], randomness.threshold_draw(key, index))
    assert 0 < found[3].sum() < N


@needs_compiler
def test_logarithm_and_scores() -> None:
    rng = np.random.default_rng(1)
    gl, g, h = (whole_numbers(rng) for _ in range(3))
    gl, g = gl * rng.choice([-1.0, 1.0], N), g * rng.choice([-1.0, 1.0], N)
    h = np.maximum(h, 2.0)
    hl = np.clip(np.floor(h * rng.random(N)), 1.0, h - 1.0)
    x = np.exp2(rng.uniform(-1022, 1023, N)) * rng.uniform(1, 2, N)
    x[:4] = 1.0, np.nextafter(1.0, 2.0), np.nextafter(1.0, 0.0), np.finfo(float).tiny
    x[4:500] = (
        np.sqrt(2.0) * np.exp2(rng.integers(-60, 60, 496)) * (1 + rng.integers(-2, 3, 496) * 2e-16)
    )
    usable = hl < h
    gl, g, h, hl, x = (np.ascontiguousarray(a[usable][:N]) for a in (gl, g, h, hl, x))
    n = len(gl)
    assert n > 0.99 * N
    out = np.empty((9, n))
    launch("functions", gl, g, hl, h, x, np.int32(n), out)
    with np.errstate(over="ignore"):
        expected = (
            numerics.log(x),
            criteria.variance_term(gl, g, hl, h),
            criteria.variance_gain(x, hl, h - hl),
            criteria.entropy_term(hl),
            criteria.entropy_term(h - hl),
            criteria.entropy_score((x, g, gl), hl, h),
            criteria.misclassification_score((gl, g, h), hl, h),
            criteria.add_twoing((0.0, 0.0, 0.0), gl, g, hl, h, ((0.0, 0.0), (0.0, 0.0)))[0],
            criteria.twoing_score((x, x, x), hl, h),
        )
    for own, other in zip(out, expected, strict=True):
        assert_same_bits(own, other)


@needs_compiler
@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.0), (2.0**21, 0.0), (3.0, 2.0**14)])
def test_newton_scores(l1: float, l2: float) -> None:
    rng = np.random.default_rng(4)
    g = whole_numbers(rng, 2.0**55) * rng.choice([-1.0, 1.0], N)
    h = np.maximum(whole_numbers(rng, 2.0**48), 1.0)
    lower = rng.normal(size=N) * np.exp2(rng.uniform(-20, 20, N))
    upper = lower + np.exp2(rng.uniform(-20, 20, N))
    lower[:5000], upper[2500:7500] = -np.inf, np.inf
    out = np.empty((10, N))
    launch("newton", g, h, lower, upper, np.int32(N), np.float64(l1), np.float64(l2), out)
    value = newton.newton_value(g, h, l1, l2)
    inside = newton.bounded(value, lower, upper)
    with np.errstate(invalid="ignore"):
        gain = newton.newton_gain(g, h, lower)
        rising = newton.bounds_of_children(np.ones(N), lower, upper, (g, h))
        falling = newton.bounds_of_children(-np.ones(N), lower, upper, (g, h))
        expected = (
            value,
            inside,
            newton.newton_term(g, h, inside, l1, l2),
            np.where(gain >= 0.0, gain, -1.0),
            *(rising[0][1], rising[1][0], rising[0][0], rising[1][1]),
            *(falling[0][0], falling[1][1]),
        )
    for own, other in zip(out, expected, strict=True):
        known = ~np.isnan(other)
        assert_same_bits(own[known], other[known])
        assert np.isnan(own[~known]).all()


@needs_compiler
def test_poisson_scores() -> None:
    rng = np.random.default_rng(5)
    g, h = whole_numbers(rng, 2.0**60), np.maximum(whole_numbers(rng, 2.0**50), 2.0)
    gl, hl = np.floor(g * rng.random(N)), np.clip(np.floor(h * rng.random(N)), 1.0, h - 1.0)
    gl[:50], gl[50:100] = 0.0, g[50:100]
    times = rng.integers(2, 9, 4000)
    gl[100:4100], hl[100:4100] = g[100:4100], h[100:4100] - 1.0  # equal and nearly equal means
    g[100:4100], h[100:4100] = g[100:4100] * times, hl[100:4100] * times + rng.integers(0, 2, 4000)
    x = np.concatenate([[-1.0, 0.0, -0.0, 0.25, -0.25], rng.uniform(-1, 1, N - 5)])
    x[5:9000] = rng.choice([-1.0, 1.0], 8995) * 10.0 ** rng.uniform(-40, 0, 8995)
    x[9000:12000] = 10.0 ** rng.uniform(0, 25, 3000)
    out = np.empty((3, N))
    launch("deviances", gl, g, hl, h, x, np.int32(N), out)
    terms = criteria.poisson_term(gl, g, hl, h)
    score = criteria.poisson_score((terms, 0.0, 0.0), hl, h)
    expected = (numerics.half_deviance(x), terms, score)
    for own, other in zip(out, expected, strict=True):
        assert_same_bits(own, other)
    assert (out[2] == 0.0).sum() > 1000 and (out[2][:100] == -1.0).all() and out[0].min() == 0.0


def exponents() -> np.ndarray:
    """Values of every magnitude and sign, the limits of exp's range, NaN and infinities."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-720, 720, N)
    x[:5000] = rng.choice([-1.0, 1.0], 5000) * np.exp2(rng.uniform(-1074, 1023, 5000))
    x[5000:10000] = rng.integers(-1025, 1026, 5000) * np.log(2.0) / 2
    x[5000:10000] += rng.integers(-2, 3, 5000) * np.spacing(x[5000:10000])
    ends = np.array([-708.0, 709.782712893384, 0.0, -0.0, 1.0, np.log(2.0) / 2])
    x[:6] = ends
    x[6:12], x[12:18] = np.nextafter(ends, np.inf), np.nextafter(ends, -np.inf)
    x[18:21] = np.inf, -np.inf, np.nan
    return x


@needs_compiler
def test_exponential() -> None:
    x = exponents()
    out = np.empty(N)
    launch("exponentials", x, np.int32(N), out)
    assert_same_bits(out, numerics.exp(x))


def test_exponential_is_as_accurate_as_the_librarys() -> None:
    x = exponents()
    found = numerics.exp(x)
    with np.errstate(over="ignore", under="ignore"):
        expected = np.exp(x)
    inside = (x >= -708.0) & (x <= 709.782712893384)
    error = np.abs(found[inside] - expected[inside]) / np.spacing(expected[inside])
    assert error.max() <= 1.0
    assert (error == 0.0).mean() > 0.8
    np.testing.assert_array_equal(found[x < -708.0], 0.0)
    np.testing.assert_array_equal(found[x > 709.782712893384], np.inf)
    assert np.isnan(found[np.isnan(x)]).all() and np.isnan(x).sum() == np.isnan(found).sum()
    rising = numerics.exp(np.sort(x[np.isfinite(x)]))
    assert (rising[1:] >= rising[:-1]).all()


@needs_compiler
def test_entropy_term_of_nothing_is_zero() -> None:
    zeros, ones = np.zeros(N), np.ones(N)
    out = np.empty((9, N))
    launch("functions", zeros, zeros, zeros, ones, ones, np.int32(N), out)
    assert_same_bits(out[3], zeros)


@needs_compiler
def test_warp_sum() -> None:
    values = np.random.default_rng(2).integers(-(2**57), 2**57, 64)
    out = np.empty_like(values)
    kernel("sums")((1,), (64,), (values, out))
    np.testing.assert_array_equal(out, np.repeat(values.reshape(2, 32).sum(axis=1), 32))


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("DRAW_ROWS", randomness),
        ("KEEP_ROWS", randomness),
        ("KEEP_FEATURES", randomness),
        ("ROUND_WEIGHT", randomness),
        ("ROUND_GRADIENT", randomness),
        ("MISSING_RIGHT", spec),
        ("MISSING_LEFT", spec),
        ("MISSING_UNSEEN", spec),
        ("ONE_HOT_CATEGORIES", spec),
        ("ONLY_MISSING_RIGHT", spec),
    ],
)
def test_constants(name: str, module: Any) -> None:
    assert constant("common/common.cuh", name) == getattr(module, name)


# Trees of medians are grown with another criterion, so the kernels have none for them.
ROWS = {row.number: row for row in criteria.CRITERIA.values() if not row.by_median}


@needs_compiler
def test_kernels_have_all_criteria() -> None:
    facts = np.zeros(4 * len(ROWS) + 1, np.int32)
    kernel("criteria")((1,), (1,), (facts,))
    assert facts[-1] == -1, "the kernels have more or fewer criteria"
    of = {
        row.number: (row.both_classes, row.times_hessian, row.compiled_apart)
        for row in ROWS.values()
    }
    assert {number: tuple(map(bool, own)) for number, *own in facts[:-1].reshape(-1, 4)} == of


@needs_compiler
@pytest.mark.parametrize("number", ROWS)
def test_gains_and_impurities(number: int) -> None:
    probability = np.array([0.5, 0.0, 0.125, 0.375])
    nodes = DenseRows(probability[None])
    impurity = ROWS[number].impurity(nodes.entry, nodes)
    expected = np.array([criteria.gain_of(number, 5.0, 3.0), *impurity])
    assert_same_bits(gain_and_impurity(number, probability), expected)


def gain_and_impurity(number: int, probability: np.ndarray) -> np.ndarray:
    """The gain of score 5 and hessian 3, and the impurity, by the criterion of a number."""
    out, given = np.empty(2), (np.int32(number), np.float64(5.0), np.float64(3.0))
    kernel("gains")((1,), (1,), (*given, np.int32(len(probability)), probability, out))
    return out


@needs_compiler
def test_unknown_criteria_have_no_impurity() -> None:
    with pytest.raises(KernelError, match="__trap"):
        gain_and_impurity(99, np.ones(1))


def test_unknown_constant() -> None:
    with pytest.raises(LookupError, match=r"common\.cuh has no integer constant NOTHING"):
        constant("common/common.cuh", "NOTHING")


def test_source_is_spliced_in_order() -> None:
    text = kernel_source("histogram/histogram_values.cu", {"TILE": 16})
    define, prelude, own = (
        text.index(part) for part in ("#define TILE 16", "natural_log(double", "histogram_values(")
    )
    assert define < prelude < own
    assert '#line 1 "histogram/histogram_values.cu"' in text


def test_a_file_is_spliced_once() -> None:
    text = '#include "common/chunks.cuh"\nint32 a;\n#include "common/running_sum.cuh"\nint32 b;\n'
    made = spliced("level/twice.cu", text)
    assert made.count("struct RunningSum {") == 1 == made.count("struct Chunk {")
    assert made.endswith('#line 2 "level/twice.cu"\nint32 a;\n\nint32 b;\n')


def test_kernels_are_found_inside_the_package_first(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpuboost.backends.cuda.runtime import source

    find = kernel_folder.__wrapped__
    package = tmp_path / "site" / "gpuboost"
    monkeypatch.setattr(source, "_PACKAGE", package)
    with pytest.raises(FileNotFoundError, match="reinstall gpuboost"):
        find()
    for folder in (package.parent / "kernels", package / "kernels"):
        (folder / "common").mkdir(parents=True)
        (folder / "common/common.cuh").write_text("")
        assert find() == folder
