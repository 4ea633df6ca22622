"""Estimates of the time to fit or predict in each backend, used by ``device="auto"``.

Work in Numba and CUDA is counted in four units: visits of a row for a feature in Numba, bytes that
kernels read or write, launches, and bytes copied to or from a GPU. Other work of these backends,
such as the search of a node, is converted to these units. The costs of NumPy, of binning on the CPU
and of each fit, tree and prediction are constants in seconds. `Speed` holds the seconds per unit:
its default for Numba was measured on two cores of a server processor, and those for CUDA are
assumptions. ``gpuboost info --calibrate`` measures the seconds per unit on the user's machine, for
the backends that work there. Estimates can be wrong by a factor of two. They are accurate enough to
avoid the start of a compiler or a GPU for a small fit.
"""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from gpuboost.backends.cache import BIN, GROW_MANY, GROW_ONE, cache_folder, replace_file
from gpuboost.engine.task import NO_LIMIT, DepthLimits

# Seconds of NumPy on a machine that has the default `Speed`. TREE: per tree. LEVEL: per level of a
# batch of trees. CALL: per feature and level of a batch. VISIT: per row, feature and level;
# SORTED_VISIT in levels whose nodes have so few rows that these are sorted instead of counted by
# bins; RANDOM_LEVEL and RANDOM_VISIT in addition, for random thresholds. CELL: per cell of a
# histogram that is scanned. ROUND_ROW: gradient, weight and leaf of one row in a round. STEP: one
# row, tree and level in prediction; PASS: one level of all trees that rows go through together.
NUMPY_BATCH_ROWS = 1 << 17  # rows of the trees that grow together
UNSORTED_ROWS = 16  # nodes with fewer rows than this on average are assumed to be sorted
N_CELLS = 256  # of a feature's histogram
NUMPY_TREE, NUMPY_LEVEL, NUMPY_CALL, NUMPY_CELL = 5e-4, 9e-4, 1.7e-5, 8.5e-9
NUMPY_VISIT, SORTED_VISIT, RANDOM_LEVEL, RANDOM_VISIT = 1e-9, 1.35e-7, 2.7e-3, 1.7e-8
NUMPY_ROUND_ROW = 1.1e-7

# Costs in Numba visits. NODE: search of one feature of a node. ALONE: factor if only one tree grows
# at a time: one thread then does all the work (in rounds, the factor applies to searches only).
# ROUND: one row, feature and level of a round, which sums only half of the rows. ROUND_ROW:
# gradient, weight and leaf of one row in a round. STEP: one row and level in prediction.
NODE_VISITS, ALONE, ROUND_VISIT, ROUND_ROW_VISITS = 125, 2, 0.2, 45
# Time of each further channel as a share of that of the first, in NumPy and in Numba (forests of
# 5,000 x 10 with 2, 10, 100 and 1,000 classes take 1, 1.7, 11 and 180 times as long in NumPy, and
# 1, 2.3, 10 and 90 in Numba).
CHANNEL_SHARE = 0.1
TREE_SECONDS = 3e-4  # per tree, in Numba
# Per value that is binned: with NumPy, and with Numba in tables of so many rows that they are not
# sorted. Smaller tables are sorted with either.
NUMPY_BIN_SECONDS, BIN_SECONDS, UNSORTED_TABLE_ROWS = 2e-8, 1e-8, 1 << 17
SEARCH_SECONDS = 1.4e-3  # per feature that a GPU bins: the host decides between the passes

CUDA_BATCH_ROWS = 1 << 27  # rows of the trees that a GPU grows together, limited by its memory
CUDA_NODES = 2**31 - 1  # largest number of nodes of a tree: their indices are int32
CUDA_START_SECONDS = 1.5  # first use of CUDA in a process, with compiled kernels on disk
# A GPU grows trees of at most this depth, or this many leaves, without the host reading the number
# of nodes, except in levels with many slices (see cuda/level/slices.py). With higher limits, the
# host reads it: few trees go deeper than 1.5 log2(n), which is 32 levels for two million rows, so
# most of the levels below would be empty, and an empty level still costs its launches.
SYNC_FREE_DEPTH, SYNC_FREE_LEAVES = 32, 64

