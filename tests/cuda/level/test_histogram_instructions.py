"""The loop over rows of the kernel of histograms has few instructions, counted in machine code."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.gpu.predictions.instructions import FLAGS, LINE_INFO, Code
from gpuboost.backends.cuda.runtime.source import kernel_source
from tests import cuda_shim
from tests.cuda import nvrtc

pytestmark = pytest.mark.skipif(
    nvrtc.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(nvrtc.why_not_available()),
)

KERNEL = "histogram_values"
# Constants, additions of a row to a cell, and the most instructions of a warp for a row of 32
# features on each architecture: about a tenth above the count of NVRTC 13.
VARIANTS = {
    "gradients": ({"GRADIENTS": 1, "SIDE_BY_SIDE": 1}, 3, (8.5, 8.5, 10)),
    "gradients of listed features": ({"GRADIENTS": 1}, 3, (14, 14, 14)),
    "two classes": ({"BINARY_TARGETS": 1, "SIDE_BY_SIDE": 1}, 2, (7, 7, 9)),
    "listed features of two classes": ({"BINARY_TARGETS": 1}, 2, (12, 12, 12)),
    "values": ({"SIDE_BY_SIDE": 1}, 3, (13.5, 13.5, 14)),
}
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
NARROW = [
    {"TILE": tile, "CODE_TILE": code_tile, "GRADIENTS": 1, "SIDE_BY_SIDE": 1}
    for tile, code_tile in ((4, 32), (8, 16), (16, 16))
]


def compiled(constants: dict[str, int], architecture: str) -> nvrtc.Compiled:
    name = "histogram/histogram_values.cu"
    options = (*nvrtc.OPTIONS, LINE_INFO)
    source = kernel_source(name, constants)
    found = nvrtc.compile_source(source, architecture, file_name=name, options=options)
    used = found.resources[KERNEL]
    assert used.stack == used.spill_loads == used.spill_stores == 0
    assert used.registers <= 64  # two blocks of 512 threads on a multiprocessor
    return found


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_few_instructions_for_each_row(variant: str, architecture: str) -> None:
    constants, n_additions, limits = VARIANTS[variant]
    found = compiled({"TILE": 32, **constants}, architecture)
    code = Code(nvrtc.disassemble(found.cubin, FLAGS)[KERNEL])
    counts = [Counter(one.opcode for one in code.block(loop.head)) for loop in code.loops]
    n_rows, n_loads = (16, 16) if "SIDE_BY_SIDE" in constants else (8, 32)  # of an iteration
    loops = [count for count in counts if count["ATOMS"] == n_additions * n_rows]
    assert loops, counts
    for count in loops:
        assert count["LDG"] == n_loads, count
        assert count.total() / n_rows <= limits[ARCHITECTURES.index(architecture)], count


@pytest.mark.parametrize("constants", NARROW, ids=lambda each: f"{each['TILE']} features")
def test_narrow_tiles_spill_no_registers(constants: dict[str, int]) -> None:
    assert compiled(constants, "sm_90").sass[KERNEL]
