"""The CUDA shim: intrinsics compared with NumPy and Python integers, and invalid launches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests import cuda_shim
from tests.cuda_shim import compiler
from tests.cuda_shim.compiler import CompileError
from tests.cuda_shim.launcher import KernelError, Module
from tests.cuda_shim.test_shim import IN_PROCESS, example, module

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)

i32, i64 = np.int32, np.int64


# Intrinsics ---------------------------------------------------------------------------------


def signed(value: int, bits: int) -> int:
    """The low bits of an integer as a two's complement number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def reversed_bits(value: int, bits: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2)


def expected_bits(wide: int) -> list[int]:
    narrow = wide & 0xFFFFFFFF
    return [
        narrow.bit_count(),
        wide.bit_count(),
        (narrow & -narrow).bit_length(),
        (wide & -wide).bit_length(),
        32 - narrow.bit_length(),
        64 - wide.bit_length(),
        reversed_bits(narrow, 32),
        signed(reversed_bits(wide, 64), 64),
        signed(narrow, 32) * signed(narrow ^ 0x5BD1E995, 32) >> 32,
        narrow * 0x9E3779B9 >> 32,
        signed(wide * 0x9E3779B97F4A7C15 >> 64, 64),
        signed(wide, 64) * 0x1E3779B97F4A7C15 >> 64,
        signed(wide, 64),
        signed(narrow, 32),
        narrow,
        1,
        signed(wide >> 32, 32),
        signed(narrow, 32),
    ]


def test_bit_intrinsics() -> None:
    rng = np.random.default_rng(5)
    values = rng.integers(0, 2**64, 96, dtype=np.uint64) >> rng.integers(0, 63, 96, dtype=np.uint64)
    values[:6] = [0, 1, 2**31, 2**32, 2**63, 2**63 - 1]
    values[(values >> np.uint64(52)) % 2048 == 2047] = 3  # NaN is not equal to anything
    expected = [expected_bits(int(value)) for value in values]
    out = np.zeros((96, len(expected[0])), i64)
    arguments = (values, out, i32(out.shape[1]))
    module("intrinsics").get_function("bits")((1,), (96,), arguments)
    assert out.tolist() == expected


