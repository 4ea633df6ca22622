"""How long a piece of work takes in each backend: what ``device="auto"`` decides by.

The constants were measured on two cores of a server processor (CPU), or counted from what kernels
do (CUDA); ``gpuboost info --calibrate`` measures those of this machine and keeps them. Being wrong
by a factor of two costs little; starting a compiler or a GPU for a small fit would cost more.
"""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any

from gpuboost.backends.compiled_programs import GROW_MANY, GROW_ONE, PREDICT
from gpuboost.backends.user_cache import cache_folder, replace_file
from gpuboost.engine.task import NO_LIMIT

if TYPE_CHECKING:
    from pathlib import Path

    from gpuboost.engine.ensembles.ensemble import Ensemble

FILE = "speed.json"
FORMAT = 3

# NumPy searches levels whose nodes have many rows, and look at all features, by one histogram; else
# it goes feature by feature, and where nodes have few rows it sorts them. Seconds of a feature of a
# level of a batch of trees, however few rows, and of a row looked at for a feature.
NUMPY_BATCH_ROWS = 1 << 17  # rows of the trees that grow together
WHOLE_ROWS, UNSORTED_ROWS = 128, 16  # of a node, on average
WHOLE_CALL, FEATURE_CALL = 4e-5, 2.2e-4
WHOLE_VISIT, FEATURE_VISIT, SORTED_VISIT = 2.5e-9, 7e-9, 5e-8

# Numba, in visits: a node searched for a feature, by all threads and by one; a row looked at for a
# feature by rounds, which sum half of the rows; the gradient, weight and leaf of a row in a round.
NODE_VISITS, ALONE = 125, 2
ROUND_VISIT, ROUND_ROW_VISITS = 0.2, 45
TREE_SECONDS = 3e-4  # beside all that, on the host
BIN_SECONDS = 1e-8  # a value

CUDA_BATCH_ROWS = 1 << 27  # rows of the trees that a GPU grows together: its memory limits them
# Trees no deeper than this, or of no more leaves, a GPU grows without being asked how many nodes
# there are. Few go deeper than 1.5 log2(n), of two million rows 32 levels; a level without nodes
# costs its launches. So a deeper limit is taken for none, of which the host asks.
SYNC_FREE_DEPTH, SYNC_FREE_LEAVES = 32, 64
CUDA_NODES = 2**31 - 1  # of a tree: their places are int32
WAIT_LAUNCHES = 3  # what the host could launch while it waits for an answer of the device
BINNING_LAUNCHES = 20  # a feature, most of them for the sort of its values
PREDICTION_LAUNCHES = 4

# Bytes of device memory that kernels read and write, counted. A row on a level: one sector of codes
# and its word where histograms are summed; a sector and its places where it is moved.
ROW_TRAFFIC = 32 + 12 + (4 + 32) + 24
VISIT_TRAFFIC = 2.5  # a row looked at for a feature: a share of its sector, and time to add
NODE_TRAFFIC = 3 * 24 * 256  # a node looked at for a feature: cells cleared, added to and searched
NODE_BYTES = 60  # of a node that is copied to the host


@dataclass(frozen=True)
class Launches:
    """Kernels and fills of a batch of trees, however many they are: counted.

    Attributes
    ----------
    start : int
        Beside the levels.
    level : int
    """

    start: int
    level: int

    def of(self, levels: float) -> float:
        """Of so many levels in all."""
        return self.start + self.level * levels


TREE_LAUNCHES = Launches(16, 14)
FOREST_LAUNCHES = Launches(16, 22)  # nodes look at few features, and there are many of them
BOOSTING_LAUNCHES, ADABOOST_LAUNCHES = Launches(27, 14), Launches(21, 11)  # of a round


