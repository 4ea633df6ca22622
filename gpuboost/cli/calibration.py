"""``gpuboost info --calibrate``: measures the `Speed` of `gpuboost.backends.cost_model`.

All times are measured through the public estimators.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from timeit import repeat
from typing import Any

import numpy as np

from gpuboost.backends.cost_model import Amount, GrowthSize, Speed, growth_amount
from gpuboost.backends.prediction_cost import prediction_amount
from gpuboost.engine.task import NO_LIMIT
from gpuboost.estimators.forest.forest import RandomForestClassifier
from gpuboost.estimators.inputs.dataset import Dataset

N_FEATURES, CANDIDATE_FEATURES = 16, 4
FEW_TREES, MORE_TREES = 1, 9
CPU_ROWS, CUDA_ROWS = 100_000, 1_000_000
SMALL_ROWS = 1000  # rows of a table that is fitted in almost no time
REPEATS = 3  # runs per measurement; the fastest run counts
SMALLEST_SECONDS = 1e-13  # lower bound of seconds per unit; a noisy difference can be negative


def measure(usable: list[str], cpu_rows: int = CPU_ROWS, cuda_rows: int = CUDA_ROWS) -> Speed:
    """The `Speed` of this machine; constants of backends that do not work keep their defaults.

    Parameters
    ----------
    usable : list of str
        Names of the backends that work, as in `gpuboost.backends.select.available_backends`.
    cpu_rows, cuda_rows : int
        Numbers of rows of the tables that are fitted on the CPU, and fitted and predicted on the
        GPU.
    """
    found = {}
    if "numba" in usable:
        found["numba_visit"] = slope("numba", cpu_rows, "visits")
    if "cuda" in usable:
        found["cuda_traffic"] = slope("cuda", cuda_rows, "traffic")
        found["cuda_launch"] = seconds_of_a_launch("cuda")
        found["cuda_byte"] = seconds_of_a_byte("cuda", cuda_rows)
    return Speed(**found)


def slope(device: str, n_rows: int, unit: str) -> float:
    """Seconds per `unit`, a field of `Amount`: extra time of more trees per extra unit of work."""
    numbers = FEW_TREES, MORE_TREES
    few, more = (seconds_of_a_fit(device, n_rows, n_trees) for n_trees in numbers)
    amounts = [getattr(growth_of(n_rows, n_trees), unit) for n_trees in numbers]
    return max(SMALLEST_SECONDS, (more - few) / (amounts[1] - amounts[0]))


def seconds_of_a_launch(device: str) -> float:
    """Seconds per kernel launch, from a fit so small that launches take most of the time."""
    seconds = seconds_of_a_fit(device, SMALL_ROWS, FEW_TREES)
    return seconds / growth_of(SMALL_ROWS, FEW_TREES).launches


def seconds_of_a_fit(device: str, n_rows: int, n_trees: int) -> float:
    """Seconds to fit a forest on a table that is already binned; compilation is not counted."""
    X, y = table(n_rows)
    data, model = Dataset(X), forest(device, n_trees)
    model.fit(data, y)
    return fastest(partial(model.fit, data, y))


def seconds_of_a_byte(device: str, n_rows: int) -> float:
    """Seconds per byte copied to or from the GPU, by a prediction that mostly copies its rows."""
    X, y = table(n_rows)
    model = forest(device, FEW_TREES, max_depth=1).fit(X[:SMALL_ROWS], y[:SMALL_ROWS])
    X = X.astype(np.float64)
    model.predict(X)
    amount = prediction_amount(len(X), X[0].nbytes, model._ensemble)
    return fastest(partial(model.predict, X)) / amount.bytes


def growth_of(n_samples: int, n_trees: int) -> Amount:
    """Amount of work to fit a forest of fully grown trees on a table that is already binned."""
    shape = (n_samples, N_FEATURES, CANDIDATE_FEATURES, n_trees)
    return growth_amount(GrowthSize(*shape, NO_LIMIT, n_channels=1, value_bytes=1))


def forest(device: str, n_trees: int, **parameters: Any) -> Any:
    """An unfitted random forest with `CANDIDATE_FEATURES` of `N_FEATURES` at each node.

    Its trees grow fully unless ``parameters`` limit them.
    """
    make: Any = RandomForestClassifier
    return make(n_trees, random_state=0, device=device, **parameters)


def table(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Random features, and two classes that only a deep tree separates."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, N_FEATURES)).astype(np.float32)
    return X, X.sum(axis=1) + rng.normal(size=n_rows) > 0


def fastest(run: Callable[[], Any]) -> float:
    """Seconds that the fastest of `REPEATS` runs takes."""
    return min(repeat(run, number=1, repeat=REPEATS))
