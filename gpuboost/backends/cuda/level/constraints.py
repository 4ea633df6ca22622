"""What nodes are held to beside the limits of all trees: the launches of constraints.cu.

Bounds of values, where features are monotonic; groups of features, where only those of one may
meet on a path; and features drawn for each level.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.level.records import NodeBounds
from gpuboost.backends.cuda.runtime.compile_flags import CompileFlags
from gpuboost.backends.cuda.runtime.source import constant

if TYPE_CHECKING:
    from gpuboost.backends.cuda.level.records import DeviceFrontier, DeviceSplits
    from gpuboost.backends.cuda.runtime.protocol import Runtime
    from gpuboost.backends.cuda.sampling.batch_inputs import BatchInputs
    from gpuboost.engine.growth.frontier import Array
    from gpuboost.engine.task import GrowTask

_WORD_BITS = 32
_MAX_BLOCKS = 1 << 12  # of a launch: what is left is taken in turn


class Constraints:
    """Bounds, groups and features of levels, for the trees of a task.

    Parameters
    ----------
    runtime : Runtime
    task : GrowTask
    """

    def __init__(self, runtime: Runtime, task: GrowTask) -> None:
        self._runtime, self._options = runtime, task.options
        self._n_features = task.matrix.n_features
        signs = task.options.directions
        self.bounded = signs is not None
        self._signs = runtime.asarray(np.array(signs or (0,), dtype=np.int8))
        groups = task.options.interactions
        words = group_words(groups or (), self._n_features, 0 if groups is None else 1)
        self._n_words = words.shape[1]
        self._of_feature = runtime.asarray(words)
        self._by_level = CompileFlags.of(task).by_level

    @property
    def any(self) -> bool:
        """Whether nodes are held to anything of their own."""
        return self.bounded or self._n_words > 0

    @property
    def _sizes(self) -> tuple[np.int32, np.int32]:
        return np.int32(self.bounded), np.int32(self._n_words)

    def hold_roots(self, frontier: DeviceFrontier, inputs: BatchInputs) -> DeviceFrontier:
        """The roots with what they are held to."""
        if not self.any:
            return frontier
        made = NodeBounds.room(self._runtime.xp, frontier.capacity, self.bounded, self._n_words)
        args = (frontier.size, inputs.regular, *self._sizes, *vars(made).values())
        self._launch("hold_roots", frontier.capacity, args)
        return replace(frontier, bounds=made)

    def hold_children(
        self,
        parents: DeviceFrontier,
        splits: DeviceSplits,
        rank: Array,
        children: DeviceFrontier,
        inputs: BatchInputs,
    ) -> DeviceFrontier:
        """The children of accepted nodes, which `rank` numbers, with what they are held to."""
        if parents.bounds is None:
            return children
        made = NodeBounds.room(self._runtime.xp, children.capacity, self.bounded, self._n_words)
        sums = (parents.hessian, parents.gradient, splits.left_hessian, splits.left_gradient)
        args = (
            *(parents.size, splits.accepted, rank, splits.feature, *sums, inputs.regular),
            *(self._signs, self._of_feature, *self._sizes),
            *(*vars(parents.bounds).values(), *vars(made).values()),
        )
        self._launch("hold_children", parents.capacity, args)
        return replace(children, bounds=made)

    def allowed(self, frontier: DeviceFrontier, inputs: BatchInputs, depth: int) -> Array:
        """Features that nodes of a level may look at: uint8 (trees, F), with groups (nodes, F)."""
        xp, allowed, n_features = self._runtime.xp, inputs.allowed, np.int32(self._n_features)
        if self._by_level:
            drawn = xp.empty(allowed.shape, dtype=np.uint8)
            sizes = (np.int32(depth), n_features, np.int32(self._options.level_features))
            kernel = self._runtime.kernel("level/constraints.cu", "draw_level", {})
            grid, block = (len(allowed),), (constant("common/common.cuh", "WARP"),)
            kernel(grid, block, (inputs.key, allowed, *sizes, drawn))
            allowed = drawn
        if frontier.bounds is None or not self._n_words:
            return allowed
        of_nodes = xp.empty((frontier.capacity, self._n_features), dtype=np.uint8)
        given = (frontier.size, frontier.tree, frontier.bounds.groups, self._of_feature, allowed)
        args = (*given, n_features, np.int32(self._n_words), of_nodes)
        self._launch("allow_by_groups", of_nodes.size, args)
        return of_nodes

    def score_arguments(self, frontier: DeviceFrontier, regular: Array) -> tuple[Array, ...]:
        """What split.cu reads for the NEWTON score; nothing of arrays that are not there."""
        if frontier.bounds is None:
            return regular, self._signs, regular, regular
        return regular, self._signs, frontier.bounds.lower, frontier.bounds.upper

    def _launch(self, name: str, n: int, args: tuple[Any, ...]) -> None:
        threads = constant("level/constraints.cu", "CONSTRAINT_THREADS")
        n_blocks = min(-(-n // threads), _MAX_BLOCKS)
        self._runtime.kernel("level/constraints.cu", name, {})((n_blocks,), (threads,), args)


def group_words(groups: tuple[tuple[int, ...], ...], n_features: int, minimum: int) -> np.ndarray:
    """Bits of the groups that each feature is in: uint32 (F, W), W at least ``minimum``."""
    n_words = max(minimum, -(-len(groups) // _WORD_BITS))
    words = np.zeros((n_features, n_words), dtype=np.uint32)
    for number, group in enumerate(groups):
        word, bit = divmod(number, _WORD_BITS)
        words[list(group), word] |= np.uint32(1 << bit)
    return words
