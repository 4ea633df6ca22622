"""Every kernel file compiles for every supported GPU, to exact code without hidden costs.

The PTX shows whether code is exact: it has every operation with its rounding, so a product
contracted into a sum, a flushed denormal or an approximation is visible by name. (In machine code,
even a correctly rounded division contains fused steps, and in float32 it flushes denormals.)
The machine code and the compiler's report show the costs: stack, spilled registers, and atomics
in shared memory that are loops.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from gpuboost.backends.cuda.level.histograms import MIN_TILE, TILES
from gpuboost.backends.cuda.runtime.signatures import find_kernels
from gpuboost.backends.cuda.runtime.source import file_text, kernel_source
from tests import cuda_shim
from tests.cuda import nvrtc
from tests.cuda_shim.source import KERNEL_FOLDER, splice_prelude

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
KERNEL_FILES = sorted(KERNEL_FOLDER.rglob("*.cu"))
N_KERNELS = 118

PTX_RULES = {
    "a product contracted into a sum": r"\bfma\.rn?[\w.]*\.?f(?:32|64)",
    "arithmetic that the assembler may contract": r"\b(?:add|sub|mul|mad)\.f(?:32|64)",
    "flushed denormals": r"\.ftz\b",
    "an approximation": r"\b(?:\w+\.approx|div\.full)\b",
    "a floating-point atomic": r"\b(?:atom|red)\.[\w.]*\.f(?:16|32|64)",
    "local memory": r"\b(?:ld|st)\.local\b",
}
SASS_RULES = {
    "local memory": r"\b(?:LDL|STL)\b",
    "a shared atomic that is a loop": r"\bATOMS\.CAS",
}
# What a rule on machine code forbids can only come from an atomic outside global memory, or from
# a stack, which the compiler reports.
SHARED_ATOMIC = re.compile(r"(?<!\.)\b(?:atom|red)\.(?!global\b)")

# With only a bound on the threads, NVRTC 12.9 to 13.5 spilled 8 bytes at 40 registers.
SPILL_ADVICE = (
    "a small spill at few registers is the assembler's bid for occupancy: "
    "say how much is wanted, __launch_bounds__(threads, blocks per multiprocessor)"
)

needs_nvrtc = pytest.mark.skipif(
    nvrtc.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(nvrtc.why_not_available()),
)
needs_compiler = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)


def name_of(value: Any) -> str | None:
    """The name of a kernel file in the names of tests."""
    return value.stem if isinstance(value, Path) else None


@functools.cache
def compiled(source_text: str, file_name: str, architecture: str) -> nvrtc.Compiled:
    spliced = splice_prelude(source_text, file_name)
    return nvrtc.compile_source(spliced, architecture, file_name=file_name)


def complaints(result: nvrtc.Compiled) -> set[str]:
    """The rules that a compiled source breaks, in words."""
    found = {what for what, rule in PTX_RULES.items() if re.search(rule, result.ptx)}
    for sass in result.sass.values() if SHARED_ATOMIC.search(result.ptx) else ():
        found |= {what for what, rule in SASS_RULES.items() if re.search(rule, sass)}
    for used in result.resources.values():
        if used.stack:
            found.add("a stack")
        if used.spill_stores or used.spill_loads:
            found.add("spilled registers")
    return found


def test_all_kernels_are_among_the_files() -> None:
    """The tests below compile each file for each architecture, so no file may be missing."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in KERNEL_FILES}
    kernels = [f"{file}.{k.name}" for file, text in texts.items() for k in find_kernels(text)]
    assert len(kernels) == N_KERNELS, "\n".join(kernels)
    assert len(texts) == len(KERNEL_FILES), "two kernel files have one name"


def on_architectures(sources: Iterable[Any]) -> list[Any]:
    """Every source with every architecture: the architectures in turn, all others marked slow."""
    return [
        pytest.param(source, each, marks=[] if each == usual else [pytest.mark.slow])
        for source, usual in zip(sources, itertools.cycle(ARCHITECTURES))
        for each in ARCHITECTURES
    ]


@needs_nvrtc
@pytest.mark.parametrize(("path", "architecture"), on_architectures(KERNEL_FILES), ids=name_of)
def test_kernels_compile_to_exact_and_lean_code(path: Path, architecture: str) -> None:
    source_text = path.read_text(encoding="utf-8")
    result = compiled(source_text, path.name, architecture)
    names = {kernel.name for kernel in find_kernels(source_text)}
    assert set(result.resources) == names
    assert not complaints(result), f"{result.log}\n{SPILL_ADVICE}"


NARROW_TILES = [MIN_TILE << k for k in range(TILES[0].bit_length()) if MIN_TILE << k < TILES[0]]


@needs_nvrtc
@pytest.mark.parametrize(("tile", "architecture"), on_architectures(NARROW_TILES))
def test_histograms_of_narrow_tiles_compile(tile: int, architecture: str) -> None:
    name = "histogram/histogram_values.cu"
    source = kernel_source(name, {"TILE": tile})
    result = nvrtc.compile_source(source, architecture, file_name=name)
    assert not complaints(result), f"{result.log}\n{SPILL_ADVICE}"
    widest = compiled(file_text(name), name, architecture)
    assert result.cubin != widest.cubin


