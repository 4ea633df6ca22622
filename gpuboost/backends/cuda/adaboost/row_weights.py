"""Row weights of AdaBoost on the device, and errors of trees: launches of adaboost.cu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.backends.cuda.runtime.launch import launch, zeros
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.engine.ensembles.adaboost_task import ClassObjective, ReweightTask
from gpuboost.engine.growth.frontier import Array

_LOSSES = {"linear": "LINEAR", "square": "SQUARE", "exponential": "EXPONENTIAL"}
_BLOCKS = 8  # per multiprocessor, of launches that loop over all rows


@dataclass(frozen=True)
class PackedTree:
    """A tree packed for traversal; see pack_tree of adaboost.cu.

    Attributes
    ----------
    packed : uint32 (m, 4)
        The nodes.
    masks : uint32 (c, 8)
        A placeholder if no feature is categorical.
    value : float64 (m, V)
    """

    packed: Array
    masks: Array
    value: Array


class RowWeights:
    """Row weights, and the errors of the last tree on each row.

    Parameters
    ----------
    runtime : Runtime
    task : ReweightTask
    codes : uint8 (F, n)
    start : float64 (n,)
        Weights of the first round; the array is overwritten.

    Attributes
    ----------
    values : float64 (n,)
        The weights, which add up to 1.
    known : int32 (n,) or float64 (n,)
        Classes or targets of the rows.
    factors : float64 (2,)
        See adaboost.cu.
    sums : int64 (3,)
        The sums and the largest number of adaboost.cu, zeros between rounds.
    """

    def __init__(
        self, runtime: Runtime, task: ReweightTask, codes: Array, start: np.ndarray
    ) -> None:
        xp, objective = runtime.xp, task.objective
        self._runtime, self._codes, self._by_class = (
            runtime,
            codes,
            isinstance(objective, ClassObjective),
        )
        self._missing_code = task.matrix.missing_code
        self.values = runtime.asarray(start)
        if isinstance(objective, ClassObjective):
            self.known, self._loss = runtime.asarray(objective.codes), 0
        else:
            self.known = runtime.asarray(objective.y)
            self._loss = constant("adaboost/adaboost.cu", _LOSSES[objective.loss])
        n = len(self.values)
        self._seen = xp.empty(n, dtype=np.uint8 if self._by_class else np.float64)
        self.factors = xp.empty(2, dtype=np.float64)
        self.sums = zeros(runtime, 3, np.int64)
        self._n, self._all_blocks = n, runtime.n_multiprocessors * _BLOCKS

    def evaluate(self, tree: PackedTree) -> None:
        """Find a tree's error on each row, and add to `sums`, which must be zero."""
        sums, seen, given = self.sums, self._seen, {"n": self._n, "weights": self.values}
        rows = {"codes": self._codes, "missing_code": self._missing_code, **given}
        if self._by_class:
            own = {"label": self.known, "wrong": seen, "sums": sums}
            self.launch("evaluate_classes", tree, **rows, **own)
            return
        largest = sums[2:].view(np.uint64)
        self.launch("find_misses", tree, **rows, y=self.known, miss=seen, largest=largest)
        own = {"kind": self._loss, "largest": largest, "loss": seen, "sums": sums}
        self.launch("evaluate_values", **given, **own)

    def reweigh(self) -> None:
        """Update the weights by the tree evaluated last, with `factors`."""
        given = {"n": self._n, "weights": self.values}
        if self._by_class:
            self.launch("reweigh_classes", wrong=self._seen, factors=self.factors, **given)
            return
        given |= {"loss": self._seen, "sums": self.sums}
        self.launch("reweigh_values", factors=self.factors, **given)
        self.launch("normalise", **given)

    def blocks_over(self, n: int) -> int:
        """Number of blocks of a kernel that loops over ``n`` items."""
        return min(-(-n // constant("common/rounds.cuh", "BOOST_THREADS")), self._all_blocks)

    def launch(self, name: str, *records: Any, **values: Any) -> None:
        """Launch a kernel of adaboost.cu that loops over all rows."""
        launch(self._runtime, name, self.blocks_over(self._n), *records, **values)