# BINNING: launches and waits to bin a table, in launches. PREDICTION: launches to predict. REPLAY:
# cost of replaying a round as one graph, in launches. KERNEL: cost of each kernel of that graph, in
# launches; this is idle time of the device, without work of the host.
BINNING_LAUNCHES = 60
REPLAY_LAUNCHES, KERNEL_LAUNCHES = 1.5, 0.075

# Bytes that kernels read and write. A memory access transfers at least one sector, 32 bytes. ROW,
# per row and level: the histograms read a sector of codes and the row's number, weight and target;
# the partition reads the number and a sector of codes, then reads and writes number, weight and
# target. VISIT, per row, feature and level: part of a sector, and the time of an addition,
# converted to bytes. NODE, per node and feature: cells that are cleared, added to and searched.
# STEP, per row and level of a tree, in prediction.
ROW_TRAFFIC, VISIT_TRAFFIC, NODE_TRAFFIC = 32 + 12 + (4 + 32) + 24, 2.5, 3 * 24 * 256


@dataclass(frozen=True)
class Launches:
    """Launches (kernels and fills) of a batch of trees.

    Attributes
    ----------
    start : int
        Launches before the first level and after the last one.
    level : int
        Launches per level.
    """

    start: int
    level: int

    def of(self, levels: float) -> float:
        """Launches of a batch of trees with this many levels."""
        return self.start + self.level * levels


TREE_LAUNCHES = Launches(16, 14)
FOREST_LAUNCHES = Launches(16, 22)  # many nodes, each with few candidate features
BOOSTING_LAUNCHES = Launches(27, 14)  # per round


@dataclass(frozen=True)
class Amount:
    """An amount of work in the units of `Speed`.

    Attributes
    ----------
    visits : float
        Visits of one row for one feature in Numba.
    traffic : float
        Bytes that kernels read or write.
    launches : float
        Launches (kernels and fills).
    bytes : float
        Bytes copied to or from a GPU.
    """

    visits: float = 0.0
    traffic: float = 0.0
    launches: float = 0.0
    bytes: float = 0.0


@dataclass(frozen=True)
class Speed:
    """Seconds per unit of work on this machine."""

    numba_visit: float = 4e-10  # per row, feature and level, with many trees growing together
    cuda_traffic: float = 5e-13  # per byte that kernels read or write: 2 TB per second
    cuda_launch: float = 2e-5  # per launch on the host, Python's time included
    cuda_byte: float = 2e-10  # per byte copied from or to memory that is not pinned

    def on_cuda(self, amount: Amount) -> float:
        """Seconds that a GPU needs for this amount of work."""
        traffic, copies = amount.traffic * self.cuda_traffic, amount.bytes * self.cuda_byte
        return traffic + amount.launches * self.cuda_launch + copies


@dataclass(frozen=True)
class WorkTimes:
    """Estimated seconds to fit or predict in each backend, not counting the backend's start.

    The start is the time to import or initialise the backend and to compile its code.
    """

    program: str  # Numba code that does the work, one of `cache.PROGRAMS`; it is compiled once
    numpy: float
    numba: float
    cuda: float = math.inf


def binning_times(shape: tuple[int, int]) -> WorkTimes:
    """Estimated seconds to learn the bins of a matrix, and to bin it."""
    numpy = slowness() * NUMPY_BIN_SECONDS * shape[0] * shape[1]
    numba = numpy * BIN_SECONDS / NUMPY_BIN_SECONDS if shape[0] >= UNSORTED_TABLE_ROWS else numpy
    return WorkTimes(BIN, numpy, numba)


