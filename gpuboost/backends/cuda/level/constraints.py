"""Constraints of the nodes of a level: the launches of constraints.cu.

The constraints are bounds on leaf values (monotonic constraints), groups of features that may be
used together on a path (interaction constraints), and the features drawn for each level.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gpuboost.backends.cuda.level.records import DeviceFrontier, DeviceSplits, NodeConstraints
from gpuboost.backends.cuda.runtime.arrays import empty
from gpuboost.backends.cuda.runtime.compile_flags import CompileFlags
from gpuboost.backends.cuda.runtime.grid import blocks_for
from gpuboost.backends.cuda.runtime.launch import launch
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.backends.cuda.sampling.batch_inputs import BatchInputs
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.task import GrowTask

_WORD_BITS = 32


class DeviceConstraints:
    """Value bounds, feature groups and the features drawn per level, for the trees of a task.

    Parameters
    ----------
    runtime : Runtime
    task : GrowTask

    Attributes
    ----------
    bounded : bool
        Whether nodes have value bounds, because a feature is monotonic.
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
        """Whether nodes have value bounds or feature groups."""
        return self.bounded or self._n_words > 0

    @property
    def _sizes(self) -> dict[str, int]:
        return {"bounded_nodes": self.bounded, "n_words": self._n_words}

    def hold_roots(self, frontier: DeviceFrontier, inputs: BatchInputs) -> DeviceFrontier:
        """Return the roots with their constraints, or unchanged if there are none."""
        if not self.any:
            return frontier
        made = self._empty_constraints(frontier.capacity)
        self._launch("hold_roots", frontier.capacity, frontier, inputs, made, **self._sizes)
        return replace(frontier, constraints=made)

    def _empty_constraints(self, n: int) -> NodeConstraints:
        lengths = {"n": n, "n_bounded": n if self.bounded else 0, "n_words": self._n_words}
        return empty(NodeConstraints, self._runtime.xp, {}, **lengths)

    def hold_children(
        self,
        parents: DeviceFrontier,
        splits: DeviceSplits,
        rank: Array,
        children: DeviceFrontier,
        inputs: BatchInputs,
    ) -> DeviceFrontier:
        """Return ``children`` with their constraints; ``rank`` is `Places.rank` of the parents."""
        if parents.constraints is None:
            return children
        made = self._empty_constraints(children.capacity)
        records = (parents, splits, inputs, parents.constraints)
        own = {"rank": rank, "monotonic": self._signs, "of_feature": self._of_feature}
        n = parents.capacity
        self._launch("hold_children", n, *records, out=made, **own, **self._sizes)
        return replace(children, constraints=made)

    def allowed(self, frontier: DeviceFrontier, inputs: BatchInputs, depth: int) -> Array:
        """Compute the mask of allowed features: uint8 (trees, F), or (nodes, F) with groups.

        If features are drawn per level, only those drawn for ``depth`` are allowed.
        """
        xp, allowed, n_features = self._runtime.xp, inputs.allowed, self._n_features
        if self._by_level:
            drawn, count = xp.empty(allowed.shape, dtype=np.uint8), self._options.level_features
            own = {"root_key": inputs.key, "depth": depth, "count": count, "allowed_out": drawn}
            n = len(allowed)
            launch(self._runtime, "draw_level", n, inputs, n_features=n_features, **own)
            allowed = drawn
        if frontier.constraints is None or not self._n_words:
            return allowed
        of_nodes = xp.empty((frontier.capacity, n_features), dtype=np.uint8)
        words = {"of_feature": self._of_feature, "n_words": self._n_words}
        own = {"allowed": allowed, "n_features": n_features, "allowed_out": of_nodes}
        n = of_nodes.size
        self._launch("allow_by_groups", n, frontier, frontier.constraints, **words, **own)
        return of_nodes

    def of_score(self, frontier: DeviceFrontier, regular: Array) -> dict[str, Array]:
        """Arguments of candidates.cuh for NEWTON, with placeholders for arrays that are missing."""
        held = frontier.constraints
        lower, upper = (regular, regular) if held is None else (held.lower, held.upper)
        return {"regular": regular, "monotonic": self._signs, "lower": lower, "upper": upper}

    def _launch(self, name: str, n: int, *records: Any, **values: Any) -> None:
        threads = constant("level/constraints.cu", "CONSTRAINT_THREADS")
        n_blocks = blocks_for(n, threads, is_light=True)
        launch(self._runtime, name, n_blocks, *records, **values)


def group_words(groups: tuple[tuple[int, ...], ...], n_features: int, minimum: int) -> np.ndarray:
    """Bit set of the groups that contain each feature: uint32 (F, W), W at least ``minimum``."""
    n_words = max(minimum, -(-len(groups) // _WORD_BITS))
    words = np.zeros((n_features, n_words), dtype=np.uint32)
    for number, group in enumerate(groups):
        word, bit = divmod(number, _WORD_BITS)
        words[list(group), word] |= np.uint32(1 << bit)
    return words
