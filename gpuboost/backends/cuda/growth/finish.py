"""Trees finished on the device, as `gpuboost.engine.growth.tree.finish_tree` does: finish.cu.

The host copies what a `Tree` holds and cuts it into trees. Integers are as narrow as they can be:
they are widened where the trees of a model are joined, as all of them are.
"""

from __future__ import annotations

import numpy as np

from gpuboost.backends.cuda.growth.node_buffer import NodeBuffer, Store
from gpuboost.backends.cuda.growth.tree_arrays import MASK_WORDS, Finished
from gpuboost.backends.cuda.growth.value_rule import ValueRule
from gpuboost.backends.cuda.runtime.arrays import Columns, allocate
from gpuboost.backends.cuda.runtime.launch import launch
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.task import GrowTask

_BLOCKS = 32  # per multiprocessor, at most: a thread takes node after node


class Finisher:
    """Finishes the nodes of one batch of trees of a task after the other.

    Parameters
    ----------
    runtime : Runtime
    task : GrowTask
    needs_size_readback : bool
        Whether the host asks how many nodes there are, so that arrays need no room for more.
    rule : Reading or None
        How sums are to be read; None where each batch says it for itself.

    Attributes
    ----------
    needs_size_readback : bool
    """

    def __init__(
        self,
        runtime: Runtime,
        task: GrowTask,
        needs_size_readback: bool,
        rule: ValueRule | None = None,
    ) -> None:
        self._runtime, self._task, self.needs_size_readback = runtime, task, needs_size_readback
        self._rule = rule
        mapper = task.matrix.mapper
        bins = {"center": mapper.center, "low": mapper.low, "high": mapper.high}
        self._bins = {
            name: runtime.asarray(np.ascontiguousarray(each)) for name, each in bins.items()
        }
        self._has_masks = bool(mapper.is_categorical.any())
        # Rows of rounds walk down finished trees: there is one type of features for them.
        has_narrow_features = task.matrix.n_features <= np.iinfo(np.int16).max
        self._is_narrow = has_narrow_features and rule is not None
        self._is_whole = rule is not None and _has_whole_weights(task, rule.n_planes)
        signs = task.options.regularisation.monotonic
        self._signs = None if signs is None else runtime.asarray(np.array(signs, dtype=np.int8))
        self._one = runtime.asarray(np.ones(1))

    @classmethod
    def of(cls, runtime: Runtime, task: GrowTask, needs_size_readback: bool) -> Finisher | None:
        """That of a task; None where trees are finished on the host.

        That is where the rows of trees are known to none but ``rows_of``, which may give each leaf
        sums of its own.
        """
        if task.sampler is None or task.target.has_gradients:
            return None
        return cls(runtime, task, needs_size_readback, ValueRule.of_target(runtime, task))

    def columns(self, n: int, n_masks: int, n_values: int) -> Columns:
        """The arrays of n nodes, as they are in `Finished`."""
        columns: Columns = {
            "feature": (np.int16 if self._is_narrow else np.int32, (n,)),
            "threshold": (np.float64, (n,)),
            "code": (np.uint8, (n,)),
            "missing_left": (np.uint8, (n,)),
            "left": (np.int32, (n,)),
            "value": (np.float64, (n, n_values)),
            "impurity_decrease": (np.float64, (n,)),
            "impurity": (np.float64, (n,)),
            "weight": (np.uint32 if self._is_whole else np.float64, (n,)),
            "count": (np.uint32, (n,)),
        }
        if not self._has_masks:
            return columns
        masks = {"category": (np.int32, (n,)), "masks": (np.uint32, (n_masks, MASK_WORDS))}
        return columns | masks

    def finish(self, store: NodeBuffer) -> Finished:
        """Finish the nodes of a store, which are numbered."""
        assert self._rule is not None
        n, n_masks = self.sizes(store)
        columns = self.columns(n, n_masks, self._rule.n_values)
        found = Finished(store.numbers.table, allocate(self._runtime.xp, columns))
        self.finish_into(found, store, self._rule)
        return found

    def sizes(self, store: NodeBuffer) -> tuple[int, int]:
        """Nodes and masks there are to be room for."""
        if not self.needs_size_readback:
            return store.max_finished, store.max_finished // 2
        table = self._runtime.read_later(store.numbers.table)()
        n = min(store.max_finished, int(table[0, -1]))  # where memory is foretold, of all levels
        return n, min(int(table[1, -1]), (n - store.n_trees) // 2)

    def finish_into(self, found: Finished, store: NodeBuffer, rule: ValueRule) -> None:
        """Finish the nodes of a store into arrays that are there."""
        self._finish_nodes(store, found, rule)
        if self._signs is not None:
            self._order_values(store, found.columns, rule)

    def _finish_nodes(self, store: NodeBuffer, found: Finished, rule: ValueRule) -> None:
        runtime, nodes, arrays = self._runtime, store.nodes, found.columns
        numbers = found.number_of is not None
        own = {
            **self._places(nodes, arrays),
            "has_draws": store.has_draws,
            "has_masks": self._has_masks,
            "width": self._bins["center"].shape[1],
            "rate": rule.rate if self._signs is None else self._one,  # after they are in order
            "criterion": self._task.options.criterion,
            "n_sums": store.n_sums,
            "is_narrow": self._is_narrow,
            "is_whole": self._is_whole,
            "left_to": arrays["left"],
            "count_out": arrays["count"],
            "numbers": numbers,
            "number_of": found.number_of if numbers else nodes.left,
        }
        names = ("threshold", "code", "missing_left", "value", "impurity_decrease", "impurity")
        own |= {name: arrays[name] for name in names}
        threads = constant("growth/finish.cu", "FINISH_THREADS")
        n_blocks = min(-(-len(arrays["left"]) // threads), _BLOCKS * runtime.n_multiprocessors)
        known, given = (store.numbers, nodes, rule), {**self._bins, **store.capacities}
        launch(runtime, "finish_nodes", n_blocks, *known, **given, **own)

    def _places(self, nodes: Store, arrays: dict[str, Array]) -> dict[str, Array]:
        """Where features, weights and masks are written.

        Of two places for one array nothing is written to the other, nor to those that are not
        asked for.
        """
        narrow, wide = (nodes.bin, arrays["feature"])
        if self._is_narrow:
            narrow, wide = arrays["feature"], nodes.feature
        whole, real = (nodes.count, arrays["weight"])
        if self._is_whole:
            whole, real = arrays["weight"], nodes.gain
        return {
            "narrow_feature": narrow,
            "wide_feature": wide,
            "whole_weight": whole,
            "weight": real,
            "category_out": arrays.get("category", nodes.left),
            "masks_out": arrays.get("masks", nodes.mask),
        }

    def _order_values(self, store: NodeBuffer, arrays: dict[str, Array], rule: ValueRule) -> None:
        empty, n = self._runtime.xp.empty, len(arrays["left"])
        bounds = {name: empty(n, dtype=np.float64) for name in ("lower", "upper")}
        own = {"left": arrays["left"], "value": arrays["value"], "sign": self._signs}
        own |= {"largest": rule.given[2:3], **bounds, **store.capacities}
        launch(
            *(self._runtime, "order_values", store.n_trees, store.numbers, store.nodes, rule),
            **own,
        )


def _has_whole_weights(task: GrowTask, n_planes: int) -> bool:
    """Whether weights of nodes are integers of 32 bits: draws, or rows."""
    target, sampler = task.target, task.sampler
    assert sampler is not None
    own_planes = 0 if target.by_class else 2 * (target.n_channels + 1)
    counted = n_planes == own_planes and not target.by_median and sampler.brief.unit == 1.0
    return counted and sampler.bounds[0] <= np.iinfo(np.uint32).max