@dataclass(frozen=True)
class GrowthSize(DepthLimits):
    """Sizes of the data and limits of the trees, which determine how long growing takes."""

    n_samples: int
    n_features: int
    n_candidate_features: int  # number of features considered at a node
    n_trees: int  # number of trees, or of trees per round
    max_depth: int
    n_channels: int
    value_bytes: int = 4  # bytes of a value of the table: 4 or 8, 1 if the table is binned
    n_rounds: int = 1  # number of successive rounds
    max_leaf_nodes: int = NO_LIMIT
    min_samples_leaf: int = 1
    ccp_alpha: float = 0.0
    random_thresholds: bool = False

    @property
    def depth(self) -> float:
        """Number of levels that most rows pass before they reach a leaf: at most log2(n).

        Best-first trees go two levels deeper than a balanced tree with the same number of leaves.
        """
        levels = math.log2(max(2, self.n_samples))
        return min(levels, self.levels, math.log2(self.max_leaf_nodes) + 2)

    @property
    def levels(self) -> float:
        """Number of levels of the whole tree: about 1.5 log2(n), unless its limits are lower."""
        levels = 1.5 * math.log2(max(2, self.n_samples))
        return min(levels, self.deepest, 2 * math.log2(self.max_leaf_nodes))

    @property
    def channel_factor(self) -> float:
        """Time in NumPy and Numba relative to that of one channel."""
        return 1 + CHANNEL_SHARE * (self.n_channels - 1)

    @property
    def is_replayed(self) -> bool:
        """Whether a GPU replays whole rounds as a graph.

        If trees are pruned, only their growth is replayed, because the host prunes them. The
        estimate ignores memory: rounds are not replayed either if a level takes more than about 15
        slices (dozens, if there are millions of rows; see cuda/level/slices.py), but their launches
        matter little.
        """
        return self.n_rounds > 1 and is_sync_free(self) and self.ccp_alpha == 0.0


def is_sync_free(limits: DepthLimits) -> bool:
    """Whether a GPU grows trees with these limits without the host reading their numbers of nodes.

    The host then does not wait for the device, except for levels with many slices (see
    `Slices.are_few`), which the cost model ignores.
    """
    return limits.max_depth <= SYNC_FREE_DEPTH or limits.max_leaf_nodes <= SYNC_FREE_LEAVES


