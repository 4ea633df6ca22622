"""Instructions of the kernels' hot loops, counted in their machine code.

``python -m benchmarks.gpu.predictions.hot_loops`` compiles the kernels for `ARCHITECTURE` with
gpuboost's own options, counts the `Hot` loops and writes
``benchmarks/results/gpu_instructions.json``, which ``benchmarks.gpu.predictions.predicted`` reads.
It needs no GPU, only the compiler and the disassembler of the extra ``test``.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from benchmarks.gpu.predictions.instructions import FLAGS, LINE_INFO, Code
from benchmarks.gpu.predictions.loop_paths import LATENCY, LoopPath, PathFinder, Source, cycles
from benchmarks.report.markdown import markdown
from benchmarks.report.results import FOLDER
from gpuboost.backends.cuda.runtime.compile import OPTIONS
from gpuboost.backends.cuda.runtime.source import constant, kernel_folder, kernel_source
from gpuboost.engine.criteria import NEWTON

RESULT = FOLDER / "gpu_instructions.json"
ARCHITECTURE = "sm_90"
# Latencies in cycles if the data are in the L1 cache, and if they are in device memory.
IN_FIRST_CACHE, FAR = {**LATENCY, "LDG": 40}, {**LATENCY, "LDG": 600}

_CATEGORIES = ("sorted_category_item", "random_category_item", "single_category_item")
_SCORES = ("natural_log", "entropy_term", "ordering_gradient", "word_of_codes")
# Functions that splits of numeric features do not call: with searched, and with random thresholds.
_NUMERIC = (*_CATEGORIES, *_SCORES, "random_numeric_item")
_RANDOM = (*_CATEGORIES, *_SCORES, "numeric_item")
_ROWS = "while (next.count > last)"
_VALUE_CELLS = "for (; code < width; code += HISTOGRAM_THREADS / TILE)"
_CLASS_CELLS = "for (int32 cell = threadIdx.x; cell < cells; cell += HISTOGRAM_THREADS)"
_SEGMENT_ROWS = "for (int32 at = first + (int32)threadIdx.x / TILE; at < beyond"
_SCATTERED_ROWS = "for (int32 at = first + (int32)threadIdx.x / TILE; at < end"
_PIECES = "for (int64 piece = blockIdx.x; piece < *n_pieces"
_LISTED = "for (int32 listed = 0; listed < task.limits.max_features"
_STACK = "for (int32 height = 1; height > 0;"
_TILES = "for (int64 tile = chunk.first; tile < chunk.end"
_ALL_ROWS = "for (int64 row = row_of_thread(); row < n"
_HALVING = "while (low < high)"
_VALUES = "histogram/histogram_values.cu"
_HISTOGRAM_THREADS = ("histogram/shared_histogram.cuh", "HISTOGRAM_THREADS")


@dataclass(frozen=True)
class Hot:
    """A hot loop, or a whole kernel without one, and the work of a warp in one iteration.

    Attributes
    ----------
    kernel : str
        File and name: ``"histogram/histogram_values.cu histogram_values"``.
    path : LoopPath
    of : str
        What an iteration processes, for example "rows" or "cells of a lane".
    threads : tuple of str
        File and name of the constant that is the size of a block.
    items : int
        Number of these that are processed in one iteration.
    constants : mapping of str to int
        Constants that the kernel is compiled with.
    near : bool
        Whether its data are in the L1 cache, not in the L2 cache or device memory.
    """

    kernel: str
    path: LoopPath
    of: str
    threads: tuple[str, str]
    items: int = 1
    constants: Mapping[str, int] = field(default_factory=dict)
    near: bool = False


def _histogram(words: int, **constants: int) -> Hot:
    """A loop that adds rows to a histogram, with ``words`` additions to a cell."""
    items = 16 if constants.get("SIDE_BY_SIDE") else 8  # rows of 32 lanes in an iteration
    path = LoopPath(_ROWS, opcode_counts={"ATOMS": items * words})
    return Hot(f"{_VALUES} histogram_values", path, "rows", _HISTOGRAM_THREADS, items, constants)


def _classes(path: LoopPath, of: str) -> Hot:
    kernel = "histogram/histogram_classes.cu histogram_classes"
    return Hot(kernel, path, of, _HISTOGRAM_THREADS, 4, {"TILE": 32})


def _subtree(name: str, path: LoopPath, of: str) -> Hot:
    threads, constants = {
        "small": (("level/candidates.cuh", "SPLIT_THREADS"), {}),
        "tiny": (("common/common.cuh", "WARP"), {"BY_WARP": 1}),
    }[name]
    return Hot("growth/subtrees.cu grow_subtrees", path, of, threads, constants=constants)


def _split(excludes: tuple[str, ...], **constants: int) -> Hot:
    path = LoopPath("for (int32 own = blockIdx.x; own < end", excludes, {"STG": 7})
    threads = ("level/candidates.cuh", "SPLIT_THREADS")
    return Hot(
        "level/split.cu split_features", path, "histograms of a block", threads, 1, constants
    )


def _policy(kernel: str, path: LoopPath) -> Hot:
    return Hot(kernel, path, "tiles of a block", ("common/chunks.cuh", "CHUNK_THREADS"))


def _partition(name: str, opcode: str, times: int) -> Hot:
    threads = ("level/partition.cu", "PARTITION_THREADS")
    path = LoopPath(_PIECES, opcode_counts={opcode: times})
    return Hot(f"level/partition.cu {name}", path, "pieces of a block", threads)


def _round(kernel: str, path: LoopPath, items: int = 1, **constants: int) -> Hot:
    return Hot(
        kernel, path, "rows of a lane", ("common/rounds.cuh", "BOOST_THREADS"), items, constants
    )


HOT = {
    "histogram of gradients": _histogram(3, TILE=32, GRADIENTS=1, SIDE_BY_SIDE=1),
    "histogram of gradients, 16 lanes": _histogram(3, TILE=16, GRADIENTS=1, SIDE_BY_SIDE=1),
    "histogram of two classes": _histogram(2, TILE=32, BINARY_TARGETS=1, SIDE_BY_SIDE=1),
    "histogram of two classes, 8 lanes": _histogram(2, TILE=8, BINARY_TARGETS=1),
    "flush of values": Hot(
        f"{_VALUES} histogram_values",
        LoopPath(_VALUE_CELLS, opcode_counts={"REDG": 4}),
        "cells of a lane",
        _HISTOGRAM_THREADS,
        2,
        {"TILE": 32, "GRADIENTS": 1},
    ),
    "rows of a long class": _classes(LoopPath(_SEGMENT_ROWS, opcode_counts={"ATOMS": 4}), "rows"),
    "rows of short classes": _classes(LoopPath(_SCATTERED_ROWS, opcode_counts={"REDG": 4}), "rows"),
    "flush of a class": _classes(
        LoopPath(_CLASS_CELLS, opcode_counts={"REDG": 4}), "cells of a lane"
    ),
    "split by squares": _split(_NUMERIC),
    "split by gradients": _split(_NUMERIC, CRITERION=NEWTON),
    "random split": _split(_RANDOM),
    "split of a node": Hot(
        "level/select_split.cu decide_splits",
        LoopPath(
            "for (int32 node = first_of_warp()",
            ("last_rank", "count_up_to"),
            {"STG": 11, "LDG": 40},
            {"for (int32 j = threadIdx.x": 0},
        ),
        "nodes of a warp",
        ("common/common.cuh", "WARP"),
    ),
    "features of a node, a step": Hot(
        "level/select_split.cu choose_features",
        LoopPath(_HALVING, opcode_counts={"LDG": 1}, trip_counts={"for (int32 start = 0": 0}),
        "steps of a warp",
        ("common/common.cuh", "WARP"),
    ),
    "rows that go left": _partition("partition_count", "LDG", 16),
    "rows moved": _partition("partition_move", "STG", 12),
    "small node": _subtree("small", LoopPath(_STACK, _NUMERIC, trip_counts={_LISTED: 0}), "nodes"),
    "feature of a small node": _subtree("small", LoopPath(_LISTED, _NUMERIC), "features"),
    "random feature of a small node": _subtree("small", LoopPath(_LISTED, _RANDOM), "features"),
    "tiny node": _subtree("tiny", LoopPath(_STACK, _NUMERIC, trip_counts={_LISTED: 0}), "nodes"),
    "feature of a tiny node": _subtree("tiny", LoopPath(_LISTED, _NUMERIC), "features"),
    "random feature of a tiny node": _subtree("tiny", LoopPath(_LISTED, _RANDOM), "features"),
    "nodes opened": _policy(
        "level/policy.cu open_nodes", LoopPath(_TILES, trip_counts={_HALVING: 10})
    ),
    "nodes placed": _policy("level/children.cu place_nodes", LoopPath(_TILES)),
    "pieces placed": _policy("level/children.cu place_pieces", LoopPath(_TILES)),
    "nodes numbered": Hot(
        "growth/node_buffer.cu number_nodes",
        LoopPath("for (int64 tile = first; tile < end"),
        "tiles of a block",
        ("growth/node_buffer.cu", "NUMBER_THREADS"),
    ),
    "sums of inner nodes": Hot(
        "growth/node_buffer.cu number_nodes",
        LoopPath("for (int64 i = threadIdx.x; i < n_nodes * n_sums", opcode_counts={"STG": 1}),
        "tiles of a block",
        ("growth/node_buffer.cu", "NUMBER_THREADS"),
    ),
    "gradients of log loss": _round(
        "boosting/gradients.cu differentiate", LoopPath(opcode_counts={"STG": 2}), FORMULA=7
    ),
    "gradients made integers": _round(
        "boosting/gradients.cu list_round",
        LoopPath("for (int64 start = begin", opcode_counts={"STG": 5, "LDG": 8}),
    ),
    "leaves kept": _round(
        "boosting/leaves.cu keep_leaves",
        LoopPath("for (int32 at = threadIdx.x; at < rows[piece]", opcode_counts={"STG": 4}),
        4,
    ),
    "leaves added": _round(
        "boosting/leaves.cu add_leaves",
        LoopPath(excludes=("leaf_of",), opcode_counts={"STG": 1, "LDG": 5}),
    ),
    "classes reweighed": _round(
        "adaboost/adaboost.cu reweigh_classes", LoopPath(_ALL_ROWS, opcode_counts={"STG": 4}), 4
    ),
    "misses found": _round("adaboost/adaboost.cu find_misses", LoopPath(_ALL_ROWS)),
    "step of a traversal": Hot(
        "predict/predict.cu predict",
        LoopPath("while (all >= 0)", opcode_counts={"LDG": 4}),
        "steps",
        ("predict/predict.cu", "PREDICT_THREADS"),
        4,
        near=True,
    ),
    "codes of a row": Hot(
        "data/bin.cu bin_values",
        LoopPath(
            "for (int32 f = 0; f < n_own; ++f)",
            opcode_counts={"STG": 1},
            trip_counts={"for (int32 step = top": 8},
        ),
        "values of a lane",
        ("data/tile.cuh", "BIN_THREADS"),
    ),
}


@dataclass(frozen=True)
class Counted:
    """Counts of one iteration of a loop by one warp.

    Attributes
    ----------
    instructions : int
        Instructions that the warp issues.
    cycles, far_cycles : int
        Cycles of the iteration without competing warps, if the data are in a cache, and if they
        are in device memory.
    items : int
        As in `Hot`.
    threads : int
        Threads of a block.
    registers : int
        Registers of a thread.
    """

    instructions: int
    cycles: int
    far_cycles: int
    items: int
    threads: int
    registers: int


def count(hot: Hot) -> Counted:
    """Compile a kernel and count its loop.

    Raises
    ------
    NoPathError
        If the kernel no longer has such a loop.
    """
    file_name, name = hot.kernel.split()
    codes, registers = _machine_code(file_name, tuple(sorted(hot.constants.items())))
    path = PathFinder(codes[name], _source(), hot.path).path()
    near = cycles(path, IN_FIRST_CACHE if hot.near else LATENCY)
    threads = constant(*hot.threads)
    return Counted(len(path), near, cycles(path, FAR), hot.items, threads, registers[name])


@functools.cache
def _machine_code(
    file_name: str, constants: tuple[tuple[str, int], ...]
) -> tuple[dict[str, Code], dict[str, int]]:
    """Compile a file; return the code of its kernels, and the registers of a thread in each."""
    from tests.cuda import nvrtc

    text = kernel_source(file_name, dict(constants))
    options = (*OPTIONS, LINE_INFO, "--ptxas-options=-v")
    made = nvrtc.compile_source(text, ARCHITECTURE, file_name=file_name, options=options)
    codes = {name: Code(sass) for name, sass in nvrtc.disassemble(made.cubin, FLAGS).items()}
    return codes, {name: used.registers for name, used in made.resources.items()}


@functools.cache
def _source() -> Source:
    """The source texts of all kernel files."""
    paths = [path for path in kernel_folder().rglob("*") if path.suffix in (".cu", ".cuh")]
    return Source({path.name: path.read_text(encoding="utf-8") for path in paths})


@functools.cache
def stored() -> dict[str, Counted]:
    """Read the counts from the result file."""
    found = json.loads(RESULT.read_text())["loops"]
    names = [each.name for each in fields(Counted)]
    return {key: Counted(**{name: one[name] for name in names}) for key, one in found.items()}


def content() -> dict[str, Any]:
    """Make the content of the result file."""
    from tests.cuda import nvrtc

    loops = {}
    for name, hot in HOT.items():
        loops[name] = {"kernel": hot.kernel, "of": hot.of, **vars(count(hot))}
    return {"architecture": ARCHITECTURE, "compiler": nvrtc.versions(), "loops": loops}


def main(path: Path = RESULT) -> int:
    """Write the result file and print the table."""
    found = content()
    path.write_text(json.dumps(found, indent=1) + "\n")
    columns = ("kernel", "instructions", "cycles", "far_cycles", "items", "of", "registers")
    rows = [[name, *(str(one[c]) for c in columns)] for name, one in found["loops"].items()]
    print(markdown(["loop", *columns], rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