@dataclass(frozen=True)
class Speed:
    """Seconds that one of a thing takes on this machine.

    Attributes
    ----------
    numba_visit : float
        A row looked at for one feature on one level of one tree, of many that grow together.
    numba_step, cuda_step : float
        A level of one tree that a row passes in prediction.
    cuda_traffic : float
        A byte of device memory that kernels read or write: 2 TB in a second.
    cuda_launch : float
        A launch: the time of the host, Python's included.
    cuda_round : float
        A round that is replayed as one launch, beside its kernels and `cuda_traffic`.
    cuda_kernel : float
        A kernel of such a round: the gap before it. The host is done before the device is.
    cuda_byte : float
        A byte copied between host and device, from memory that is not pinned.
    cuda_start : float
        The first use of CUDA in a process, kernels read from disk.
    """

    numba_visit: float = 4e-10
    numba_step: float = 8e-10
    cuda_traffic: float = 5e-13
    cuda_step: float = 5e-12
    cuda_launch: float = 2e-5
    cuda_round: float = 3e-5
    cuda_kernel: float = 1.5e-6
    cuda_byte: float = 2e-10
    cuda_start: float = 1.5


@dataclass(frozen=True)
class Amount:
    """Work in units of `Speed`: what takes long of it. Numba visits, a GPU has traffic."""

    visits: float = 0.0
    traffic: float = 0.0
    steps: float = 0.0
    launches: float = 0.0
    rounds: float = 0.0
    kernels: float = 0.0
    bytes: float = 0.0

    def on_cuda(self, speed: Speed) -> float:
        """Seconds that a GPU needs."""
        return (
            self.traffic * speed.cuda_traffic
            + self.steps * speed.cuda_step
            + self.launches * speed.cuda_launch
            + self.rounds * speed.cuda_round
            + self.kernels * speed.cuda_kernel
            + self.bytes * speed.cuda_byte
        )


@dataclass(frozen=True)
class Work:
    """How long a piece of work takes in each backend, in seconds.

    Attributes
    ----------
    program : str
        What Numba needs for it.
    numpy, numba : float
        Once ``program`` is loaded.
    cuda : float
        Once CUDA has started.
    """

    program: str
    numpy: float
    numba: float
    cuda: float = math.inf


