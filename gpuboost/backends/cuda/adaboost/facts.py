"""Results of a round of AdaBoost, which the device computes and the host reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuboost.backends.cuda.growth.pending_round import CopiedTrees
from gpuboost.backends.cuda.runtime.arrays import Columns
from gpuboost.backends.cuda.runtime.readback import HostCopy
from gpuboost.engine.ensembles.adaboost_task import Round, goes_on
from gpuboost.engine.growth.tree import Tree

N_FACTS = 5  # per round; see end_round of adaboost.cu
FACTS: Columns = {"facts": (np.float64, (N_FACTS,))}


@dataclass(frozen=True)
class Facts:
    """Results of a round, computed on the device.

    Attributes
    ----------
    error, vote : float
        Error of the tree, and its vote. The vote is 0 if the error is 0 or no better than chance;
        the host then sets it.
    bound : float
        Factor of the training error bound; 1 in a regression, and if the vote is 0.
    n_nodes, n_masks : int
        Numbers of nodes and masks of the tree.
    """

    error: float
    vote: float
    bound: float
    n_nodes: int
    n_masks: int

    @classmethod
    def of(cls, facts: np.ndarray) -> Facts:
        """Make the record from the array that the device has written."""
        error, vote, bound, n_nodes, n_masks = facts.tolist()
        return cls(error, vote, bound, int(n_nodes), int(n_masks))

    def tree(self, copy: HostCopy) -> Tree:
        """Make the tree of the round from the copy of its arrays."""
        return CopiedTrees(copy, [0, self.n_nodes], [0, self.n_masks]).tree(0)

    def round(self, read_tree: Callable[[], Tree], chance: float) -> Round:
        """Make the `Round`, which is the last one unless the error is between 0 and ``chance``."""
        if not goes_on(self.error, chance):
            return Round.last(read_tree, self.error)
        return Round(read_tree, self.error, self.vote, self.bound)
