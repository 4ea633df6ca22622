"""Host time of a round of boosting or AdaBoost, measured without a GPU.

``python -m benchmarks.gpu.device.host_rounds`` runs the host code of replayed rounds over shape
arrays: launches do nothing, and readbacks are complete at once. So the table shows the time of
Python and NumPy alone, without calls to CUDA. If the device takes longer for a round, the host
does not slow it down.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np

from benchmarks.report.markdown import markdown
from gpuboost import AdaBoostClassifier, DecisionTreeClassifier, GradientBoostingRegressor
from gpuboost.backends.cuda.adaboost.booster import CudaReweighter
from gpuboost.backends.cuda.boosting.booster import CudaBooster
from gpuboost.backends.cuda.runtime.arrays import cut
from gpuboost.backends.cuda.runtime.readback import Readback
from gpuboost.backends.cuda.runtime.shape_arrays import DeviceShape, ShapeRuntime
from gpuboost.estimators.memory.shape_only_fit import (
    ShapeOnlyTable,
    adaboost_reweight_task,
    boost_task,
)

TABLE = ShapeOnlyTable(1_000_000, 28, 2, 1, 0, False, np.dtype(np.float32))
BUDGET = 80 << 30
NODES = {1: 3, 6: 127, 10: 2047, 12: 8191, 15: 40_000}  # nodes of a tree, by its depth
ROUNDS, WARM_UP = 200, 10


class AnsweringRuntime(ShapeRuntime):
    """A runtime that launches nothing and returns a prepared array for the readback of a round."""

    answer: np.ndarray | None = None

    def __init__(self) -> None:
        shape = DeviceShape()
        super().__init__(shape.shared_memory, shape.n_multiprocessors, lambda depth: 2**depth)

    def capture(self, launches: Callable[[], None]) -> Callable[[], None]:
        """Return a replay that does nothing."""
        return lambda: None

    def read_later(self, array: Any) -> Callable[[], np.ndarray]:
        """Return the answer if there is one, else the sizes that `ShapeRuntime` assumes."""
        found = self.answer
        return super().read_later(array) if found is None else lambda: found

    def answer_with(self, readback: Readback) -> dict[str, np.ndarray]:
        """Answer all further reads with a readback of zeros, and return its arrays to be filled."""
        self.answer = np.zeros(readback.n_bytes, dtype=np.uint8)
        columns = {name: (array.dtype, array.shape) for name, array in readback.arrays.items()}
        return cut(self.answer, columns)


def boosting(depth: int) -> float:
    """Host seconds of a round of boosting with one tree of this depth."""
    model = GradientBoostingRegressor(max_depth=depth, n_estimators=ROUNDS, random_state=0)
    runtime = AnsweringRuntime()
    booster = CudaBooster(runtime, replace(boost_task(model, TABLE), memory_budget=BUDGET))
    booster.rounds.draw.begin(0, 0.1)
    booster.launch(0)
    assert booster.rounds.leaves is not None
    table = runtime.answer_with(booster.rounds.leaves.readback)["table"]
    table[0, 1], table[2, 0] = NODES[depth], 1
    return seconds_of_rounds(lambda number: booster.boost(number, 0.1))


def adaboost(depth: int) -> float:
    """Host seconds of a round of AdaBoost with a tree of this depth."""
    tree = DecisionTreeClassifier(max_depth=depth)
    task = adaboost_reweight_task(AdaBoostClassifier(tree, n_estimators=ROUNDS), TABLE)
    runtime = AnsweringRuntime()
    reweighter = CudaReweighter(runtime, replace(task, memory_budget=BUDGET))
    reweighter.launch(0)
    facts = runtime.answer_with(reweighter.rows.readback)["facts"]
    facts[:4] = 0.3, 0.5, 0.9, NODES[depth]  # error, vote, its bound, nodes
    return seconds_of_rounds(reweighter.boost)


def seconds_of_rounds(boost: Callable[[int], Any]) -> float:
    """Median seconds of a round, without the first `WARM_UP` rounds, which record and capture."""
    seconds, kept = [], []
    for number in range(1, ROUNDS - 1):
        begun = time.perf_counter()
        kept.append(boost(number))  # a fit keeps them, too
        seconds.append(time.perf_counter() - begun)
    return median(seconds[WARM_UP:])


def main() -> int:
    """Print the table."""
    rows = [
        [f"{depth}", f"{n:,}", f"{1e6 * boosting(depth):.0f}", f"{1e6 * adaboost(depth):.0f}"]
        for depth, n in NODES.items()
    ]
    print(markdown(["depth", "nodes of a tree", "boosting, us per round", "AdaBoost"], rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
