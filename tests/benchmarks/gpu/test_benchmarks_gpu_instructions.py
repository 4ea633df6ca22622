"""Counts of instructions in machine code: of small texts, and of the loops of kernels."""

from __future__ import annotations

import json

import pytest

from benchmarks.gpu.predictions import hot_loops
from benchmarks.gpu.predictions.instructions import FLAGS, LINE_INFO, Code
from benchmarks.gpu.predictions.loop_paths import (
    LATENCY,
    LoopPath,
    NoPathError,
    PathFinder,
    Source,
    cycles,
)
from gpuboost.backends.cuda.runtime.compile import OPTIONS
from gpuboost.backends.cuda.runtime.source import kernel_source
from tests.cuda import nvrtc
from tests.cuda.runtime.test_kernels_compile import needs_nvrtc

NO_BARRIER = 7
SOURCE = Source(
    {
        "k.cu": """\
__device__ int rare(int x)
{
    return x * 3;
}
__global__ void k(int* p)
{
    for (int row = 0; row < n; ++row) {
        if (p[row] == 7) p[row] = rare(p[row]);
        for (int k = 0; k < m; ++k) add(k);
    }
}
"""
    }
)
ROWS, PLANES = "for (int row", "for (int k"


def control(stall: int = 1, sets: int = NO_BARRIER, frees: int = NO_BARRIER, *waits: int) -> int:
    """Control bits of an instruction: stall cycles and barriers."""
    mask = sum(1 << barrier for barrier in waits)
    return stall << 41 | sets << 46 | frees << 49 | mask << 52


def sass(*lines: str | tuple[str, int] | tuple[str, int, int]) -> str:
    """Machine code in nvdisasm's format: labels, and instructions with their lines of k.cu."""
    text, at = [], 0
    for given in lines:
        if isinstance(given, str):
            text.append(f"{given}:")
            continue
        code, line, word = given if len(given) == 3 else (*given, control())
        text.append(f'\t//## File "/any/where/k.cu", line {line}')
        text.append(f"        /*{at:04x}*/       {code} ;     /* 0x{at:016x} */")
        text.append(f"                                       /* 0x{word:016x} */")
        at += 16
    return "\n".join(text)


LOOPS = sass(
    ("S2R R0, SR_TID.X", 5),
    ".L_x_1",
    ("LDG.E R2, desc[UR4][R0.64]", 8),
    ("ISETP.NE.AND P0, PT, R2, 0x7, PT", 8),
    ("@P0 BRA `(.L_x_2)", 8),
    ("IMAD R2, R2, 0x3, RZ", 3),
    ("IADD3 R2, R2, RZ, RZ", 3),
    ("STG.E desc[UR4][R0.64], R2", 8),
    ".L_x_2",
    ("BRA.DIV ~URZ, `(.L_x_9)", 8),
    ("ATOMS.ADD RZ, [R3], R4", 9),
    ("@!P1 BRA `(.L_x_4)", 7),
    ("EXIT", 10),
    ".L_x_4",
    ("BRA `(.L_x_1)", 7),
    ".L_x_9",
    ("WARPSYNC.COLLECTIVE R5, `(.L_x_2)", 8),
    ("EXIT", 10),
)
NESTED = sass(
    ".L_x_1",
    ("LDS R2, [R1]", 8),
    ("@P2 BRA `(.L_x_6)", 9),
    ".L_x_5",
    *((f"ATOMS.ADD R{i}, [R3], R4", 9) for i in range(4)),
    ("@P0 BRA `(.L_x_5)", 9),
    ".L_x_6",
    ("ATOMS.ADD RZ, [R3], R4", 9),
    ("@P1 BRA `(.L_x_6)", 9),
    ("IADD3 R1, R1, 0x4, RZ", 7),
    ("BRA P3, `(.L_x_1)", 7),
    ("EXIT", 10),
)


def path_of(text: str, path: LoopPath) -> list[str]:
    return [one.opcode for one in PathFinder(Code(text), SOURCE, path).path()]


# ---- reading and walking -----------------------------------------------------------------------


def test_instructions_are_read() -> None:
    code = Code(LOOPS)
    first = code.instructions[0]
    assert first.opcode == "S2R" and first.frames == (("k.cu", 5),) and first.stall == 1
    assert first.sets == first.frees == NO_BARRIER and first.waits == []
    (loop,) = code.loops
    assert {SOURCE.line(frame).strip()[:12] for frame in code.lines(loop)} == {ROWS}
    inlined = (
        '//## File "/a/x.cuh", line 3 inlined at "/a/k.cu", line 9\n//## File "/a/k.cu", line 9'
    )
    text = f"{inlined}\n/*0000*/ EXIT ;\n /* 0x{control(4, 1, 2, 0, 5):016x} */"
    (end,) = Code(text).instructions
    assert end.frames == (("x.cuh", 3), ("k.cu", 9))
    assert (end.stall, end.sets, end.frees, end.waits) == (4, 1, 2, [0, 5])


