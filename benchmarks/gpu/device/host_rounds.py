"""What a round of boosting or AdaBoost takes the host, measured where there is no GPU.

``python -m benchmarks.gpu.device.host_rounds`` runs the host code of rounds that are replayed, over
arrays that have shapes only: launches do nothing, and what is read is there at once. So the table
has what Python and NumPy take of a round, which the device must take longer than, and no call of
CUDA.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np

from benchmarks.report.report import markdown
from gpuboost import AdaBoostClassifier, DecisionTreeClassifier, GradientBoostingRegressor
from gpuboost.backends.cuda.adaboost.booster import CudaReweighter
from gpuboost.backends.cuda.boosting.booster import CudaBooster
from gpuboost.backends.cuda.runtime.arrays import cut
from gpuboost.backends.cuda.runtime.readback import Readback
from gpuboost.backends.cuda.runtime.shape_arrays import DeviceShape, ShapeRuntime
from gpuboost.estimators.memory.shape_only_fit import ShapeOnlyTable, boost_task, boosted_trees_task

TABLE = ShapeOnlyTable(1_000_000, 28, 2, 1, 0, False, np.dtype(np.float32))
BUDGET = 80 << 30
NODES = {1: 3, 6: 127, 10: 2047, 12: 8191, 15: 40_000}  # of a tree of some depth
ROUNDS, WARM_UP = 200, 10


class AnsweringRuntime(ShapeRuntime):
    """Launches nothing, and has what is read of a round."""

    answer: np.ndarray | None = None

    def __init__(self) -> None:
        shape = DeviceShape()
        super().__init__(shape.shared_memory, shape.n_multiprocessors, lambda depth: 2**depth)

    def capture(self, launches: Callable[[], None]) -> Callable[[], None]:
        """A replay that does nothing."""
        return lambda: None

    def read_later(self, array: Any) -> Callable[[], np.ndarray]:
        """The answer, or the sizes that phantoms are taken to have."""
        found = self.answer
        return super().read_later(array) if found is None else lambda: found

    def answer_with(self, readback: Readback) -> dict[str, np.ndarray]:
        """From now on a parcel of zeros is read: its arrays, to be written to."""
        self.answer = np.zeros(readback.n_bytes, dtype=np.uint8)
        columns = {name: (array.dtype, array.shape) for name, array in readback.arrays.items()}
        return cut(self.answer, columns)


def boosting(depth: int) -> float:
    """Seconds of the host in a round of boosting, one tree of a depth."""
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
    """The same of AdaBoost."""
    tree = DecisionTreeClassifier(max_depth=depth)
    task = boosted_trees_task(AdaBoostClassifier(tree, n_estimators=ROUNDS), TABLE)
    runtime = AnsweringRuntime()
    reweighter = CudaReweighter(runtime, replace(task, memory_budget=BUDGET))
    reweighter.launch(0)
    facts = runtime.answer_with(reweighter.rows.readback)["facts"]
    facts[:5] = 0.3, 0.5, 0.9, 0.0, NODES[depth]  # error, vote, its bound, not reversed, nodes
    return seconds_of_rounds(reweighter.boost)


def seconds_of_rounds(boost: Callable[[int], Any]) -> float:
    """Median seconds of a round; those before the recording is replayed are left out."""
    seconds, kept = [], []
    for number in range(1, ROUNDS - 1):
        begun = time.perf_counter()
        kept.append(boost(number))  # as a fit does
        seconds.append(time.perf_counter() - begun)
    return median(seconds[WARM_UP:])


def main() -> int:
    """Print the table."""
    rows = [
        [f"{depth}", f"{n:,}", f"{1e6 * boosting(depth):.0f}", f"{1e6 * adaboost(depth):.0f}"]
        for depth, n in NODES.items()
    ]
    print(markdown(["depth", "nodes of a tree", "boosting, us a round", "AdaBoost"], rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