def growth_work(growth: GrowthSize) -> WorkTimes:
    """Estimated seconds to grow trees in each backend.

    They are infinite for CUDA if a tree could have more nodes than `CUDA_NODES` by its number of
    rows and its depth, unless it has at most `SYNC_FREE_LEAVES` leaves.
    """
    amount, speed = growth_amount(growth), measured_speed()
    slow = slowness()
    trees = slow * TREE_SECONDS * growth.n_rounds * growth.n_trees
    n_binned = growth.n_features if growth.value_bytes > 1 else 0
    binning = binning_times((growth.n_samples, n_binned))
    by_rows = 1 + 2 * (growth.n_samples // max(1, growth.min_samples_leaf))
    n_nodes = min(by_rows, 2.0 ** min(growth.max_depth + 1, 64) - 1)
    suits_cuda = n_nodes <= CUDA_NODES or growth.max_leaf_nodes <= SYNC_FREE_LEAVES
    return WorkTimes(
        GROW_ONE if growth.n_channels == 1 else GROW_MANY,
        numpy=slow * (0.001 + _numpy_seconds(growth)) + binning.numpy,
        numba=0.001 + trees + binning.numba + speed.numba_visit * amount.visits,
        cuda=0.005 + SEARCH_SECONDS * n_binned + speed.on_cuda(amount) if suits_cuda else math.inf,
    )


def growth_amount(growth: GrowthSize) -> Amount:
    """Amount of work to grow trees, including the copy of the table and targets to a GPU."""
    n, n_trees = growth.n_samples, float(growth.n_rounds) * growth.n_trees
    # Nodes per tree: as many as its depth and leaves allow, but at most one per four rows.
    of_tree = min(2.0 ** min(growth.max_depth + 1, 32), 2.0 * growth.max_leaf_nodes)
    n_nodes = n_trees * min(of_tree, max(1.0, n / 4))
    rows, searched = n_trees * n, n_nodes * growth.n_candidate_features
    visits = rows * growth.n_candidate_features * growth.depth
    alone = ALONE if growth.n_trees == 1 else 1
    numba = alone * (visits + NODE_VISITS * searched) * growth.channel_factor
    if growth.n_rounds > 1:
        numba = rows * ROUND_ROW_VISITS + ROUND_VISIT * visits + alone * NODE_VISITS * searched
        numba *= growth.channel_factor
    # Preparing the rows, with their gradients or draws, takes as long as one level.
    traffic = ROW_TRAFFIC * rows * (growth.depth + 1) + VISIT_TRAFFIC * visits
    row_bytes = growth.n_features * growth.value_bytes + 4 * (1 + growth.n_channels)
    return Amount(
        visits=numba,
        traffic=traffic + NODE_TRAFFIC * searched,
        launches=_launches(growth),
        bytes=float(n) * row_bytes,
    )


def _launches(growth: GrowthSize) -> float:
    """Launches on a GPU, and the cost of replayed rounds in launches.

    Sync-free growth launches every level that the limits allow.
    """
    kind = TREE_LAUNCHES if growth.n_candidate_features == growth.n_features else FOREST_LAUNCHES
    n_rounds, levels = growth.n_rounds, growth.levels
    if is_sync_free(growth):
        levels = growth.deepest
    of_batch = (BOOSTING_LAUNCHES if n_rounds > 1 else kind).of(levels)
    binning = BINNING_LAUNCHES if growth.value_bytes > 1 else 0
    # The host makes all launches of the first two rounds: it records one, then captures one.
    if growth.is_replayed:
        replay = REPLAY_LAUNCHES + KERNEL_LAUNCHES * of_batch
        return 2 * of_batch + (n_rounds - 2) * replay + binning
    batches = n_rounds * math.ceil(growth.n_trees * growth.n_samples / CUDA_BATCH_ROWS)
    return batches * of_batch + binning


def _numpy_seconds(growth: GrowthSize) -> float:
    """Seconds that NumPy needs to grow trees; the time per row depends on the sizes of nodes."""
    n, n_candidates, depth = growth.n_samples, growth.n_candidate_features, growth.depth
    n_trees = growth.n_rounds * growth.n_trees
    # Number of levels of a complete tree whose nodes have at least `UNSORTED_ROWS` rows on average.
    unsorted = min(max(0.0, 1 + math.log2(n / UNSORTED_ROWS)), depth)
    levels = growth.n_rounds * math.ceil(growth.n_trees * n / NUMPY_BATCH_ROWS) * growth.levels
    is_random = growth.random_thresholds
    calls = levels * (NUMPY_LEVEL + NUMPY_CALL * n_candidates + RANDOM_LEVEL * is_random)
    visit = NUMPY_VISIT * unsorted + SORTED_VISIT * (depth - unsorted)
    visit += RANDOM_VISIT * depth * is_random
    cells = N_CELLS * min(2.0**depth, n / UNSORTED_ROWS)
    searches = n_trees * n_candidates * (n * visit + NUMPY_CELL * cells) * growth.channel_factor
    rounds = NUMPY_ROUND_ROW * n_trees * n if growth.n_rounds > 1 else 0.0
    return NUMPY_TREE * n_trees + calls + searches + rounds


# ---- measured constants --------------------------------------------------------------------------


def speed_file() -> Path:
    """The file that stores the measured `Speed`."""
    return cache_folder() / "speed.json"


@cache
def measured_speed() -> Speed:
    """The `Speed` measured on this machine.

    It is the default if none was measured, if the file cannot be read or, with a warning, if its
    content is not valid.
    """
    path = speed_file()
    try:
        seconds = json.loads(path.read_bytes())["seconds"]
        if not all(type(each) in (int, float) and 0 < each < math.inf for each in seconds.values()):
            raise ValueError(f"{seconds} are not numbers above 0")
        return Speed(**seconds)
    except OSError:
        pass
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        warnings.warn(
            f"{path} is ignored, device='auto' assumes default speeds: {error!r}; run gpuboost "
            "info --calibrate again, or delete the file",
            UserWarning,
            stacklevel=2,
        )
    return Speed()


def slowness() -> float:
    """Time of this machine's processor relative to one of the default `Speed`."""
    return measured_speed().numba_visit / Speed().numba_visit


def keep_speed(speed: Speed, machine: str) -> Path:
    """Store the measured speed for this and later processes; return the path of the file.

    ``machine`` is the name of the machine, which is stored with it.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    content = {"machine": machine, "seconds": asdict(speed)}
    path = speed_file()
    replace_file(path, (json.dumps(content, indent=2) + "\n").encode())
    measured_speed.cache_clear()
    return path
