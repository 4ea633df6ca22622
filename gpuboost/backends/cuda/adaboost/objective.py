"""Evaluates trees of AdaBoost on the device: launches of adaboost.cu."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from gpuboost.backends.cuda.adaboost.row_weights import PackedTree, RowWeights
from gpuboost.backends.cuda.growth.tree_arrays import Finished, cut_tree, lengths
from gpuboost.backends.cuda.runtime.arrays import Columns
from gpuboost.backends.cuda.runtime.launch import launch
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.readback import HostCopy
from gpuboost.engine.ensembles.adaboost_task import (
    ClassObjective,
    ReweightTask,
    Round,
    goes_on,
    reversed_tree,
)
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.growth.tree import Tree

N_FACTS = 6  # of a round: see end_round of adaboost.cu
FACTS: Columns = {"facts": (np.float64, (N_FACTS,))}


def is_evaluated_as_grown(task: ReweightTask) -> bool:
    """Whether trees are evaluated as grown, without being pruned on the host first."""
    return task.options.ccp_alpha == 0.0 and task.options.min_decrease == 0.0


@dataclass(frozen=True)
class Facts:
    """Results of a round, computed on the device.

    Attributes
    ----------
    error, vote, bound : float
    is_reversed : bool
        Whether the tree's predictions are reversed.
    n_nodes, n_masks : int
        Numbers of nodes and masks of the tree.
    """

    error: float
    vote: float
    bound: float
    is_reversed: bool
    n_nodes: int
    n_masks: int

    @classmethod
    def of(cls, facts: np.ndarray) -> Facts:
        """Make the record from the array that the device has written."""
        error, vote, bound, is_reversed, n_nodes, n_masks = facts.tolist()
        return cls(error, vote, bound, is_reversed != 0.0, int(n_nodes), int(n_masks))

    def tree(self, copied: HostCopy, names: Iterable[str]) -> Tree:
        """The tree of a round, with the arrays ``names``, in memory of its own."""
        copied = copied.kept(lengths(names, self.n_nodes, self.n_masks))
        return self.reversed_if_worse(
            cut_tree(copied.part, names, (0, self.n_nodes), (0, self.n_masks))
        )

    def reversed_if_worse(self, tree: Tree) -> Tree:
        """The tree, with its predictions reversed if ``is_reversed``."""
        return reversed_tree(tree) if self.is_reversed else tree

    def round(self, read_tree: Callable[[], Tree], chance: float) -> Round:
        """Make the `Round` of a tree."""
        if not goes_on(self.error, chance):
            return Round.last(read_tree, self.error)
        return Round(read_tree, self.error, self.vote, self.bound)


class TreeObjective:
    """Evaluates the finished trees of a fit.

    Parameters
    ----------
    runtime : Runtime
    task : ReweightTask
    weights : RowWeights
        Weights of the rows.
    """

    def __init__(self, runtime: Runtime, task: ReweightTask, weights: RowWeights) -> None:
        objective = task.objective
        self._runtime, self._weights = runtime, weights
        by_class = isinstance(objective, ClassObjective)
        self._by_class = by_class
        self._given = {
            "by_class": by_class,
            "n_classes": objective.n_classes if isinstance(objective, ClassObjective) else 2,
            "learning_rate": objective.learning_rate,
            "chance": objective.chance,
            "may_reverse": isinstance(objective, ClassObjective) and objective.may_reverse,
        }

    def evaluate(self, finished: Finished, facts: Array) -> None:
        """Evaluate a tree: write the results to ``facts`` and to `RowWeights.factors`."""
        weights = self._weights
        weights.evaluate(self._tell(finished))
        own = {"sums": weights.sums, "factors": weights.factors, "facts": facts}
        launch(self._runtime, "end_round", 1, finished, **self._given, **own)

    def _tell(self, finished: Finished) -> PackedTree:
        """Pack the tree for traversal."""
        nodes = finished.columns
        left, value, has_masks = nodes["left"], nodes["value"], "masks" in nodes
        packed = self._runtime.xp.empty((len(left), 4), dtype=np.uint32)
        walked = {name: nodes[name] for name in ("feature", "code", "missing_left")}
        kinds = {"has_masks": has_masks, "by_class": self._by_class, "n_values": value.shape[1]}
        found = {"packed": packed, "sums": self._weights.sums}
        own = {"left": left, "category": nodes.get("category", left), "value": value, **found}
        n_blocks = self._weights.blocks_over(len(left))
        launch(self._runtime, "pack_tree", n_blocks, finished, **walked, **kinds, **own)
        return PackedTree(packed, nodes.get("masks", packed), value)
