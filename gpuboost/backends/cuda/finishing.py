"""Trees finished on the device, as `gpuboost.engine.tree.finish_tree` does: finish.cu.

The host copies what a `Tree` holds and cuts it into trees. Integers are as narrow as they can be:
they are widened where the trees of a model are joined, as all of them are.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.cuda.level import allocate
from gpuboost.backends.cuda.source import constant
from gpuboost.engine.scores import POISSON
from gpuboost.engine.tree import Tree, gain_unit

if TYPE_CHECKING:
    from gpuboost.backends.cuda.level import Columns
    from gpuboost.backends.cuda.runtime import Runtime
    from gpuboost.backends.cuda.stored import NodeStore
    from gpuboost.engine.frontier import Array
    from gpuboost.engine.spec import GrowTask, Target

_BLOCKS = 32  # per multiprocessor, at most: a thread takes node after node
_MASK_WORDS = 8


@dataclass(frozen=True)
class Finished:
    """What trees of a batch hold, of all nodes, in the order of the trees.

    Attributes
    ----------
    table : int64 (3, trees + 1)
        See `stored.Numbers`.
    columns : dict of str to array
        The arrays of `Tree`; ``category`` and ``masks`` only where a feature is categorical.
    """

    table: Array
    columns: dict[str, Array]

    def copy_to_host(self, runtime: Runtime) -> tuple[list[int], list[Tree]]:
        """Integer weights of the roots, and the trees: each array copied at once, and cut."""
        table = runtime.to_host(self.table)
        nodes, masks = table[0].tolist(), table[1].tolist()
        n = {name: masks[-1] if name == "masks" else nodes[-1] for name in self.columns}
        whole = {name: runtime.to_host(column[: n[name]]) for name, column in self.columns.items()}
        whole["missing_left"] = whole["missing_left"].view(np.bool_)
        if "masks" not in whole:
            whole["category"] = np.full(nodes[-1], -1, dtype=np.int32)
            whole["masks"] = np.empty((0, _MASK_WORDS), dtype=np.uint32)
        cuts = zip(pairwise(nodes), pairwise(masks), strict=True)
        trees = [_cut(whole, slice(*of_nodes), slice(*of_masks)) for of_nodes, of_masks in cuts]
        return table[2, :-1].tolist(), trees


class Finisher:
    """Finishes the nodes of one batch of trees of a task after the other.

    Parameters
    ----------
    runtime : Runtime
    task : GrowTask
        Whose sampler makes its rows.
    asks : bool
        Whether the host asks how many nodes there are, so that arrays need no room for more.
    """

    def __init__(self, runtime: Runtime, task: GrowTask, asks: bool) -> None:
        self._runtime, self._task, self._asks = runtime, task, asks
        mapper, target = task.matrix.mapper, task.target
        bins = (mapper.center, mapper.low, mapper.high)
        self._bins = tuple(runtime.asarray(np.ascontiguousarray(each)) for each in bins)
        assert task.sampler is not None
        own = task.sampler.brief.exponents
        exponents = target.exponents if own is None else own
        reading = (
            exponents.astype(np.int32),
            np.zeros(1) if target.classes is not None else target.mean,
            np.zeros(1) if target.levels is None else np.concatenate(target.levels),
            _first_levels(target),
        )
        self._reading = tuple(runtime.asarray(each) for each in reading)
        self._n_planes = len(exponents)
        self._is_narrow = task.matrix.n_features <= np.iinfo(np.int16).max
        self._is_whole = _has_whole_weights(task, self._n_planes)
        signs = task.options.regularisation.monotonic
        self._signs = None if signs is None else runtime.asarray(np.array(signs, dtype=np.int8))

    @classmethod
    def of(cls, runtime: Runtime, task: GrowTask, asks: bool) -> Finisher | None:
        """That of a task; None where trees are finished on the host.

        That is where the rows of trees are known to none but ``rows_of``, which may give each leaf
        sums of its own, and where the trees are those of boosting.
        """
        if task.sampler is None or task.target.has_gradients:
            return None
        return cls(runtime, task, asks)

    @property
    def n_values(self) -> int:
        """Values of a node: of classes, or outputs."""
        target = self._task.target
        return target.n_outputs if target.classes is None else max(target.n_classes, 1)

    def finish(self, store: NodeStore) -> Finished:
        """Finish the nodes of a store, which are numbered."""
        runtime, n = self._runtime, store.most_finished
        n_masks = n // 2
        if self._asks:
            table = runtime.read_later(store.numbers.table)()
            n = min(n, int(table[0, -1]))  # where memory is foretold, that is of all levels
            n_masks = min(int(table[1, -1]), (n - store.n_trees) // 2)
        has_masks = store.nodes.mask.shape[1] > 0
        arrays = allocate(runtime.xp, self._columns(n, n_masks if has_masks else -1))
        self._finish_nodes(store, arrays, n, has_masks)
        if self._signs is not None:
            self._order_values(store, arrays, n)
        return Finished(store.numbers.table, arrays)

    def _columns(self, n: int, n_masks: int) -> Columns:
        """The arrays of n nodes; without categories where ``n_masks`` is -1."""
        columns: Columns = {
            "feature": (np.int16 if self._is_narrow else np.int32, (n,)),
            "threshold": (np.float64, (n,)),
            "code": (np.uint8, (n,)),
            "missing_left": (np.uint8, (n,)),
            "left": (np.int32, (n,)),
            "value": (np.float64, (n, self.n_values)),
            "gain": (np.float64, (n,)),
            "impurity": (np.float64, (n,)),
            "weight": (np.uint32 if self._is_whole else np.float64, (n,)),
            "count": (np.uint32, (n,)),
        }
        if n_masks < 0:
            return columns
        masks = {"category": (np.int32, (n,)), "masks": (np.uint32, (n_masks, _MASK_WORDS))}
        return columns | masks

    def _finish_nodes(
        self, store: NodeStore, arrays: dict[str, Array], n: int, has_masks: bool
    ) -> None:
        runtime, numbers, nodes = self._runtime, store.numbers, store.nodes
        kinds = (np.int32(store.has_draws), np.int32(has_masks))
        bins = (*self._bins, np.int32(self._bins[0].shape[1]))
        # Of two places for one array nothing is written to the other, nor to those of categories
        # where there is none.
        category, masks = arrays.get("category", nodes.left), arrays.get("masks", nodes.mask)
        features = {np.dtype(np.int16): nodes.bin, np.dtype(np.int32): nodes.feature}
        weights = {np.dtype(np.uint32): nodes.count, np.dtype(np.float64): nodes.rise}
        for places, name in ((features, "feature"), (weights, "weight")):
            places[arrays[name].dtype] = arrays[name]
        chosen = (np.int32(self._is_narrow), np.int32(self._is_whole), *features.values())
        before, after = ("threshold", "code", "missing_left", "left"), ("value", "gain", "impurity")
        args = (
            *(*store.rooms, numbers.table, numbers.order, numbers.category, *nodes.nodes, *kinds),
            *(*bins, *self._reading, *self._facts(store.n_sums), *chosen),
            *(*map(arrays.get, before), category, masks, *map(arrays.get, after)),
            *(*weights.values(), arrays["count"]),
        )
        threads = constant("finish.cu", "FINISH_THREADS")
        n_blocks = min(-(-n // threads), _BLOCKS * runtime.n_multiprocessors)
        runtime.kernel("finish.cu", "finish_nodes", {})((n_blocks,), (threads,), args)

    def _facts(self, n_sums: int) -> tuple[Any, ...]:
        """How sums are to be read, what weights are multiplied by, and what rises are."""
        target, options, sampler = self._task.target, self._task.options, self._task.sampler
        assert sampler is not None
        kind = constant("finish.cu", _kind_of_values(target, options.score))
        sizes = (self.n_values, n_sums, self._n_planes, target.square_unit)
        units = (sampler.brief.unit, gain_unit(options.score, target))
        return (*map(np.int32, (kind, options.score, *sizes)), *map(np.float64, units))

    def _order_values(self, store: NodeStore, arrays: dict[str, Array], n: int) -> None:
        numbers, empty = store.numbers, self._runtime.xp.empty
        bounds = (empty(n, dtype=np.float64), empty(n, dtype=np.float64))
        nodes = (store.nodes.feature, arrays["left"], self._signs, np.int32(self.n_values))
        given = (*store.rooms, numbers.table, numbers.order, numbers.level_end, *nodes)
        kernel = self._runtime.kernel("finish.cu", "order_values", {})
        threads = constant("finish.cu", "ORDER_THREADS")
        kernel((store.n_trees,), (threads,), (*given, arrays["value"], *bounds))


def _has_whole_weights(task: GrowTask, n_planes: int) -> bool:
    """Whether weights of nodes are integers of 32 bits: draws, or rows."""
    target, sampler = task.target, task.sampler
    assert sampler is not None
    own_planes = 0 if target.classes is not None else 2 * (target.n_outputs + 1)
    counted = n_planes == own_planes and not target.by_median and sampler.brief.unit == 1.0
    return counted and sampler.bounds[0] <= np.iinfo(np.uint32).max


def _cut(whole: dict[str, np.ndarray], nodes: slice, masks: slice) -> Tree:
    """The tree of some nodes and masks of all."""
    return Tree(**{name: c[masks if name == "masks" else nodes] for name, c in whole.items()})


def _kind_of_values(target: Target, score: int) -> str:
    if target.classes is not None:
        return "SHARES"
    if target.by_median:
        return "MEDIANS"
    return "POISSON_MEANS" if score == POISSON else "MEANS"


def _first_levels(target: Target) -> np.ndarray:
    """Where the levels of each output begin among those of all: int32."""
    sizes = [len(levels) for levels in target.levels or ()]
    return np.cumsum([0, *sizes[:-1]], dtype=np.int32)
