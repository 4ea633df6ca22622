"""Row weights of AdaBoost on the device, and errors of trees: launches of adaboost.cu."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuboost.backends.cuda.growth.tree_arrays import Finished
from gpuboost.backends.cuda.runtime.launch import launch, zeros
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.engine.ensembles.adaboost_task import ClassObjective, ReweightTask
from gpuboost.engine.growth.frontier import Array

_LOSSES = {"linear": "LINEAR", "square": "SQUARE", "exponential": "EXPONENTIAL"}
_ROW_BLOCKS = 8  # largest number per multiprocessor; threads loop over rows or nodes


class RowWeights:
    """Row weights, which are updated by the errors that each tree makes on the rows.

    Parameters
    ----------
    runtime : Runtime
    task : ReweightTask
    codes : uint8 (F, n)
    start : float64 (n,)
        Weights of the first round; an array on the device is overwritten.

    Attributes
    ----------
    values : float64 (n,)
        The weights, which add up to 1.
    known : int32 (n,) or float64 (n,)
        Classes or targets of the rows.
    factors : float64 (2,)
        Factors of the weights; see adaboost.cu.
    sums : int64 (3,)
        Two sums and the largest error of a row; see adaboost.cu. Zeros between rounds.
    """

    def __init__(
        self, runtime: Runtime, task: ReweightTask, codes: Array, start: np.ndarray
    ) -> None:
        xp, objective = runtime.xp, task.objective
        self._runtime, self._codes = runtime, codes
        self._missing_code = task.matrix.missing_code
        self.values = runtime.asarray(start)
        if isinstance(objective, ClassObjective):
            self.known, self._loss = runtime.asarray(objective.codes), 0
        else:
            self.known = runtime.asarray(objective.y)
            self._loss = constant("adaboost/adaboost.cu", _LOSSES[objective.loss])
        self._by_class = isinstance(objective, ClassObjective)
        self._of_round = {"chance": objective.chance, "learning_rate": objective.learning_rate}
        self._of_round |= {"by_class": self._by_class, "n_classes": objective.n_classes}
        n = len(self.values)
        self._seen = xp.empty(n, dtype=np.uint8 if self._by_class else np.float64)
        self.factors = xp.empty(2, dtype=np.float64)
        self.sums = zeros(runtime, 3, np.int64)
        self._n, self._all_blocks = n, runtime.n_multiprocessors * _ROW_BLOCKS

    def evaluate(self, finished: Finished, facts: Array) -> None:
        """Evaluate a tree: write its error in each row, `factors` and ``facts``.

        ``facts``, float64 (5,), receives the results of the round, in the order of `Facts`.
        """
        sums, seen, given = self.sums, self._seen, {"n": self._n, "weights": self.values}
        rows = {"codes": self._codes, "missing_code": self._missing_code, **given}
        rows |= self._packed(finished)
        if self._by_class:
            own = {"label": self.known, "wrong": seen, "sums": sums}
            self.launch("evaluate_classes", **rows, **own)
        else:
            largest = sums[2:].view(np.uint64)
            own = {"value": finished.columns["value"], "y": self.known, "miss": seen}
            self.launch("find_misses", **rows, **own, largest=largest)
            own = {"kind": self._loss, "largest": largest, "loss": seen, "sums": sums}
            self.launch("evaluate_values", **given, **own)
        own = {"sums": sums, "factors": self.factors, "facts": facts}
        launch(self._runtime, "end_round", 1, finished, **self._of_round, **own)

    def _packed(self, finished: Finished) -> dict[str, Array]:
        """Pack a tree for traversal, and set `sums` to zero.

        Returns kernel arguments: the packed nodes, uint32 (m, 4), and the masks or a placeholder.
        """
        nodes = finished.columns
        left, value = nodes["left"], nodes["value"]
        packed = self._runtime.xp.empty((len(left), 4), dtype=np.uint32)
        splits = {name: nodes[name] for name in ("feature", "code", "missing_left")}
        kinds = {"has_masks": finished.has_masks, "by_class": self._by_class}
        own = {"left": left, "category": nodes.get("category", left), "value": value}
        own |= {"n_values": value.shape[1], "packed": packed, "sums": self.sums}
        n_blocks = self._blocks_over(len(left))
        launch(self._runtime, "pack_tree", n_blocks, finished, **splits, **kinds, **own)
        return {"packed": packed, "masks": nodes.get("masks", packed)}

    def reweigh(self) -> None:
        """Update the weights by the tree evaluated last, with `factors`."""
        given = {"n": self._n, "weights": self.values}
        if self._by_class:
            self.launch("reweigh_classes", wrong=self._seen, factors=self.factors, **given)
            return
        given |= {"loss": self._seen, "sums": self.sums}
        self.launch("reweigh_values", factors=self.factors, **given)
        self.launch("normalise", **given)

    def _blocks_over(self, n: int) -> int:
        """Number of blocks of a kernel that loops over ``n`` items."""
        return min(-(-n // constant("common/rounds.cuh", "BOOST_THREADS")), self._all_blocks)

    def launch(self, name: str, *records: Any, **values: Any) -> None:
        """Launch a kernel of adaboost.cu that loops over all rows."""
        launch(self._runtime, name, self._blocks_over(self._n), *records, **values)