@dataclass(frozen=True)
class Growth:
    """Trees to grow, as far as it matters for how long that takes.

    Attributes
    ----------
    n_samples, n_features : int
        Of the table.
    n_looked_at : int
        Features that a node looks at.
    n_trees : int
        That grow together.
    max_depth, n_channels, max_leaf_nodes, min_samples_leaf : int
    value_bytes : int
        Of a value of the table, 4 or 8; 1 if it is binned already.
    n_rounds : int
        How many times such trees grow, each time after the ones before.
    replayed : bool
        Whether rounds can be one launch of a recording, see `rounds_are_replayed`.
    """

    n_samples: int
    n_features: int
    n_looked_at: int
    n_trees: int
    max_depth: int
    n_channels: int
    value_bytes: int = 4
    n_rounds: int = 1
    replayed: bool = False
    max_leaf_nodes: int = NO_LIMIT
    min_samples_leaf: int = 1

    @property
    def depth(self) -> float:
        """Levels that most rows reach: trees have them in leaves after about log2(n).

        Those that grow best first, after two more levels than if they had their leaves on one.
        """
        levels = math.log2(max(2, self.n_samples))
        return min(levels, self.levels, math.log2(self.max_leaf_nodes) + 2)

    @property
    def levels(self) -> float:
        """Levels that any rows reach: the last ones go about half as deep again."""
        levels = 1.5 * math.log2(max(2, self.n_samples))
        most = min(self.max_leaf_nodes - 1, 2 * math.log2(self.max_leaf_nodes))
        return min(levels, self.max_depth, most)

    @property
    def launched(self) -> float:
        """Levels that a GPU is told to grow: all there could be, where it is not asked."""
        deepest = min(self.max_depth, self.max_leaf_nodes - 1)
        if deepest <= SYNC_FREE_DEPTH or self.max_leaf_nodes <= SYNC_FREE_LEAVES:
            return deepest
        return self.levels

    @property
    def n_nodes(self) -> float:
        """Nodes of a tree: all of its levels, or of a deep one a quarter of its rows."""
        most = min(2.0 ** min(self.max_depth + 1, 32), 2.0 * self.max_leaf_nodes)
        return min(most, max(1.0, self.n_samples / 4))

    @property
    def suits_cuda(self) -> bool:
        """Whether a GPU takes such trees: of any number of nodes that there can be."""
        by_rows = 1 + 2 * (self.n_samples // max(1, self.min_samples_leaf))
        by_depth = 2.0 ** min(self.max_depth + 1, 64) - 1
        return min(by_rows, by_depth) <= CUDA_NODES or self.max_leaf_nodes <= SYNC_FREE_LEAVES

    @property
    def rows(self) -> float:
        """Those of all trees of all rounds."""
        return float(self.n_rounds) * self.n_trees * self.n_samples

    @property
    def launches(self) -> Launches:
        """Those of a batch."""
        if self.n_rounds > 1:
            return BOOSTING_LAUNCHES
        return FOREST_LAUNCHES if self.n_looked_at < self.n_features else TREE_LAUNCHES


def rounds_are_replayed(max_depth: int, max_leaf_nodes: int, ccp_alpha: float) -> bool:
    """Whether a GPU replays rounds of trees of these limits.

    Of deeper trees, unless they have few leaves, the host asks how many nodes there are. What is
    pruned is finished by the host. Not looked at is memory: of rounds whose levels take dozens of
    slices (see cuda/level/slices.py) the host asks, too, but these launches are few.
    """
    is_bounded = max_depth <= SYNC_FREE_DEPTH or max_leaf_nodes <= SYNC_FREE_LEAVES
    return is_bounded and ccp_alpha == 0.0


def growth_amount(growth: Growth) -> Amount:
    """What is done to grow trees; on a GPU, from a table on the host and to trees there."""
    n, n_rounds = float(growth.n_samples), growth.n_rounds
    trees = float(n_rounds) * growth.n_trees
    searched = trees * growth.n_nodes * growth.n_looked_at
    # To make the rows, with gradients or draws, takes as long as a level.
    traffic = ROW_TRAFFIC * growth.rows * (growth.depth + 1) + NODE_TRAFFIC * searched
    traffic += VISIT_TRAFFIC * growth.rows * growth.n_looked_at * growth.depth
    batches, replays = n_rounds * math.ceil(growth.n_trees * n / CUDA_BATCH_ROWS), 0
    of_batch = growth.launches.of(growth.launched)
    if growth.replayed:
        batches, replays = min(2, n_rounds), max(0, n_rounds - 2)  # one recorded, one captured
    elif n_rounds > 1:
        of_batch += WAIT_LAUNCHES * (1 + growth.launched)
    binned = BINNING_LAUNCHES * growth.n_features if growth.value_bytes > 1 else 0
    return Amount(
        visits=_visits(growth, searched),
        traffic=traffic,
        launches=batches * of_batch + binned,
        rounds=replays,
        kernels=replays * of_batch,
        bytes=n * (growth.n_features * growth.value_bytes + 4 * (1 + growth.n_channels))
        + NODE_BYTES * trees * growth.n_nodes,
    )


def growth_work(growth: Growth) -> Work:
    """Seconds of growing trees."""
    amount, speed = growth_amount(growth), measured_speed()
    host = TREE_SECONDS * growth.n_rounds * growth.n_trees
    if growth.value_bytes > 1:
        host += BIN_SECONDS * growth.n_samples * growth.n_features
    return Work(
        GROW_ONE if growth.n_channels == 1 else GROW_MANY,
        numpy=0.001 + host + _numpy_seconds(growth),
        numba=0.001 + host + speed.numba_visit * amount.visits,
        cuda=0.005 + amount.on_cuda(speed) if growth.suits_cuda else math.inf,
    )


def _visits(growth: Growth, searched: float) -> float:
    """What Numba does, ``searched`` being the features of all nodes."""
    alone = ALONE if growth.n_trees == 1 else 1
    looked_at = growth.rows * growth.n_looked_at * growth.depth
    if growth.n_rounds == 1:
        return alone * (looked_at + NODE_VISITS * searched)
    rows = growth.rows * ROUND_ROW_VISITS
    return rows + ROUND_VISIT * looked_at + alone * NODE_VISITS * searched


def _numpy_seconds(growth: Growth) -> float:
    """Of searching and summing, by how large the nodes of a level are."""
    n, looked, depth = growth.n_samples, growth.n_looked_at, growth.depth
    # Levels whose nodes have so many rows on average, were all of them full.
    large, unsorted = (
        min(max(0.0, 1 + math.log2(n / rows)), depth) for rows in (WHOLE_ROWS, UNSORTED_ROWS)
    )
    whole = large if looked == growth.n_features else 0.0
    batches = growth.n_rounds * math.ceil(growth.n_trees * n / NUMPY_BATCH_ROWS)
    calls = WHOLE_CALL * whole + FEATURE_CALL * (growth.levels - whole)
    visits = (
        WHOLE_VISIT * whole + FEATURE_VISIT * (unsorted - whole) + SORTED_VISIT * (depth - unsorted)
    )
    return looked * (batches * calls + growth.rows * visits)


def prediction_amount(n_samples: int, row_bytes: int, ensemble: Ensemble) -> Amount:
    """Predicting: every row takes a step per level of every tree."""
    leaves = max(2.0, len(ensemble.left) / max(1, ensemble.n_trees) / 2)
    return Amount(
        steps=float(n_samples) * ensemble.n_trees * 1.5 * math.log2(leaves),
        launches=PREDICTION_LAUNCHES,
        bytes=float(n_samples) * (row_bytes + 8 * ensemble.n_values) + 16.0 * len(ensemble.left),
    )


def prediction_work(n_samples: int, row_bytes: int, ensemble: Ensemble) -> Work:
    """Seconds of predicting rows of so many bytes."""
    amount, speed = prediction_amount(n_samples, row_bytes, ensemble), measured_speed()
    return Work(
        PREDICT,
        numpy=0.001 + 20e-9 * amount.steps,
        numba=0.0005 + speed.numba_step * amount.steps,
        cuda=0.001 + amount.on_cuda(speed),
    )


# ---- what was measured on this machine -----------------------------------------------------------


def speed_file() -> Path:
    """Where measured constants are kept."""
    return cache_folder() / FILE


@cache
def measured_speed() -> Speed:
    """The constants of this machine, the usual ones where none were measured."""
    path = speed_file()
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return Speed()
    except UnicodeDecodeError:
        text = ""
    try:
        return _checked(json.loads(text))
    except ValueError as error:
        warnings.warn(
            f"{path} is ignored, device='auto' goes by the usual speeds: {error}; run gpuboost "
            "info --calibrate again, or delete the file",
            UserWarning,
            stacklevel=2,
        )
        return Speed()


def _checked(content: Any) -> Speed:
    """Constants as read from a file."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"it does not say format {FORMAT}")
    seconds = content.get("seconds")
    names = {field.name for field in fields(Speed)}
    if not isinstance(seconds, dict) or set(seconds) != names:
        raise ValueError(f"its seconds are not {', '.join(sorted(names))}")
    for name, value in seconds.items():
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise ValueError(f"its {name} is {value!r}, not a number above 0")
    return Speed(**seconds)


def keep_speed(speed: Speed, machine: str) -> Path:
    """Write constants for this and later processes; the file they are in.

    Raises
    ------
    OSError
        It cannot be written.
    """
    content = {"format": FORMAT, "machine": machine, "seconds": asdict(speed)}
    path = speed_file()
    replace_file(path, (json.dumps(content, indent=2) + "\n").encode())
    measured_speed.cache_clear()
    return path
