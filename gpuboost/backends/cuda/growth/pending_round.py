"""Rounds that the host can read while the next round runs, so that the device need not wait.

If the arrays of a round are small, they are copied as soon as the device has finished the round,
and the host can launch the next round before it reads the copy. Otherwise the host waits for the
size of the trees before it starts to copy them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from gpuboost.backends.cuda.growth.tree_arrays import cut_tree, lengths
from gpuboost.backends.cuda.runtime.readback import HostCopy
from gpuboost.engine.growth.tree import Tree

Results = TypeVar("Results")
TreesReader = Callable[[], list[Tree]]


class PendingRound(Generic[Results]):
    """A round whose trees and results are being copied to the host.

    Parameters
    ----------
    wait : callable
        Function that waits for the results of the round, such as its losses, and returns them and a
        function that returns the trees.
    """

    def __init__(self, wait: Callable[[], tuple[Results, TreesReader]]) -> None:
        self._wait: Callable[[], tuple[Results, TreesReader]] | None = wait
        self._found: tuple[Results, TreesReader] | None = None

    def results(self) -> Results:
        """Wait for the results of the round and return them."""
        return self._read()[0]

    def trees(self) -> list[Tree]:
        """Wait for the trees of the round and return them."""
        return self._read()[1]()

    def _read(self) -> tuple[Results, TreesReader]:
        if self._wait is not None:
            self._found = self._wait()
            self._wait = None  # frees the memory of the copy
        assert self._found is not None
        return self._found


class CopiedTrees:
    """Finished trees of a round on the host, concatenated.

    Parameters
    ----------
    copy : HostCopy
        The arrays of `gpuboost.backends.cuda.growth.tree_arrays.Finished`, by name.
    nodes, masks : list of int
        Index of the first node, or mask, of each tree, and the total at the end.
    """

    def __init__(self, copy: HostCopy, nodes: list[int], masks: list[int]) -> None:
        self._nodes, self._masks = nodes, masks
        self._has_masks = "masks" in copy.names
        used = lengths(self._has_masks, nodes[-1], masks[-1])
        self._copy = copy.kept(used)  # frees pinned memory and unused capacity

    def tree(self, number: int) -> Tree:
        """Return the tree with this number in the round."""
        nodes, masks = self._nodes, self._masks
        of_nodes, of_masks = nodes[number : number + 2], masks[number : number + 2]
        return cut_tree(self._copy.part, self._has_masks, of_nodes, of_masks)

    def trees(self) -> list[Tree]:
        """Return all trees, in order."""
        return [self.tree(number) for number in range(len(self._nodes) - 1)]
