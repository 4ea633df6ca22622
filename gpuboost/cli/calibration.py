"""Measures what `gpuboost.backends.cost_model` goes by: ``gpuboost info --calibrate``.

Everything is timed through estimators, as users meet it. What all devices do alike, reading and
binning, cancels in differences of two runs.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cost_model import (
    BOOSTING_LAUNCHES,
    Amount,
    Growth,
    Speed,
    growth_amount,
    prediction_amount,
)
from gpuboost.data.dataset import Dataset
from gpuboost.engine.task import NO_LIMIT
from gpuboost.estimators.boosting.estimators import GradientBoostingClassifier
from gpuboost.estimators.forest.forest import RandomForestClassifier

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

N_FEATURES, LOOKED_AT = 16, 4
FEW_TREES, MORE_TREES = 1, 9
FEW_ROUNDS, MORE_ROUNDS = 5, 25  # the first rounds are not replayed
ROUND_DEPTHS = (2, 12)  # all levels are launched, whether there are nodes or not
REPEATS = 3  # the fastest counts
LEAST = 1e-13  # seconds; a difference within the noise is not below
_FIRST_USE = """
import numpy as np
from time import perf_counter
from gpuboost import DecisionTreeClassifier
X = np.arange(64.0).reshape(32, 2)
began = perf_counter()
DecisionTreeClassifier(device={device!r}).fit(X, X[:, 0] > 20).predict(X)
print(perf_counter() - began)
"""


@dataclass(frozen=True)
class Size:
    """Rows of the tables that are timed: large ones, and one that is nearly no work."""

    large: int
    small: int = 1000


CPU_SIZE, CUDA_SIZE = Size(large=100_000), Size(large=1_000_000)


def measure(usable: list[str], cpu_size: Size = CPU_SIZE, cuda_size: Size = CUDA_SIZE) -> Speed:
    """The constants of this machine; the usual ones of devices that cannot be used.

    Parameters
    ----------
    usable : list of str
        Names of backends, as `gpuboost.backends.select.available_backends` has them.
    """
    speed = Speed()
    if "numba" in usable:
        visit, step = slopes("numba", cpu_size)
        speed = replace(speed, numba_visit=visit, numba_step=step)
    if "cuda" in usable:
        traffic, step = slopes("cuda", cuda_size)
        of_round, of_kernel = seconds_of_a_round("cuda", cuda_size)
        speed = replace(
            speed,
            cuda_traffic=traffic,
            cuda_step=step,
            cuda_launch=seconds_of_a_launch("cuda", cuda_size),
            cuda_round=of_round,
            cuda_kernel=of_kernel,
            cuda_byte=seconds_of_a_byte("cuda", cuda_size),
            cuda_start=seconds_of_the_start("cuda"),
        )
    return speed


def slopes(device: str, size: Size) -> tuple[float, float]:
    """Seconds of a visit (of a GPU: of a byte of traffic) and of a step.

    What more trees take longer, over what they do more.
    """
    X, y = table(size.large)
    data = Dataset(X)
    fits, predictions, grown, steps = [], [], [], []
    for n_trees in (FEW_TREES, MORE_TREES):
        model = forest(device, n_trees).fit(data, y)
        fits.append(fastest(partial(model.fit, data, y)))
        predictions.append(fastest(partial(model.predict, X)))
        amount = growth_of(len(X), n_trees)
        grown.append(amount.traffic if device == "cuda" else amount.visits)
        steps.append(prediction_amount(len(X), X[0].nbytes, model._ensemble).steps)
    return _slope(fits, grown), _slope(predictions, steps)


def growth_of(n_samples: int, n_trees: int) -> Amount:
    """What a forest of trees to the end grows."""
    return growth_amount(
        Growth(n_samples, N_FEATURES, LOOKED_AT, n_trees, NO_LIMIT, 1, value_bytes=1)
    )


def _slope(seconds: Sequence[float], amounts: Sequence[float]) -> float:
    return max(LEAST, (seconds[1] - seconds[0]) / (amounts[1] - amounts[0]))


def seconds_of_a_launch(device: str, size: Size) -> float:
    """Of a fit that is nothing but launches."""
    X, y = table(size.small)
    data = Dataset(X)
    model = forest(device, FEW_TREES)
    model.fit(data, y)
    return fastest(partial(model.fit, data, y)) / growth_of(len(X), FEW_TREES).launches


def seconds_of_a_round(device: str, size: Size) -> tuple[float, float]:
    """Of boosting a table that is nearly no work: of a round beside its kernels, and of a kernel.

    What more rounds take longer, and what it is more of deeper trees.
    """
    X, y = table(size.small)
    data = Dataset(X)
    of_rounds, n_kernels = [], [BOOSTING_LAUNCHES.of(depth) for depth in ROUND_DEPTHS]
    make: Any = GradientBoostingClassifier
    for depth in ROUND_DEPTHS:
        seconds = []
        for n_rounds in (FEW_ROUNDS, MORE_ROUNDS):
            model = make(n_estimators=n_rounds, max_depth=depth, device=device)
            model.fit(data, y)
            seconds.append(fastest(partial(model.fit, data, y)))
        of_rounds.append(_slope(seconds, [FEW_ROUNDS, MORE_ROUNDS]))
    of_kernel = _slope(of_rounds, n_kernels)
    return max(LEAST, of_rounds[0] - n_kernels[0] * of_kernel), of_kernel


def seconds_of_a_byte(device: str, size: Size) -> float:
    """Of a prediction that does little more than copy its rows."""
    X, y = table(size.large)
    model = forest(device, FEW_TREES, max_depth=1).fit(X[: size.small], y[: size.small])
    X = X.astype(np.float64)
    model.predict(X)
    amount = prediction_amount(len(X), X[0].nbytes, model._ensemble)
    return fastest(partial(model.predict, X)) / amount.bytes


def seconds_of_the_start(device: str) -> float:
    """Of the first fit in a process of its own."""
    code = _FIRST_USE.format(device=device)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(done.stdout)


def forest(device: str, n_trees: int, **parameters: Any) -> Any:
    """A forest as most people grow it, to the end and with a few features in each node."""
    make: Any = RandomForestClassifier
    return make(n_trees, random_state=0, device=device, **parameters)


def table(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and two classes that no tree separates at once."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, N_FEATURES)).astype(np.float32)
    return X, X.sum(axis=1) + rng.normal(size=n_rows) > 0


def fastest(run: Callable[[], Any]) -> float:
    """Seconds of the fastest of several runs."""
    seconds = []
    for _ in range(REPEATS):
        began = perf_counter()
        run()
        seconds.append(perf_counter() - began)
    return min(seconds)


def machine_name() -> str:
    """What the constants are of."""
    return f"{platform.node()}, {platform.processor() or platform.machine()}"
