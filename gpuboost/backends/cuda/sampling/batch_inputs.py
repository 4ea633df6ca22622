"""The inputs of one batch of trees, copied to the device in one transfer.

In a forest, all other data from the host that launches read is the same for all batches. So batches
of the same kind (`DeviceTask.kind_of`) have the same launches and differ only in these inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.backends.cuda.runtime.arrays import Columns, bytes_of, cut, one_piece, places_of
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.sampling.device_sampler import TreeKeys
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.sampling import root_keys
from gpuboost.engine.task import GrowTask

ROUNDS_AT_ONCE = 32  # number of rounds whose inputs are made together


@dataclass(frozen=True)
class HostInputs:
    """The inputs of a batch, on the host.

    Attributes
    ----------
    trees : sequence of int
        Numbers of the trees.
    n_features : int
        Number of features of the table.
    max_allowed : int
        Largest number of allowed features of a tree of the batch.
    memory : uint8 (bytes,)
        The arrays of `BatchInputs.columns`, in one piece.
    """

    trees: Sequence[int]
    n_features: int
    max_allowed: int
    memory: np.ndarray

    @classmethod
    def of(cls, task: GrowTask, trees: Sequence[int]) -> HostInputs:
        """Make the inputs of some trees of a task."""
        return cls.of_batches(task, [trees])[0]

    @classmethod
    def of_batches(cls, task: GrowTask, batches: Sequence[Sequence[int]]) -> list[HostInputs]:
        """Make the inputs of several batches that have the same number of trees."""
        numbers, n_features = np.array(batches, dtype=np.uint64), task.matrix.n_features
        n_batches, n_trees = numbers.shape
        columns = BatchInputs.columns(n_trees, n_features)
        memory = np.zeros((n_batches, bytes_of(columns)), dtype=np.uint8)

        def put(name: str, values: Any) -> None:
            dtype, shape = columns[name]
            at, n_bytes = places[name], math.prod(shape) * np.dtype(dtype).itemsize
            of_batch = memory[:, at : at + n_bytes].view(dtype).reshape(n_batches, *shape)
            of_batch[...] = values

        places = dict(zip(columns, places_of(columns), strict=True))
        put("seed", task.seed if task.sampler is None else task.sampler.seed)
        put("number", numbers)
        put("key", root_keys(task.seed, numbers))
        allowed = allowed_features(task, numbers)
        put("allowed", allowed)
        put("unit", task.target.gain_unit(task.options.criterion))
        put("min_hessian", task.options.min_hessian)
        regular = task.options.regularisation
        put("regular", (regular.l1, regular.l2, regular.max_value))
        capacity = np.broadcast_to(allowed.sum(axis=2).max(axis=1), n_batches).tolist()
        return [
            cls(trees, n_features, max_allowed, own)
            for trees, max_allowed, own in zip(batches, capacity, memory, strict=True)
        ]

    def to_device(self, runtime: Runtime) -> BatchInputs:
        """Copy the inputs to the device."""
        columns = BatchInputs.columns(len(self.trees), self.n_features)
        memory = one_piece(runtime.xp, columns)
        arrays = cut(memory, columns)
        keys = TreeKeys(arrays.pop("seed"), arrays.pop("number"))
        runtime.upload(self.memory, memory)
        return BatchInputs(keys, **arrays, memory=memory)


class InputsOfRounds:
    """Inputs of rounds with the same number of trees, made for `ROUNDS_AT_ONCE` rounds at once.

    Parameters
    ----------
    task : GrowTask
    n_trees : int
        Number of trees of a round.
    """

    def __init__(self, task: GrowTask, n_trees: int) -> None:
        self._task, self._n_trees = task, n_trees
        self._first, self._made = 0, list[HostInputs]()

    def of(self, number: int) -> HostInputs:
        """Return the inputs of round ``number``, whose first tree is ``number * n_trees``."""
        if not 0 <= number - self._first < len(self._made):
            n = self._n_trees
            batches = [range(i * n, (i + 1) * n) for i in range(number, number + ROUNDS_AT_ONCE)]
            self._first, self._made = number, HostInputs.of_batches(self._task, batches)
        return self._made[number - self._first]


def allowed_features(task: GrowTask, numbers: np.ndarray) -> np.ndarray:
    """Mask of allowed features: uint8 (batches, trees, F), or (1, 1, F) if all are allowed."""
    n_features = task.matrix.n_features
    if task.features_of is None:
        return np.ones((1, 1, n_features), dtype=np.uint8)
    allowed = np.zeros((*numbers.shape, n_features), dtype=np.uint8)
    for place, tree in np.ndenumerate(numbers):
        allowed[*place, task.tree_features(int(tree))] = 1
    return allowed


@dataclass(frozen=True)
class BatchInputs:
    """`HostInputs` on the device.

    Each round of boosting overwrites ``unit``, ``min_hessian`` and ``regular``, which depend on its
    integer units.

    Attributes
    ----------
    keys : TreeKeys
        Seed of the task's sampler, or of the task if it has no sampler, and numbers of the trees:
        they give the random numbers that draw rows and round their weights.
    key : uint64 (trees,)
        Keys of the roots.
    allowed : uint8 (trees, F)
        Mask of the features that each tree may use.
    unit : float64 (1,)
        `Target.gain_unit`.
    min_hessian : int64 (1,)
        The option ``min_hessian``: smallest hessian of a child.
    regular : float64 (3,)
        Penalties l1 and l2, and the largest absolute leaf value, for the criterion NEWTON.
    memory : uint8 (bytes,)
        Memory of which the other arrays are views.
    """

    keys: TreeKeys
    key: Array
    allowed: Array
    unit: Array
    min_hessian: Array
    regular: Array
    memory: Array

    @staticmethod
    def columns(n_trees: int, n_features: int) -> Columns:
        """Types and shapes of the arrays for a batch of ``n_trees`` trees."""
        return {
            "seed": (np.uint64, (1,)),
            "number": (np.uint64, (n_trees,)),
            "key": (np.uint64, (n_trees,)),
            "allowed": (np.uint8, (n_trees, n_features)),
            "unit": (np.float64, (1,)),
            "min_hessian": (np.int64, (1,)),
            "regular": (np.float64, (3,)),
        }
