"""The CUDA shim: correct kernels give exact results, and planted faults are reported."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import cuda_shim
from tests.cuda_shim.asan import run_under_asan
from tests.cuda_shim.launcher import KernelError, Module
from tests.cuda_shim.mutants import barrier_mutants, vote_mutants

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)

EXAMPLES = Path(__file__).parent / "examples"
IN_PROCESS = ("plain", "guard", "race", "undefined", "ucontext")
ORDERS = (0, 1, 2)
i32, i64 = np.int32, np.int64


def example(name: str) -> str:
    return (EXAMPLES / f"{name}.cu").read_text(encoding="utf-8")


def module(name: str, flavour: str = "plain", **options: Any) -> Module:
    return Module(example(name), flavour, file_name=f"{name}.cu", **options)


# Sound kernels ------------------------------------------------------------------------------


def check_histogram(sound: Module) -> None:
    rng = np.random.default_rng(1)
    n = 1000
    codes = rng.integers(0, 256, (n, 32), dtype=np.uint8)
    gradients = rng.integers(-40_000, 40_000, n, dtype=i32)
    out = np.zeros((256, 32), np.uint64)
    kernel = sound.get_function("histogram")
    kernel((3,), (256,), (codes, gradients, i32(n), i32(400), out), shared_mem=256 * 32 * 4)
    expected = np.zeros((256, 32), i64)
    for feature in range(32):
        np.add.at(expected[:, feature], codes[:, feature], gradients.astype(i64))
    np.testing.assert_array_equal(out.view(i64), expected)


def check_scan(sound: Module) -> None:
    values = np.random.default_rng(2).integers(-(10**12), 10**12, (5, 256))
    sums, largest = np.zeros_like(values), np.zeros(5)
    arguments = (values, np.float64(7.0), sums, largest)
    sound.get_function("scan")((5,), (256,), arguments)
    np.testing.assert_array_equal(sums, values.cumsum(axis=1))
    np.testing.assert_array_equal(largest, (values.cumsum(axis=1) / 7.0).max(axis=1))


def check_partition(sound: Module) -> None:
    values = np.random.default_rng(3).integers(0, 100, 1000, dtype=i32)
    out, counts = np.zeros_like(values), np.zeros(2, np.uint32)
    sound.get_function("partition")((4,), (256,), (values, i32(1000), i32(30), out, counts))
    left = int((values < 30).sum())
    np.testing.assert_array_equal(counts, [left, 1000 - left])
    np.testing.assert_array_equal(np.sort(out[:left]), np.sort(values[values < 30]))
    np.testing.assert_array_equal(np.sort(out[left:]), np.sort(values[values >= 30]))


def check_exchange(sound: Module) -> None:
    values, out = np.arange(256, dtype=i32), np.zeros(256, i32)
    sound.get_function("exchange_in_warp")((1,), (256,), (values, out))
    np.testing.assert_array_equal(out, values ^ 1)


def check_last_block(sound: Module) -> None:
    values = np.arange(640, dtype=i32)
    partial, finished, out = np.zeros(10, i32), np.zeros(1, np.uint32), np.zeros(1, i32)
    sound.get_function("last_block_sums")((10,), (64,), (values, partial, finished, out))
    assert out[0] == values.sum()


def check_vote(sound: Module) -> None:
    for values in (np.zeros(96), np.ones(96), np.arange(96)):
        out = np.zeros(3, i32)
        sound.get_function("vote")((1,), (96,), (values.astype(i32), out))
        assert out.tolist() == [values.any(), values.all(), np.count_nonzero(values)]


def check_language(sound: Module) -> None:
    out, wide, vectors = np.zeros(64, i32), np.zeros(64), np.zeros((64, 4), np.uint32)
    sound.get_function("language")((1,), (64,), (out, wide, vectors))
    lanes = np.arange(64)
    np.testing.assert_array_equal(out, 2016 + 4 + 2 ** (lanes % 4))
    np.testing.assert_array_equal(wide, np.full(64, 2017.0))
    np.testing.assert_array_equal(
        vectors, np.column_stack([lanes * 0 + k for k in (1, 2, 3)] + [lanes])
    )


def check_numbering(sound: Module) -> None:
    out = np.zeros((24, 30), i32)
    sound.get_function("numbering")((2, 3, 4), (5, 3, 2), (out,))
    np.testing.assert_array_equal(out, np.arange(24)[:, None] * 1000 + np.arange(30))


CHECKS: dict[str, Callable[[Module], None]] = {
    "histogram": check_histogram,
    "scan": check_scan,
    "partition": check_partition,
    "exchange_in_warp": check_exchange,
    "last_block_sums": check_last_block,
    "vote": check_vote,
    "language": check_language,
    "numbering": check_numbering,
}


def test_every_sound_kernel_has_a_check() -> None:
    assert set(module("sound").kernel_names) == set(CHECKS)


@pytest.mark.parametrize("order_seed", ORDERS)
@pytest.mark.parametrize("flavour", IN_PROCESS)
@pytest.mark.parametrize("kernel", CHECKS)
def test_sound_kernels_are_exact_and_pass_every_tool(
    kernel: str, flavour: str, order_seed: int
) -> None:
    CHECKS[kernel](module("sound", flavour, order_seed=order_seed))


def test_random_order_visits_blocks_and_threads_in_another_order() -> None:
    sound = module("sound")
    values = np.arange(1000, dtype=i32)
    results = []
    for order_seed in (0, 0, 1, 1, 2):
        out, counts = np.zeros(1000, i32), np.zeros(2, np.uint32)
        kernel = sound.get_function("partition")
        arguments = (values, i32(1000), i32(1000), out, counts)
        kernel((4,), (256,), arguments, order_seed=order_seed)
        results.append(out.tolist())
    assert results[0] == results[1] == values.tolist()
    assert results[2] == results[3] != results[0]
    assert results[4] not in (results[0], results[2])


# Planted faults -----------------------------------------------------------------------------


def launch_fault(
    kernel: str, flavour: str, order_seed: int = 0, grid: int = 1, **options: Any
) -> np.ndarray[Any, Any]:
    faulty = module("faulty", flavour, order_seed=order_seed, **options)
    out = np.zeros(256, i32)
    arguments = (np.arange(256, dtype=i32), out)
    faulty.get_function(kernel)((grid,), (256,), arguments, shared_mem=1024)
    return out


def fault_line(kernel: str) -> int | None:
    """The line that the report must have, or None if the runtime cannot know it."""
    lines = example("faulty").splitlines()
    named = [i for i, line in enumerate(lines, 1) if line.endswith(f"// fault {kernel}")]
    return named[0] if named else None


RACES = [
    "missing_barrier",
    "write_after_read",
    "increment_without_atomic",
    "atomic_and_plain",
    "missing_syncwarp",
    "dynamic_shared_race",
    "blocks_write_same_place",
    "block_reads_other",
]
# kernel, flavour, message
FAULTS = [
    *((kernel, "race", r"race: .* unordered with") for kernel in RACES),
    ("divergent_barrier", "plain", r"divergent barrier: thread 0 .*thread 255"),
    ("return_before_barrier", "plain", r"deadlock: thread 0 waits.*thread 100 has returned"),
    ("return_before_vote", "plain", r"deadlock: thread 192 waits.*thread 0 has returned"),
    ("lane_not_in_mask", "plain", r"calling lane 16 is not in mask 0000ffff"),
    ("shuffle_from_outside_mask", "plain", r"lane 0 reads lane 20, which is outside mask"),
    ("odd_width", "plain", r"width 12 is not a power of two"),
    ("beyond_static_shared", "undefined", r"undefined behaviour: index outside its array"),
    ("beyond_dynamic_shared", "plain", r"out of bounds.*thread \(255, 0, 0\)"),
    ("before_dynamic_shared", "plain", r"write at byte -4 of 1024 bytes of dynamic shared"),
    ("beyond_array", "guard", r"out of bounds.*thread \(255, 0, 0\)"),
    ("before_array", "guard", r"out of bounds.*thread \(0, 0, 0\)"),
    ("endless_loop", "plain", r"longer than its time limit"),
    ("divides_by_zero", "plain", r"division by zero.*thread \(0, 0, 0\)"),
    ("overflows", "undefined", r"signed overflow of a sum.*thread \(128, 0, 0\)"),
    ("shifts_too_far", "undefined", r"shift by a negative.*thread \(32, 0, 0\)"),
    ("converts_out_of_range", "undefined", r"conversion of a float.*thread \(22, 0, 0\)"),
    ("traps", "plain", r"__trap .*thread \(7, 0, 0\)"),
    ("fills_its_stack", "plain", r"a full stack.*block \(0, 0, 0\)"),
]


def test_every_planted_fault_is_sought() -> None:
    elsewhere = {"reads_poison", "beyond_odd_dynamic_shared"}
    sought = {kernel for kernel, _, _ in FAULTS} | elsewhere
    assert set(module("faulty").kernel_names) == sought


@pytest.mark.parametrize(("kernel", "flavour", "message"), FAULTS)
def test_fault_is_reported_with_kernel_and_line(kernel: str, flavour: str, message: str) -> None:
    with pytest.raises(KernelError, match=message) as caught:
        launch_fault(kernel, flavour, grid=2, cpu_seconds=0.2)
    text = str(caught.value)
    assert text.startswith(f"{kernel}: ")
    assert re.search(r"\[block \(\d+, 0, 0\)", text)
    line = fault_line(kernel)
    if line is not None:
        assert re.search(rf"faulty\.cu(:| line ){line}\b", text), text


@pytest.mark.parametrize("order_seed", range(1, 6))
@pytest.mark.parametrize("kernel", RACES)
def test_race_is_reported_in_any_order(kernel: str, order_seed: int) -> None:
    with pytest.raises(KernelError, match="race:"):
        launch_fault(kernel, "race", order_seed, grid=2)


@pytest.mark.parametrize("order_seed", range(1, 11))
def test_random_order_alone_shows_a_missing_barrier(order_seed: int) -> None:
    reversed_input = np.arange(255, -1, -1)
    assert (launch_fault("missing_barrier", "plain", order_seed) != reversed_input).any()
    expected = 4 * reversed_input + 6
    assert (launch_fault("write_after_read", "plain", order_seed) != expected).any()


def test_shared_memory_is_poisoned_before_every_block() -> None:
    poison = np.frombuffer(b"\xa5" * 4, i32)[0]
    assert (launch_fault("reads_poison", "plain", grid=3) == poison).all()


def test_writes_into_the_rounding_of_dynamic_shared_memory_are_found() -> None:
    kernel = module("faulty").get_function("beyond_odd_dynamic_shared")
    arguments = (np.arange(256, dtype=i32), np.zeros(256, i32))
    kernel((1,), (256,), arguments, shared_mem=1008)
    with pytest.raises(KernelError, match="write at byte 1000 of 1000 bytes of dynamic shared"):
        kernel((1,), (256,), arguments, shared_mem=1000)


def test_launches_work_after_every_fault() -> None:
    faulty = module("faulty", cpu_seconds=0.2)
    for kernel, flavour, _ in FAULTS:
        if flavour != "plain":
            continue
        arguments = (np.arange(256, dtype=i32), np.zeros(256, i32))
        with pytest.raises(KernelError):
            faulty.get_function(kernel)((1,), (256,), arguments, shared_mem=1024)
        check_scan(module("sound"))
    out = np.zeros(256, i32)
    faulty.get_function("missing_syncwarp")((1,), (256,), (np.arange(256, dtype=i32), out))
    assert out[1] == 0


SOUND_MUTANTS = list(barrier_mutants(example("sound")))


@pytest.mark.parametrize("mutant", SOUND_MUTANTS, ids=lambda mutant: f"line{mutant.line}")
def test_race_detector_finds_every_deleted_barrier(mutant: cuda_shim.Mutant) -> None:
    mutated = Module(mutant.source_text, "race", file_name="sound.cu")
    reports = []
    for check in CHECKS.values():
        try:
            check(mutated)
        except KernelError as error:
            reports.append(str(error))
    assert len(reports) == 1, reports
    assert "race:" in reports[0]


def test_mutants_skip_comments_and_keep_lines() -> None:
    source = "// __syncthreads();\nf();\n__syncthreads();\n__syncwarp(\n  m);\n__syncthreads_or(1);"
    mutants = list(barrier_mutants(source))
    assert [(m.line, m.barrier.split("(")[0]) for m in mutants] == [
        (3, "__syncthreads"),
        (4, "__syncwarp"),
    ]
    for mutant in mutants:
        assert mutant.source_text.count("\n") == source.count("\n")


def test_mutants_of_votes() -> None:
    source = (
        "// __syncthreads_or(1)\nx = __syncthreads_or(f(a, g(b))) != 0;\n__syncthreads_count(c);"
    )
    mutants = list(vote_mutants(source))
    assert [(m.line, m.barrier) for m in mutants] == [
        (2, "warp"),
        (2, "thread"),
        (3, "warp"),
        (3, "thread"),
    ]
    first = source.split("\n", 1)[0]
    changed = [m.source_text.removeprefix(first).strip() for m in mutants]
    assert changed[0].startswith(
        "x = __any_sync(FULL_MASK, f(a, g(b))) != 0;\n__syncthreads_count("
    )
    assert changed[1].startswith("x = ((f(a, g(b))) != 0) != 0;\n")
    assert changed[2].endswith("\n__popc(__ballot_sync(FULL_MASK, c));")


# AddressSanitizer ---------------------------------------------------------------------------

ASAN = "from tests.cuda_shim.test_shim import CHECKS, launch_fault, module\n"


def test_sound_kernels_pass_address_sanitizer() -> None:
    done = run_under_asan(f"{ASAN}for check in CHECKS.values(): check(module('sound', 'asan'))")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("kernel", "report"),
    [
        ("beyond_static_shared", "global-buffer-overflow"),
        ("beyond_array", "heap-buffer-overflow"),
        ("before_array", "heap-buffer-overflow|unknown|SEGV|use-after"),
        ("beyond_dynamic_shared", "SEGV"),
    ],
)
def test_address_sanitizer_reports(kernel: str, report: str) -> None:
    done = run_under_asan(f"{ASAN}launch_fault({kernel!r}, 'asan')")
    assert done.returncode == 86, done.stdout + done.stderr
    assert re.search(report, done.stderr), done.stderr
    assert f"in {kernel} " in done.stderr
