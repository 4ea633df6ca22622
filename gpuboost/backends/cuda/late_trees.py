"""Trees that are finished while the next round runs, so that no round waits for the host.

The nodes of a round are copied when it is done, and the next round is launched before anybody has
looked at them. Then their thresholds and values are made; those of the last round, or of one that
is asked for before, when somebody asks.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from gpuboost.engine.boosting import LeafRule, finish_boosted, with_leaf_values
from gpuboost.engine.spec import ValuedTree
from gpuboost.engine.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from gpuboost.backends.cuda.grower import TreeGrower
    from gpuboost.backends.cuda.round_rows import RoundRows
    from gpuboost.engine.history import History
    from gpuboost.engine.rounds import BoostTask
    from gpuboost.engine.spec import GrownTree


class TreeFinisher:
    """Makes the trees of a round of what was grown.

    Parameters
    ----------
    task : BoostTask
    grower : TreeGrower
    rounds : RoundRows
    """

    def __init__(self, task: BoostTask, grower: TreeGrower, rounds: RoundRows) -> None:
        self._task, self._grower, self._rounds = task, grower, rounds

    def trees(self, grown: list[GrownTree], learning_rate: float) -> list[Tree]:
        """Grown trees with thresholds and Newton steps; those that were copied last."""
        task, scale = self._task, self._rounds.scale()
        n_outputs = task.loss.columns if task.sums_outputs else 1
        rule = LeafRule.of(task.options, learning_rate)
        mapper = task.matrix.mapper
        return [
            with_refitted(finish_boosted(each, mapper, scale, n_outputs, rule), each)
            for each in grown
        ]

    def of_copy(self, history: History, copied: np.ndarray, learning_rate: float) -> list[Tree]:
        """The trees of a round whose nodes were copied to the host."""
        return self.trees(self._grower.trees(history, copied), learning_rate)


def with_refitted(tree: Tree, grown: GrownTree) -> Tree:
    """The tree with the values of leaves that the device has made, if it has."""
    if not isinstance(grown, ValuedTree):
        return tree
    return with_leaf_values(tree, grown.value[tree.left == 0, 0])


class LateRound:
    """The trees of one round.

    Parameters
    ----------
    read : callable
        Waits for the copy of the nodes and returns it.
    finish : callable
        Makes the trees of the copy.
    """

    def __init__(
        self, read: Callable[[], np.ndarray], finish: Callable[[np.ndarray], list[Tree]]
    ) -> None:
        self._read: Callable[[], np.ndarray] | None = read
        self._finish: Callable[[np.ndarray], list[Tree]] | None = finish
        self._trees: list[Tree] = []

    def trees(self) -> list[Tree]:
        """The finished trees."""
        if self._read is not None and self._finish is not None:
            self._trees = self._finish(self._read())
            self._read = self._finish = None
        return self._trees


class LateTree:
    """One tree of a `LateRound`; it has all that `engine.tree.Tree` has."""

    def __init__(self, of_round: LateRound, number: int) -> None:
        self._of_round, self._number = of_round, number

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._finished(), name)

    def _finished(self) -> Tree:
        return self._of_round.trees()[self._number]

    def __reduce__(self) -> tuple[Any, ...]:
        tree = self._finished()
        return Tree, tuple(getattr(tree, f.name) for f in fields(Tree))