def rounded_down(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    nearest = values.astype(np.float32)
    return np.where(nearest > values, np.nextafter(nearest, np.float32(-np.inf)), nearest)


def expected_arithmetic(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    narrow_x, narrow_y = x.astype(np.float32), y.astype(np.float32)
    saturated = [max(-(2**63), min(2**63 - 1, round(v))) if v == v else -(2**63) for v in x]
    classes = np.isnan(x) + 2 * np.isinf(x) + 4 * np.isfinite(x) + 8 * np.signbit(x)
    columns = [
        *(x + y, x - y, x * y, x / y, x * y + x, np.sqrt(abs(x))),
        *(np.floor(x), np.ceil(x), np.rint(x), np.trunc(x), np.fmin(x, y), np.fmax(x, y)),
        *(narrow_x, rounded_down(x), np.array(saturated, float)),
        *(narrow_x + narrow_y, narrow_x * narrow_y + narrow_x, narrow_x / narrow_y),
        *(np.sqrt(abs(narrow_x)), np.copysign(x, y), np.ldexp(x, 3), classes),
    ]
    return np.column_stack(columns).astype(float)


@pytest.mark.parametrize("flavour", ["plain", "race", "undefined"])
def test_arithmetic_is_ieee_and_not_contracted(flavour: str) -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=64) * 10.0 ** rng.integers(-20, 20, 64)
    y = rng.normal(size=64) * 10.0 ** rng.integers(-10, 10, 64)
    x[:5] = [0.0, -0.0, 2.5, 3.5, 5e-324]
    y[0] = 1.0
    out = np.zeros((64, 23))
    arguments = (x, y, out, i32(23))
    module("intrinsics", flavour).get_function("arithmetic")((1,), (64,), arguments)
    expected = expected_arithmetic(x, y)
    np.testing.assert_array_equal(out[:, :22].view(i64), expected.view(i64))
    fused = out[:, 22]  # fma is called explicitly
    assert (fused != expected[:, 4]).any()
    np.testing.assert_allclose(fused, expected[:, 4], rtol=1e-15)


def test_conversion_saturates_and_special_values_are_classified() -> None:
    x = np.array([1e300, -1e300, math.inf, -math.inf, math.nan])
    out = np.zeros((5, 23))
    module("intrinsics").get_function("arithmetic")((1,), (5,), (x, np.ones(5), out, i32(23)))
    assert out[:, 14].tolist() == [2.0**63, -(2.0**63), 2.0**63, -(2.0**63), -(2.0**63)]
    assert (out[:, 21] % 8).tolist() == [4, 4, 2, 2, 1]


@pytest.mark.parametrize("flavour", IN_PROCESS)
@pytest.mark.parametrize("order_seed", [0, 1])
def test_atomics(flavour: str, order_seed: int) -> None:
    values = np.random.default_rng(7).integers(-(10**9), 10**9, 200, dtype=i32)
    narrow, plain = np.zeros(6, i32), np.array([0, 0, 0, 2**32 - 1, 0, 65535, 0], np.uint32)
    wide, extremes = np.zeros(3, np.uint64), np.zeros(2, i64)
    atomics = module("intrinsics", flavour).get_function("atomics")
    arguments = (values, narrow, plain, wide, extremes)
    atomics((1,), (200,), arguments, order_seed=order_seed)
    total = int(values.sum(dtype=i64))
    unsigned = values.view(np.uint32)
    assert narrow[:5].tolist() == [
        *(signed(total, 32), signed(-total, 32), values.max(), values.min(), 7)
    ]
    first = narrow[5] - 1  # the thread whose compare-and-swap was first
    assert first == 0 if order_seed == 0 else 0 < first < 200
    xor = np.bitwise_xor.reduce(np.uint32(1) << (np.arange(200, dtype=np.uint32) & 31))
    assert plain.tolist() == [
        *(total % 2**32, -total % 2**32, unsigned.max(), unsigned.min(), 65535, 0, xor)
    ]
    assert wide.tolist() == [total % 2**64, 2**64 - 1, 2**40]
    assert extremes.tolist() == [int(values.max()) << 32, int(values.min()) << 32]


@pytest.mark.parametrize("width", [32, 16, 8, 2])
@pytest.mark.parametrize("by", [0, 1, 3, 17])
def test_shuffles_and_votes(by: int, width: int) -> None:
    values = np.random.default_rng(8).integers(-1000, 1000, 32)
    out, votes = np.zeros((4, 32), i64), np.zeros((2, 32), np.uint32)
    arguments = (values, i32(by), i32(width), out, votes)
    module("intrinsics").get_function("shuffles")((1,), (32,), arguments)
    lane = np.arange(32)
    first = lane // width * width
    expected = [
        first + by % width,
        np.where(lane - by >= first, lane - by, lane),
        np.where(lane + by < first + width, lane + by, lane),
        np.where(lane ^ by < first + width, lane ^ by, lane),
    ]
    np.testing.assert_array_equal(out, values[np.array(expected)])
    for half in (slice(0, 16), slice(16, 32)):
        ballot = sum(1 << int(k) for k in lane[half] if values[k] > 0)
        assert (votes[0, half] == ballot).all()
        tests = (values[half] > 900).any() + 2 * (values[half] > -999).all()
        assert (votes[1, half] == tests).all()


def test_vector_types_are_read_from_plain_arrays() -> None:
    rng = np.random.default_rng(9)
    parts = rng.integers(0, 9, (32, 4), dtype=np.uint8)
    pairs = rng.integers(-99, 99, (32, 2), dtype=i32)
    longs = rng.integers(-99, 99, (32, 2))
    out = np.zeros(32, i64)
    module("intrinsics").get_function("vectors")((1,), (32,), (parts, pairs, longs, out))
    products = pairs[:, 0] * pairs[:, 1] + longs[:, 0] - longs[:, 1]
    np.testing.assert_array_equal(out, parts @ np.array([1, 10, 100, 1000]) + products)


# Refused launches ---------------------------------------------------------------------------

TYPES = """
struct Node { int32 feature; float threshold; };
extern "C" __global__ void types(const float* in, int64* out, uint32 n, double x, bool flag,
                                 const Node* nodes)
{
    if (threadIdx.x == 0 && flag && nodes != nullptr) out[0] = n + (int64)x + nodes[0].feature;
}
"""
NODE = np.dtype([("feature", i32), ("threshold", np.float32)])


def type_arguments(**changed: Any) -> tuple[Any, ...]:
    arguments = {
        "in": np.zeros(4, np.float32),
        "out": np.zeros(4, i64),
        "n": np.uint32(5),
        "x": np.float64(2.5),
        "flag": np.bool_(True),
        "nodes": np.array([(30, 0.0)], NODE),
    }
    return tuple((arguments | changed).values())


def launch_types(arguments: tuple[Any, ...], **options: Any) -> None:
    Module(TYPES).get_function("types")((1,), (32,), arguments, **options)


def test_arguments_of_the_declared_types_are_accepted() -> None:
    arguments = type_arguments()
    launch_types(arguments)
    assert arguments[1][0] == 37
    launch_types(type_arguments(nodes=None))


READ_ONLY = np.zeros(4, i64)
READ_ONLY.flags.writeable = False
MISALIGNED = np.zeros(40, np.uint8)[1:33].view(i64)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"in": np.zeros(4)}, TypeError, "argument 0: given an array of float64.* of float32"),
        ({"out": np.zeros(4, np.uint64)}, TypeError, "given an array of uint64.* one of int64"),
        ({"out": [0, 0]}, TypeError, "argument 1: given list, the kernel takes an array of int64"),
        ({"n": 5}, TypeError, "argument 2: given int, the kernel takes a NumPy scalar of uint32"),
        ({"n": np.int32(5)}, TypeError, "given NumPy int32, .* scalar of uint32"),
        ({"n": np.zeros(1, np.uint32)}, TypeError, "given ndarray, .* scalar of uint32"),
        ({"x": np.float32(1)}, TypeError, "given NumPy float32, .* scalar of float64"),
        ({"flag": np.uint8(1)}, TypeError, "given NumPy uint8, .* scalar of bool"),
        ({"nodes": np.zeros(3, i32)}, TypeError, "array of int32, .* struct of 8 bytes"),
        ({"more": i32(1)}, TypeError, "given 7 arguments, the kernel takes 6"),
        ({"in": np.zeros((4, 4), np.float32)[:, 1]}, ValueError, "not C-contiguous"),
        ({"out": READ_ONLY}, ValueError, "read-only"),
        ({"out": MISALIGNED}, ValueError, "not aligned to 8 bytes"),
    ],
)
def test_wrong_arguments_are_refused(
    changed: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        launch_types(type_arguments(**changed))


@pytest.mark.parametrize("flavour", IN_PROCESS)
def test_adjacent_and_overlapping_arrays_stay_so(flavour: str) -> None:
    copy = """extern "C" __global__ void copy(const int32* in, int32* out, int32* seen)
    {
        out[threadIdx.x] = in[threadIdx.x] + 1;
        __syncthreads();
        if (threadIdx.x < 8) seen[threadIdx.x] = in[32 + threadIdx.x];
    }"""
    memory = np.arange(80, dtype=i32)
    seen = np.zeros(8, i32)
    arguments = (memory[:40], memory[32:64], seen)
    Module(copy, flavour).get_function("copy")((1,), (32,), arguments)
    np.testing.assert_array_equal(memory, np.r_[:32, 1:33, 64:80])
    np.testing.assert_array_equal(seen, np.r_[1:9])
    memory = np.arange(80, dtype=i32)
    arguments = (memory[:40], memory[40:72], memory[72:])
    Module(copy, flavour).get_function("copy")((1,), (32,), arguments)
    np.testing.assert_array_equal(memory, np.r_[:40, 1:33, 32:40])


def test_null_pointer_faults_as_on_a_gpu() -> None:
    with pytest.raises(KernelError, match=r"types: out of bounds.* at kernel\.cu:6"):
        launch_types(type_arguments(out=None))


@pytest.mark.parametrize(
    ("kernel", "grid", "block", "shared_mem", "message"),
    [
        ("histogram", (1,), (257,), 0, "257 threads per block, the kernel allows at most 256"),
        ("language", (1,), (96,), 0, "96 threads per block, the kernel allows at most 64"),
        ("numbering", (1,), (1025,), 0, r"block \(1025,\) is not"),
        ("numbering", (1,), (32, 33), 0, "1056 threads per block"),
        ("numbering", (1, 65536), (1,), 0, r"grid \(1, 65536\) is not"),
        ("numbering", (0,), (1,), 0, r"grid \(0,\) is not"),
        ("numbering", (1, 1, 1, 1), (1,), 0, "is not 1 to 3 sizes"),
        ("numbering", (1,), (1,), 49153, "max_dynamic_shared_size_bytes"),
    ],
)
def test_launches_that_no_gpu_supports_are_refused(
    kernel: str, grid: tuple[int, ...], block: tuple[int, ...], shared_mem: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        module("sound").get_function(kernel)(grid, block, (), shared_mem=shared_mem)


def test_large_dynamic_shared_memory_must_be_requested() -> None:
    kernel = module("faulty").get_function("missing_syncwarp")
    kernel.max_dynamic_shared_size_bytes = 64 << 10
    arguments = (np.zeros(256, i32), np.zeros(256, i32))
    kernel((1,), (256,), arguments, shared_mem=64 << 10)
    with pytest.raises(ValueError, match="is not between 0 and 65536"):
        kernel((1,), (256,), arguments, shared_mem=(64 << 10) + 1)


# Compile errors -----------------------------------------------------------------------------

KERNEL = 'extern "C" __global__ void k(float* x, double* y) {{\n{}\n}}'


@pytest.mark.parametrize(
    "statement",
    [
        "atomicAdd(x, 1.0f);",
        "y[0] = exp(y[0]);",
        "y[0] = min(1, 2u);",
        "DYNAMIC_SHARED(float, s) = 0;",
        "y[0] = __shfl_sync(FULL_MASK, make_int2(1, 2), 0).x;",
    ],
)
def test_code_that_is_not_portable_does_not_compile(statement: str) -> None:
    with pytest.raises(CompileError, match=r"bad\.cu:2"):
        Module(KERNEL.format(statement), file_name="bad.cu")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("int nothing;", "0 kernels found and 0 times __global__"),
        ("__global__ void mangled() {}", "0 kernels found and 1 times __global__"),
    ],
)
def test_sources_without_proper_kernels_are_refused(source: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Module(source)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no kernel 'nothing' in this module, there are: hist"):
        module("sound").get_function("nothing")
    with pytest.raises(ValueError, match="flavour 'fast' is not one of plain"):
        module("sound", "fast")


# The compiler -------------------------------------------------------------------------------


def refuse(command: Any) -> str:
    raise AssertionError(f"compiled again: {command}")


def test_a_source_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = module("intrinsics")
    monkeypatch.setattr(compiler, "run_tool", refuse)
    assert module("intrinsics").library is first.library
    build = (example("intrinsics"), "intrinsics.cu", "plain")
    assert compiler.build_kernels(*build) == first.library.shared_object
    source = "// another text\n" + TYPES
    with pytest.raises(AssertionError, match="compiled again"):
        Module(source + f"// {np.random.default_rng().integers(2**60)}")


@pytest.mark.parametrize("check", [compiler.why_not_available, compiler.must_be_available])
def test_availability_follows_the_environment(
    check: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/nonexistent/g++")
    monkeypatch.setenv("GPUBOOST_REQUIRE_COMPILER", "1")
    if check is compiler.must_be_available:
        assert check() is True
    else:
        assert "/nonexistent/g++" in check()
        with pytest.raises(CompileError, match="needs the C\\+\\+ compiler"):
            compiler.build_kernels(TYPES, "types.cu", "plain")
