"""Times of the histograms of one level, compared with the device's ceilings."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.gpu.cases import GpuCase
from benchmarks.gpu.device.ceilings import Ceilings, measure_ceilings
from benchmarks.gpu.device.device import Device
from benchmarks.peers.peers import OURS
from gpuboost.engine.bins import BinMapper, BinnedMatrix

if TYPE_CHECKING:
    from benchmarks.gpu.plan import Keep, Plan

WIDTH = 256
LARGEST_VALUE = 2**27
VALUES, CLASSES = "values", "two classes"
MANY = {"7 classes": 7, "30 classes": 30, "100 classes": 100}
FEW_LISTED = 5  # of 28 features, in a classification forest
# 32-bit additions to shared memory for a row and feature: the weight and the two halves of a value.
# With two classes, a value is the weight or 0, so it has one word. With more classes, rows add the
# weight alone.
ADDITIONS = {VALUES: 3.0, CLASSES: 2.0, **dict.fromkeys(MANY, 1.0)}
ROW_BYTES = 12  # the number, weight and target of a row

Record = dict[str, Any]


@dataclass(frozen=True)
class Shape:
    """The histograms of a level: all features of ``nodes`` nodes, or ``n_listed`` of each node."""

    target: str
    nodes: int
    n_listed: int | None = None

    @property
    def name(self) -> str:
        """Name in results."""
        listed = f", {self.n_listed} features of each" if self.n_listed else ""
        return f"{self.target}, {self.nodes} node{'s' if self.nodes > 1 else ''}{listed}"


# The root, and levels deep enough that the rows of a node are far apart in memory.
SHAPES = (
    Shape(VALUES, 1),
    Shape(VALUES, 64),
    Shape(CLASSES, 1),
    Shape(CLASSES, 64),
    Shape(CLASSES, 64, FEW_LISTED),
    Shape("7 classes", 1),
    Shape("7 classes", 64),
    Shape("30 classes", 16),
    Shape("100 classes", 8),
)


@dataclass(frozen=True)
class Level:
    """A level on the device whose histograms can be built.

    Attributes
    ----------
    build : callable
        Launches the kernels.
    check : callable
        Returns whether the sums are correct.
    n_bytes, additions : float
        Bytes that any kernel must move, and additions that it must make.
    """

    build: Callable[[], None]
    check: Callable[[], bool]
    n_bytes: float
    additions: float


def measure_histograms(
    case: GpuCase, device: Device, plan: Plan, keep: Keep, say: Callable[[str], None]
) -> None:
    """Measure the ceilings, then every level that is left."""
    left = shapes_left(case, keep)
    if not left:
        return
    share = min(case.rows / 1_000_000, 1.0)
    ceilings = measure_ceilings(device, share, plan.repeat)
    keep.add(case, "ceilings", ceilings.record())
    rates = ceilings.record()
    say(
        f"  {'ceilings':10s} copy {rates['copy_GB_per_s']:.0f} GB/s, shared memory "
        f"{rates['adds_G_per_s']:.0f} G additions/s"
    )
    for shape in left:
        who = f"{OURS}, {shape.name}"
        record = _level_record(case, device, shape, ceilings, plan)
        say(f"  {who}: {said_level(record)}")
        keep.add(case, who, record)
        device.give_memory_back()


def shapes_left(case: GpuCase, keep: Keep) -> list[Shape]:
    """The shapes that have no finished record."""
    return [shape for shape in SHAPES if not keep.done(case, f"{OURS}, {shape.name}")]


def _level_record(
    case: GpuCase, device: Device, shape: Shape, ceilings: Ceilings, plan: Plan
) -> Record:
    try:
        level = make_level(case, device, shape, plan.seed)
        seconds = device.kernel_seconds(level.build, plan.repeat)
        exact = level.check()
    except Exception as error:  # other levels can still be measured
        return {"failed": f"{type(error).__name__}: {error}"[:500]}
    floor = ceilings.floor(level.n_bytes, level.additions)
    return {
        "seconds": seconds,
        "exact": exact,
        "floor_seconds": floor,
        "of_ceiling": floor / seconds,
        "GB_per_s": level.n_bytes / seconds / 1e9,
        "adds_G_per_s": level.additions / seconds / 1e9,
        "of_copy": level.n_bytes / seconds / ceilings.copy_rate,
        "of_adds": level.additions / seconds / ceilings.add_rate,
    }


def said_level(record: Record) -> str:
    """Describe a record in one line."""
    if "failed" in record:
        return f"FAILED {record['failed']}"
    exact = "" if record["exact"] else "   WRONG SUMS"
    return (
        f"{1e6 * record['seconds']:.0f} us, {record['of_ceiling']:.0%} of the ceiling "
        f"({record['of_copy']:.0%} of copies, {record['of_adds']:.0%} of additions){exact}"
    )


def make_level(case: GpuCase, device: Device, shape: Shape, seed: int) -> Level:
    """Make a level whose nodes have their rows in ascending order, as after a stable partition."""
    host = _draw_rows(case, shape, seed)
    n, nodes = case.rows, shape.nodes
    builder, rows = _builder(device, host)
    runtime = device.runtime
    search = _work(runtime, host.count, builder.rows_per_block(n))
    listed = _listed(runtime, host.listed, len(host.codes))
    size = (nodes, builder.n_listed, 2 + builder.n_channels, WIDTH)
    histogram = device.xp.zeros(size, dtype=device.xp.int64)
    columns = len(builder.matrix.tiles) * builder.matrix.tile
    return Level(
        build=lambda: builder.build(rows, search, range(nodes), listed, histogram),
        check=lambda: _is_exact(runtime.to_host(histogram), host),
        n_bytes=float(n) * (columns + ROW_BYTES),
        additions=ADDITIONS[shape.target] * n * builder.n_listed,
    )


@dataclass(frozen=True)
class _HostRows:
    """The rows of a level, ordered by node, and the features that nodes consider.

    ``n_classes`` is 0 for targets with one channel (values and two classes). ``codes`` is uint8 of
    shape (n_features, n_samples).
    """

    target: str
    codes: np.ndarray
    row: np.ndarray
    value: np.ndarray
    count: np.ndarray
    listed: np.ndarray
    n_classes: int


def _draw_rows(case: GpuCase, shape: Shape, seed: int) -> _HostRows:
    rng = np.random.default_rng([seed, shape.nodes])
    n, features = case.rows, case.features
    node = rng.integers(0, shape.nodes, n, dtype=np.uint8)
    listed = np.arange(features)[None]
    if shape.n_listed:
        drawn = rng.permuted(np.tile(listed, (shape.nodes, 1)), axis=1)
        listed = np.sort(drawn[:, : shape.n_listed], axis=1)
    value, n_classes = _targets(rng, shape.target, n), MANY.get(shape.target, 0)
    place = node.astype(np.uint16)  # NumPy sorts 16-bit integers by radix, which is fast
    place = place * np.uint16(n_classes) + value.astype(np.uint16) if n_classes else place
    return _HostRows(
        target=shape.target,
        codes=_draw_codes(n, features, seed),
        row=np.argsort(place, kind="stable").astype(np.uint32),
        value=value,
        count=np.bincount(node, minlength=shape.nodes),
        listed=listed.astype(np.int32),
        n_classes=n_classes,
    )


@lru_cache(1)  # all levels share the codes, and drawing them takes most of the host's time
def _draw_codes(n: int, features: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, WIDTH, (features, n), dtype=np.uint8)


def _targets(rng: np.random.Generator, target: str, n: int) -> np.ndarray:
    if target != VALUES:
        return rng.integers(0, MANY.get(target, 2), n, dtype=np.int32)
    return rng.integers(-LARGEST_VALUE, LARGEST_VALUE, n, dtype=np.int32)


def _builder(device: Device, host: _HostRows) -> tuple[Any, Any]:
    """The histogram builder, and the rows on the device."""
    cuda = importlib.import_module("gpuboost.backends.cuda.level.histograms")
    matrices = importlib.import_module("gpuboost.backends.cuda.data.matrix")
    rows_of = importlib.import_module("gpuboost.backends.cuda.sampling.rows").DeviceRows
    flags = importlib.import_module("gpuboost.backends.cuda.runtime.compile_flags").CompileFlags
    runtime, n = device.runtime, host.codes.shape[1]
    by_class, n_channels = host.n_classes > 0, max(host.n_classes, 1)
    capacity = cuda.capacity_for_cells(runtime.shared_memory, by_class)
    words = cuda.cell_words(by_class, host.target == CLASSES, False)
    tile = cuda.choose_tile(capacity, WIDTH, words)
    matrix = matrices.upload_matrix(runtime, _binned(host.codes), tile)
    rows = rows_of(
        runtime.asarray(host.row),
        runtime.asarray(np.ones(n, dtype=np.uint32)),
        runtime.asarray(host.value[host.row][None]),
    )
    builder = cuda.HistogramBuilder(
        runtime=runtime,
        matrix=matrix,
        n_channels=n_channels,
        by_class=by_class,
        counted=False,
        max_weight=1,
        n_listed=host.listed.shape[1],
        flags=flags(gradients=host.target == VALUES, binary_targets=host.target == CLASSES),
    )
    return builder, rows


def _binned(codes: np.ndarray) -> BinnedMatrix:
    """Codes that were drawn at random, as a matrix of features whose values are their codes."""
    features = len(codes)
    value = np.tile(np.arange(WIDTH - 1, dtype=np.float64), features)
    mapper = BinMapper(
        n_bins=np.full(features, WIDTH - 1, dtype=np.int32),
        lowest=value,
        highest=value,
        is_categorical=np.zeros(features, dtype=bool),
    )
    return BinnedMatrix(codes, mapper, n_missing=np.zeros(features, dtype=np.int64))


def _listed(runtime: Any, features: np.ndarray, n_features: int) -> Any:
    """Feature lists of the nodes, or the one list of all features."""
    listed = importlib.import_module("gpuboost.backends.cuda.level.histograms").FeatureLists
    lists, count = features.shape
    unused = runtime.asarray(np.zeros(lists, dtype=np.uint64))
    stride = 0 if count == n_features else count
    return listed(runtime.asarray(features), stride, count, unused)


def _work(runtime: Any, count: np.ndarray, most: int) -> Any:
    """Cut the rows of nodes into pieces for blocks, as the kernels do."""
    levels = importlib.import_module("gpuboost.backends.cuda.level.records")
    start = np.cumsum(count) - count
    pieces = [
        (slot, first + offset, min(most, rows - offset))
        for slot, (first, rows) in enumerate(zip(start, count, strict=True))
        for offset in range(0, int(rows), most)
    ]
    slot, first, rows = (np.array(column) for column in zip(*pieces, strict=True))
    sizes = runtime.asarray(np.array([len(count), len(pieces), 0], dtype=np.int32))
    work = levels.Pieces(
        n_pieces=sizes[1:],
        slot=runtime.asarray(slot.astype(np.int32)),
        first=runtime.asarray(first.astype(np.int64)),
        rows=runtime.asarray(rows.astype(np.int32)),
    )
    return _Search(sizes, work)


@dataclass(frozen=True)
class _Search:
    """The part of `level.Search` that histograms read."""

    sizes: Any
    work: Any


def _is_exact(histogram: np.ndarray, host: _HostRows) -> bool:
    """Whether the sums of the first and last feature of each node are those of the rows."""
    ends = np.cumsum(host.count)
    for node, end in enumerate(ends):
        rows = host.row[end - host.count[node] : end]
        for place in (0, -1):
            codes = host.codes[host.listed[node % len(host.listed), place]][rows]
            weight, channels = _sums(codes, host.value[rows], host.n_classes)
            found = histogram[node, place]
            if (found[0] != weight).any() or (channels != found[2:]).any():
                return False
    return True


def _sums(codes: np.ndarray, value: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Weight of each code (256,), and the sums of its channels (n_channels, 256)."""
    if n_classes:
        cell = codes * np.int32(n_classes) + value
        count = np.bincount(cell, minlength=WIDTH * n_classes).reshape(WIDTH, n_classes)
        return count.sum(axis=1), count.T
    # The sums are integers below 2**53, so float64 represents them exactly.
    total = np.bincount(codes, weights=value, minlength=WIDTH)
    return np.bincount(codes, minlength=WIDTH), total[None]