def test_a_path_is_the_longest_one_outside_of_excluded_functions() -> None:
    longest = path_of(LOOPS, LoopPath(ROWS))
    assert longest == ["LDG", "ISETP", "BRA", "IMAD", "IADD3", "STG", "BRA", "ATOMS", "BRA", "BRA"]
    assert path_of(LOOPS, LoopPath(ROWS, opcode_counts={"STG": 0})) == [*longest[:3], *longest[6:]]
    assert path_of(LOOPS, LoopPath(ROWS, excludes=("rare",))) == [*longest[:3], *longest[6:]]
    assert path_of(LOOPS, LoopPath())[0] == "S2R" and path_of(LOOPS, LoopPath())[-1] == "EXIT"


def test_inner_loops_have_the_given_trip_counts() -> None:
    once = path_of(NESTED, LoopPath(ROWS))
    assert once.count("ATOMS") == 1  # the remainder loop, not the unrolled one
    assert path_of(NESTED, LoopPath(ROWS, trip_counts={PLANES: 0})) == [
        "LDS",
        "BRA",
        "IADD3",
        "BRA",
    ]
    assert (
        path_of(NESTED, LoopPath(ROWS, trip_counts={PLANES: 5})).count("ATOMS") == 25
    )  # the longest path
    assert path_of(NESTED, LoopPath(PLANES)) == ["ATOMS", "BRA"]
    assert path_of(NESTED, LoopPath(PLANES, opcode_counts={"ATOMS": 4})) == [*["ATOMS"] * 4, "BRA"]


def test_paths_that_do_not_exist_are_errors() -> None:
    for path in (LoopPath("for (int other"), LoopPath(ROWS, opcode_counts={"STG": 2})):
        with pytest.raises(NoPathError, match="no path for LoopPath"):
            path_of(LOOPS, path)
    with pytest.raises(NoPathError, match="no file has the functions \\['gone'\\]"):
        path_of(LOOPS, LoopPath(ROWS, excludes=("gone",)))


def test_a_warp_waits_for_its_results() -> None:
    text = sass(
        ("LDG.E R2, desc[UR4][R0.64]", 8, control(2, 0)),
        ("LDG.E R3, desc[UR4][R1.64]", 8, control(2, 1)),
        ("IADD3 R6, R6, 0x1, RZ", 8, control(4)),
        ("IADD3 R4, R2, R3, RZ", 8, control(5, NO_BARRIER, NO_BARRIER, 0, 1)),
        ("EXIT", 10, control(5)),
    )
    own = Code(text).instructions
    assert cycles(own) == 2 + LATENCY["LDG"] + 5 + 5
    assert cycles(own, {**LATENCY, "LDG": 3}) == 2 + 2 + 4 + 5 + 5
    assert cycles([]) == 0


# ---- the loops of the kernels ------------------------------------------------------------------

ADVICE = "run hot_loops and predicted of benchmarks.gpu.predictions, and say why it grew"
QUICK = ("histogram of gradients", "histogram of two classes, 8 lanes", "rows moved")


@needs_nvrtc
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.slow]) for n in hot_loops.HOT],
)
def test_stored_counts_are_those_of_the_machine_code(name: str) -> None:
    """Counts are equal with the compiler of the file, and similar with another one."""
    found, known = hot_loops.count(hot_loops.HOT[name]), hot_loops.stored()[name]
    if json.loads(hot_loops.RESULT.read_text())["compiler"] == nvrtc.versions():
        assert found == known, ADVICE
    assert found.instructions == pytest.approx(known.instructions, rel=0.2), ADVICE


# Instructions of a warp per row and feature.
MAX_INSTRUCTIONS = {
    "histogram of gradients": 1.3,
    "histogram of gradients, 16 lanes": 1.3,
    "histogram of two classes": 1.15,
    "histogram of two classes, 8 lanes": 1.3,
    "rows of a long class": 0.8,
}


@pytest.mark.parametrize("name", MAX_INSTRUCTIONS)
def test_a_row_of_a_histogram_takes_few_instructions(name: str) -> None:
    """The test above compares the counts in the file with the code."""
    one = hot_loops.stored()[name]
    assert one.instructions / one.items / 32 <= MAX_INSTRUCTIONS[name]


def test_every_loop_is_stored() -> None:
    stored = hot_loops.stored()
    assert list(stored) == list(hot_loops.HOT)
    assert all(one.far_cycles >= one.cycles > one.instructions for one in stored.values())


@needs_nvrtc
def test_the_counted_code_is_the_compiled_code() -> None:
    """Line information does not change instructions."""
    text = kernel_source("histogram/histogram_values.cu", {"TILE": 32})
    codes = []
    for options in (OPTIONS, (*OPTIONS, LINE_INFO)):
        made = nvrtc.compile_source(text, hot_loops.ARCHITECTURE, options=options)
        sass = nvrtc.disassemble(made.cubin, FLAGS)["histogram_values"]
        codes.append([(one.opcode, one.control) for one in Code(sass).instructions])
    assert codes[0] == codes[1] and len(codes[0]) > 500
