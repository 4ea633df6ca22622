"""Rounds that are read while the next one runs, so that no round waits for the host.

The trees and losses of a round are copied when it is done, and the next round is launched before
anybody has looked at them. Trees are cut from the copy when somebody asks for them.
"""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from gpuboost.backends.cuda.growth.tree_arrays import NAMES, cut_tree, lengths
from gpuboost.engine.ensembles.boosting_task import RoundLosses
from gpuboost.engine.growth.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuboost.backends.cuda.boosting.losses import MeanLosses
    from gpuboost.backends.cuda.runtime.readback import HostCopy


class PendingRound:
    """A round whose trees and losses are known when its copy is there; see `FittedRound`.

    Parameters
    ----------
    n_trees : int
    read : callable
        Waits for the copy and returns it.
    losses : RoundLosses or MeanLosses
        Or what makes them of the sums that the copy has.
    error : callable
        Makes what is to be said of a round that has drawn no row with weight.
    """

    def __init__(
        self,
        n_trees: int,
        read: Callable[[], HostCopy],
        losses: RoundLosses | MeanLosses,
        error: Callable[[], ValueError],
    ) -> None:
        self._n_trees, self._read, self._losses, self._error = n_trees, read, losses, error
        self._copied: CopiedTrees | None = None

    @property
    def trees(self) -> list[Tree]:
        """Its trees, which wait when something is asked of them."""
        pending = [PendingTree(partial(self._tree, number)) for number in range(self._n_trees)]
        return cast("list[Tree]", pending)

    @property
    def losses(self) -> RoundLosses:
        """Mean losses after the round."""
        self.copied()
        if not isinstance(self._losses, RoundLosses):
            self._losses = self._losses.of_sums(self._sums)  # and let go of its rows
        return self._losses

    def _tree(self, number: int) -> Tree:
        return self.copied().tree(number)

    def copied(self) -> CopiedTrees:
        """What the host has of the round, which is waited for.

        Raises
        ------
        ValueError
            The round has drawn no row with weight.
        """
        if self._copied is None:
            readback = self._read()
            del self._read
            self._sums = readback.part("losses", 0, readback.length("losses")).copy()
            self._copied = CopiedTrees(readback)
        if self._copied.weights[0] == 0:
            raise self._error()
        return self._copied


class CopiedTrees:
    """Finished trees as the host has copied them: cut when somebody asks for them.

    Parameters
    ----------
    readback : HostCopy
        The table and the arrays of `finishing.Finished`, by their names; it may have others.

    Attributes
    ----------
    weights : list of int
        Integer weights of the roots.
    """

    def __init__(self, readback: HostCopy) -> None:
        self._nodes, self._masks, weights = readback.part("table", 0, 3).tolist()
        self.weights = weights[:-1]
        self._names = [name for name in NAMES if name in readback]
        used = lengths(self._names, self._nodes[-1], self._masks[-1])
        self._readback = readback.kept(used)  # and neither pinned memory is kept nor spare room

    def tree(self, number: int) -> Tree:
        """One of the trees."""
        bounds = [(ends[number], ends[number + 1]) for ends in (self._nodes, self._masks)]
        return cut_tree(self._readback.part, self._names, *bounds)


class PendingTree:
    """A tree that is made when something is asked of it; it has all that a `Tree` has.

    Parameters
    ----------
    make : callable
        Makes the tree; called once.
    """

    def __init__(self, make: Callable[[], Tree]) -> None:
        self._make = make
        self._tree: Tree | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.finished(), name)

    def finished(self) -> Tree:
        """The tree itself."""
        if self._tree is None:
            self._tree = self._make()
            del self._make  # and what it holds of the round
        return self._tree

    def __reduce__(self) -> tuple[Any, ...]:
        tree = self.finished()
        return Tree, tuple(getattr(tree, f.name) for f in fields(Tree))
