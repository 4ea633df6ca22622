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

from gpuboost.backends.compiled import GROW_MANY, GROW_ONE, PREDICT
from gpuboost.backends.user_cache import cache_folder, replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from gpuboost.engine.ensemble import Ensemble

FILE = "speed.json"
FORMAT = 1
NUMPY_CALL_SECONDS = 2e-4  # a feature, a level and a batch of trees, however few rows
NUMPY_BATCH_ROWS = 1 << 17  # rows of the trees that NumPy grows together
CUDA_BATCH_ROWS = 1 << 27  # the same of a GPU: its memory is what limits them
LAUNCHES_PER_LEVEL = 20  # kernels and fills, however many nodes and trees


@dataclass(frozen=True)
class Speed:
    """Seconds that one of a thing takes on this machine.

    Attributes
    ----------
    numba_visit, cuda_visit : float
        A row looked at for one feature on one level of one tree.
    numba_step, cuda_step : float
        A level of one tree that a row passes in prediction.
    cuda_launch : float
        A launch: the time of the host, Python's included.
    cuda_byte : float
        A byte copied between host and device, from memory that is not pinned.
    cuda_start : float
        The first use of CUDA in a process, kernels read from disk.
    """

    numba_visit: float = 5e-9
    numba_step: float = 3e-9
    cuda_visit: float = 1e-10
    cuda_step: float = 5e-11
    cuda_launch: float = 2e-5
    cuda_byte: float = 2e-10
    cuda_start: float = 1.5


@dataclass(frozen=True)
class Amount:
    """Work in units of `Speed`: what takes long of it."""

    visits: float = 0.0
    steps: float = 0.0
    launches: float = 0.0
    bytes: float = 0.0

    def on_cuda(self, speed: Speed) -> float:
        """Seconds that a GPU needs."""
        return (
            self.visits * speed.cuda_visit
            + self.steps * speed.cuda_step
            + self.launches * speed.cuda_launch
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

    def repeated(self, times: int) -> Work:
        """The same work so many times, one after the other."""
        return Work(self.program, times * self.numpy, times * self.numba, times * self.cuda)


def growth_amount(
    n_samples: int, n_looked_at: int, n_trees: int, max_depth: int, n_channels: int
) -> Amount:
    """Growing trees: every level looks at so many features of every row.

    Most rows are in leaves after log2(n) levels; the last ones go about half as deep again.
    """
    depth = math.log2(max(2, n_samples))
    return Amount(
        visits=float(n_trees) * n_samples * n_looked_at * min(depth, max_depth),
        launches=LAUNCHES_PER_LEVEL
        * math.ceil(n_trees * n_samples / CUDA_BATCH_ROWS)
        * min(1.5 * depth, max_depth),
        bytes=float(n_samples) * (n_looked_at + 4 * n_channels),
    )


def growth_work(
    n_samples: int, n_looked_at: int, n_trees: int, max_depth: int, n_channels: int
) -> Work:
    """Seconds of growing trees that look at ``n_looked_at`` features in each node."""
    amount = growth_amount(n_samples, n_looked_at, n_trees, max_depth, n_channels)
    levels = min(1.5 * math.log2(max(2, n_samples)), max_depth)
    calls = float(math.ceil(n_trees * n_samples / NUMPY_BATCH_ROWS)) * n_looked_at * levels
    speed = measured_speed()
    return Work(
        GROW_ONE if n_channels == 1 else GROW_MANY,
        numpy=0.01 + NUMPY_CALL_SECONDS * calls + 50e-9 * amount.visits,
        numba=0.002 + speed.numba_visit * amount.visits,
        cuda=0.005 + amount.on_cuda(speed),
    )


def prediction_amount(n_samples: int, ensemble: Ensemble) -> Amount:
    """Predicting: every row takes a step per level of every tree."""
    leaves = max(2.0, len(ensemble.left) / max(1, ensemble.n_trees) / 2)
    n_features = 1 + int(ensemble.feature.max(initial=0))
    return Amount(
        steps=float(n_samples) * ensemble.n_trees * 1.5 * math.log2(leaves),
        launches=LAUNCHES_PER_LEVEL,
        bytes=8.0 * n_samples * (n_features + ensemble.n_values) + 16.0 * len(ensemble.left),
    )


def prediction_work(n_samples: int, ensemble: Ensemble) -> Work:
    """Seconds of predicting rows."""
    amount, speed = prediction_amount(n_samples, ensemble), measured_speed()
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
