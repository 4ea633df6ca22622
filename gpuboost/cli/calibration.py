"""Measures what `gpuboost.backends.cost_model` decides by: ``gpuboost info --calibrate``.

Everything is timed through estimators, as users meet it.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from gpuboost.backends.cost_model import Amount, Growth, Speed, growth_amount, prediction_amount
from gpuboost.data.dataset import Dataset
from gpuboost.engine.task import NO_LIMIT
from gpuboost.estimators.forest.forest import RandomForestClassifier

N_FEATURES, CANDIDATE_FEATURES = 16, 4
FEW_TREES, MORE_TREES = 1, 9
CPU_ROWS, CUDA_ROWS = 100_000, 1_000_000
SMALL_ROWS = 1000  # of a table that is nearly no work
REPEATS = 3  # the fastest counts
SMALLEST_SECONDS = 1e-13  # seconds; a difference within the noise is not below


def measure(usable: list[str], cpu_rows: int = CPU_ROWS, cuda_rows: int = CUDA_ROWS) -> Speed:
    """The constants of this machine; the usual ones of devices that cannot be used.

    Parameters
    ----------
    usable : list of str
        Names of backends, as `gpuboost.backends.select.available_backends` has them.
    cpu_rows, cuda_rows : int
        Rows of the tables that are timed.
    """
    speed = Speed()
    if "numba" in usable:
        speed = replace(speed, numba_visit=slope("numba", cpu_rows, "visits"))
    if "cuda" in usable:
        speed = replace(
            speed,
            cuda_traffic=slope("cuda", cuda_rows, "traffic"),
            cuda_launch=seconds_of_a_launch("cuda"),
            cuda_byte=seconds_of_a_byte("cuda", cuda_rows),
        )
    return speed


def slope(device: str, n_rows: int, unit: str) -> float:
    """Seconds of a unit of `Amount`: what more trees take longer, over what they do more."""
    numbers = FEW_TREES, MORE_TREES
    few, more = (seconds_of_a_fit(device, n_rows, n_trees) for n_trees in numbers)
    amounts = [getattr(growth_of(n_rows, n_trees), unit) for n_trees in numbers]
    return max(SMALLEST_SECONDS, (more - few) / (amounts[1] - amounts[0]))


def seconds_of_a_launch(device: str) -> float:
    """Of a fit that is nothing but launches."""
    seconds = seconds_of_a_fit(device, SMALL_ROWS, FEW_TREES)
    return seconds / growth_of(SMALL_ROWS, FEW_TREES).launches


def seconds_of_a_fit(device: str, n_rows: int, n_trees: int) -> float:
    """Of a forest on data that are binned already."""
    X, y = table(n_rows)
    data, model = Dataset(X), forest(device, n_trees)
    model.fit(data, y)
    return fastest(partial(model.fit, data, y))


def seconds_of_a_byte(device: str, n_rows: int) -> float:
    """Of a prediction that does little more than copy its rows."""
    X, y = table(n_rows)
    model = forest(device, FEW_TREES, max_depth=1).fit(X[:SMALL_ROWS], y[:SMALL_ROWS])
    X = X.astype(np.float64)
    model.predict(X)
    amount = prediction_amount(len(X), X[0].nbytes, model._ensemble)
    return fastest(partial(model.predict, X)) / amount.bytes


def growth_of(n_samples: int, n_trees: int) -> Amount:
    """The work of a forest of trees to the end."""
    shape = (n_samples, N_FEATURES, CANDIDATE_FEATURES, n_trees)
    return growth_amount(Growth(*shape, NO_LIMIT, n_channels=1, value_bytes=1))


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
