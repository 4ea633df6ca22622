"""What one batch of trees has to itself, copied to the device in one piece.

All else that the launches of a batch read is the same for every batch of a fit, so batches of one
size are the same launches over other inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuboost.backends.cuda.draw_launches import TreeKeys
from gpuboost.backends.cuda.level import Columns, cut, one_piece
from gpuboost.engine.sampling import root_key
from gpuboost.engine.tree import gain_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuboost.backends.cuda.runtime import Runtime
    from gpuboost.engine.frontier import Array
    from gpuboost.engine.spec import GrowTask


@dataclass(frozen=True)
class HostInputs:
    """What a batch has to itself, on the host.

    Attributes
    ----------
    trees : sequence of int
    seed : int
        What rows are drawn by.
    key : uint64 (trees,)
        Of the roots.
    allowed : uint8 (trees, F)
        Features each tree may look at.
    unit : float
        `engine.tree.gain_unit`.
    least_hessian : int
        Smallest integer weight of a child.
    regular : tuple of float
        l1, l2 and the largest value, of the NEWTON score.
    """

    trees: Sequence[int]
    seed: int
    key: np.ndarray
    allowed: np.ndarray
    unit: float
    least_hessian: int
    regular: tuple[float, float, float]

    @classmethod
    def of(cls, task: GrowTask, trees: Sequence[int]) -> HostInputs:
        """Those of some trees of a task."""
        allowed = np.zeros((len(trees), task.matrix.n_features), dtype=np.uint8)
        for position, tree in enumerate(trees):
            allowed[position, task.tree_features(tree)] = 1
        key = np.array([root_key(task.seed, tree) for tree in trees], dtype=np.uint64)
        seed = task.seed if task.sampler is None else task.sampler.seed
        unit = gain_unit(task.options.score, task.target)
        regular = task.options.regularisation
        held_to = (regular.l1, regular.l2, regular.max_value)
        return cls(trees, seed, key, allowed, unit, task.options.min_hessian, held_to)

    @property
    def most_allowed(self) -> int:
        """Features that one tree may look at, at most."""
        return int(self.allowed.sum(axis=1).max())

    def to_device(self, runtime: Runtime) -> BatchInputs:
        """A copy on the device."""
        columns = BatchInputs.columns(*self.allowed.shape)
        memory = one_piece(runtime.xp, columns)
        arrays = cut(memory, columns)
        keys = TreeKeys(arrays.pop("seed"), arrays.pop("number"))
        inputs = BatchInputs(keys, **arrays, memory=memory)
        inputs.replace_by(self, runtime)
        return inputs


@dataclass(frozen=True)
class BatchInputs:
    """`HostInputs` on the device.

    Attributes
    ----------
    keys : TreeKeys
    key : uint64 (trees,)
    allowed : uint8 (trees, F)
    unit : float64 (1,)
    least_hessian : int64 (1,)
    regular : float64 (3,)
    memory : uint8
        What the arrays are cut from.
    """

    keys: TreeKeys
    key: Array
    allowed: Array
    unit: Array
    least_hessian: Array
    regular: Array
    memory: Array

    @staticmethod
    def columns(n_trees: int, n_features: int) -> Columns:
        """The arrays of n trees."""
        return {
            "seed": (np.uint64, (1,)),
            "number": (np.uint64, (n_trees,)),
            "key": (np.uint64, (n_trees,)),
            "allowed": (np.uint8, (n_trees, n_features)),
            "unit": (np.float64, (1,)),
            "least_hessian": (np.int64, (1,)),
            "regular": (np.float64, (3,)),
        }

    def replace_by(self, host: HostInputs, runtime: Runtime) -> None:
        """Copy the inputs of another batch of as many trees over these, by one transfer."""
        memory = np.zeros(self.memory.nbytes, dtype=np.uint8)
        arrays = cut(memory, self.columns(*host.allowed.shape))
        arrays["seed"][:], arrays["unit"][:] = host.seed, host.unit
        arrays["least_hessian"][:] = host.least_hessian
        arrays["number"][:], arrays["regular"][:] = host.trees, host.regular
        arrays["key"][:], arrays["allowed"][:] = host.key, host.allowed
        runtime.upload(memory, self.memory)