@needs_nvrtc
@pytest.mark.parametrize(("by_warp", "architecture"), on_architectures([1]))
def test_subtrees_of_warps_compile(by_warp: int, architecture: str) -> None:
    """Compile subtrees with one warp per block, which the test of all files does not cover."""
    name = "growth/subtrees.cu"
    source = kernel_source(name, {"BY_WARP": by_warp})
    result = nvrtc.compile_source(source, architecture, file_name=name)
    assert not complaints(result), f"{result.log}\n{SPILL_ADVICE}"


@needs_compiler
@pytest.mark.parametrize("path", KERNEL_FILES, ids=name_of)
def test_kernels_compile_for_the_cpu(path: Path) -> None:
    source_text = path.read_text(encoding="utf-8")
    shim = cuda_shim.Module(source_text, file_name=path.name)
    for name in shim.kernel_names:
        assert shim.get_function(name).parameters


# Tests of the rules, each with a kernel that breaks one.

PLANTED = {
    "a product contracted into a sum": "y[0] = fma(y[1], y[2], y[3]);",
    "an approximation": "x[0] = __fdividef(x[1], x[2]);",
    "a floating-point atomic": "atomicAdd(y, 1.0);",
    "local memory": (
        "int a[64]; for (int i = 0; i < 64; ++i) a[i] = n[i];"
        "for (int i = 0; i < n[64]; ++i) a[n[i] & 63] += i; n[0] = a[n[65] & 63];"
    ),
    "a shared atomic that is a loop": (
        "__shared__ uint64 s[32]; s[threadIdx.x] = n[0]; __syncthreads();"
        "atomicAdd(&s[threadIdx.x & 7], (uint64)n[1]); __syncthreads(); n[2] = s[threadIdx.x];"
    ),
}
SOUND = (
    "__shared__ int s[32]; s[threadIdx.x] = 0; __syncthreads(); atomicAdd(&s[n[0] & 31], n[1]);"
    "__syncthreads(); y[0] = y[1] * y[2] + y[3] / sqrt(y[4]); x[0] = x[1] * x[2] + x[3] / x[4];"
    "n[threadIdx.x] = s[threadIdx.x] / n[1]; atomicAdd((uint64*)y, (uint64)n[2]);"
)


def one_kernel(body: str) -> str:
    return f'extern "C" __global__ void k(float* x, double* y, int32* n) {{ {body} }}'


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_rules_pass_exact_arithmetic_and_native_atomics(architecture: str) -> None:
    assert complaints(compiled(one_kernel(SOUND), "k.cu", architecture)) == set()


@needs_nvrtc
@pytest.mark.parametrize("architecture", [ARCHITECTURES[0], ARCHITECTURES[-1]])
@pytest.mark.parametrize("what", PLANTED)
def test_rules_find_violations(what: str, architecture: str) -> None:
    assert what in complaints(compiled(one_kernel(PLANTED[what]), "k.cu", architecture))


@needs_nvrtc
@pytest.mark.parametrize(
    ("option", "what"),
    [
        ("--fmad=true", "a product contracted into a sum"),
        ("--ftz=true", "flushed denormals"),
        ("--maxrregcount=32", "spilled registers"),
        ("--prec-div=false", "an approximation"),
    ],
)
def test_rules_find_effects_of_wrong_options(option: str, what: str) -> None:
    many = "".join(f"double a{i} = y[{i}] + 1;" for i in range(40))
    body = (
        many
        + "__syncthreads(); y[0] = a0"
        + "".join(f" + a{i} * n[{i}]" for i in range(1, 40))
        + ";"
    )
    body += "x[0] = x[1] * x[2] + x[3] / x[4];"
    result = nvrtc.compile_source(
        splice_prelude(one_kernel(body), "k.cu"), "sm_80", options=(*nvrtc.OPTIONS, option)
    )
    assert what in complaints(result)


@needs_nvrtc
def test_compile_errors_name_the_line() -> None:
    source = splice_prelude('extern "C" __global__ void k()\n{\n    nonsense;\n}', "bad.cu")
    with pytest.raises(nvrtc.NvrtcError, match=r"bad\.cu\(3\): error"):
        nvrtc.compile_source(source, "sm_90")


def test_a_compiler_named_by_the_environment_must_exist(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(nvrtc.FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(FileNotFoundError, match="found 0"):
        nvrtc.why_not_available()


@needs_nvrtc
def test_resources_are_read() -> None:
    result = compiled(one_kernel(SOUND), "k.cu", "sm_90")
    assert set(result.resources) == set(result.sass) == {"k"}
    used = result.resources["k"]
    assert used.registers > 8
    assert used.static_shared == 128
    assert "ATOMS" in result.sass["k"]
    assert result.cubin.startswith(b"\x7fELF")
