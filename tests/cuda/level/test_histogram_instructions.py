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

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
LARGEST = 14  # instructions of a warp for each row of 32 features
# Constants, and shared atomics for each row: of the words of a value, and of weights. Loops of
# other channels have one less, and those that count rows one more.
VARIANTS = {
    "gradients": ({"GRADIENTS": 1, "SIDE_BY_SIDE": 1}, 3),
    "gradients of listed features": ({"GRADIENTS": 1}, 3),
    "two classes": ({"BINARY_TARGETS": 1, "SIDE_BY_SIDE": 1}, 2),
    "two classes, listed features": ({"BINARY_TARGETS": 1}, 2),
    "values": ({"SIDE_BY_SIDE": 1}, 3),
}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_few_instructions_for_each_row(variant: str, architecture: str) -> None:
    constants, n_atomics = VARIANTS[variant]
    name, kernel = "histogram/histogram_values.cu", "histogram_values"
    source = kernel_source(name, {"TILE": 32, **constants})
    options = (*nvrtc.OPTIONS, LINE_INFO)
    found = nvrtc.compile_source(source, architecture, file_name=name, options=options)
    used = found.resources[kernel]
    assert used.stack == used.spill_loads == used.spill_stores == 0
    assert used.registers <= 64  # two blocks of 512 threads on a multiprocessor

    code = Code(nvrtc.disassemble(found.cubin, FLAGS)[kernel])
    counts = [Counter(one.opcode for one in code.block(loop.head)) for loop in code.loops]
    n_rows = 16 if "SIDE_BY_SIDE" in constants else 8  # of a warp in an iteration
    loops = [count for count in counts if count["ATOMS"] == n_atomics * n_rows]
    assert loops, counts
    for count in loops:
        assert count["LDG"] == (16 if "SIDE_BY_SIDE" in constants else 32), count
        assert count.total() / n_rows <= LARGEST, count
