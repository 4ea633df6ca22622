"""Finishing of trees on the device: the launches of finish.cu.

The trees equal those of `gpuboost.engine.growth.tree.finish_tree` or, in rounds of boosting without
pruning, of `gpuboost.engine.ensembles.boosting.finish_boosted`. The host copies the arrays of all
trees of a batch and slices them into `Tree` objects. Integers have narrow types, and are widened
when all trees of the model are concatenated.
"""

from __future__ import annotations

import numpy as np

from gpuboost.backends.cost_model import is_sync_free
from gpuboost.backends.cuda.growth.node_buffer import NumberedNodes, Store
from gpuboost.backends.cuda.growth.tree_arrays import MASK_WORDS, Finished
from gpuboost.backends.cuda.growth.value_rule import ValueRule
from gpuboost.backends.cuda.runtime.arrays import Columns, allocate
from gpuboost.backends.cuda.runtime.launch import launch
from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.engine.growth.frontier import Array
from gpuboost.engine.task import GrowTask

_NODE_BLOCKS = 32  # largest number per multiprocessor; threads loop over nodes


class Finisher:
    """Finishes the nodes of the batches of a task.

    Parameters
    ----------
    runtime : Runtime
    task : GrowTask
    rule : ValueRule or None
        Rule for the values and weights of nodes; None if each batch passes its own rule.

    Attributes
    ----------
    needs_size_readback : bool
        Whether the host reads the number of nodes, to allocate arrays of exactly that size.
    """

    def __init__(self, runtime: Runtime, task: GrowTask, rule: ValueRule | None = None) -> None:
        self._runtime, self._task, self._rule = runtime, task, rule
        self.needs_size_readback = not is_sync_free(task.options)
        mapper = task.matrix.mapper
        bins = {"center": mapper.centers, "low": mapper.lowest, "high": mapper.highest}
        self._bins = {name: runtime.asarray(mapper.padded(each)) for name, each in bins.items()}
        self._has_masks = bool(mapper.is_categorical.any())
        # In rounds, the kernel by which rows traverse finished trees only takes int32 features.
        has_narrow_features = task.matrix.n_features <= np.iinfo(np.int16).max
        self._is_narrow = has_narrow_features and rule is not None
        self._is_whole = rule is not None and _has_whole_weights(task, rule.n_planes)
        signs = task.options.regularisation.monotonic
        self._signs = None if signs is None else runtime.asarray(np.array(signs, dtype=np.int8))
        self._one = runtime.asarray(np.ones(1))

    @classmethod
    def of(cls, runtime: Runtime, task: GrowTask) -> Finisher | None:
        """Make the finisher of a task; return None if the host or a round finishes the trees.

        A round has its own finisher, or the host finishes its trees. Other trees are finished by
        the host if they are grown on gradients, or if their rows come from ``rows_of``, because
        their leaf sums can then be of any kind.
        """
        if task.sampler is None or task.target.has_gradients:
            return None
        return cls(runtime, task, ValueRule.of_target(runtime, task))

    def columns(self, n: int, n_masks: int, n_values: int) -> Columns:
        """Types and shapes of the arrays of `Finished` for ``n`` nodes and ``n_masks`` masks.

        Each node has ``n_values`` values.
        """
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

    def finish(self, grown: NumberedNodes) -> Finished:
        """Finish the nodes of a batch by the rule of the task, and return the trees."""
        assert self._rule is not None
        columns = self.columns_of(grown, self._rule.n_values)
        found = Finished(grown.numbers.table, allocate(self._runtime.xp, columns))
        self.finish_into(found, grown, self._rule)
        return found

    def columns_of(self, grown: NumberedNodes, n_values: int) -> Columns:
        """Types and shapes of the arrays of `Finished` for the trees of a batch."""
        return self.columns(*self._sizes(grown), n_values)

    def _sizes(self, grown: NumberedNodes) -> tuple[int, int]:
        """Numbers of nodes and masks to allocate."""
        store = grown.buffer
        if not self.needs_size_readback:
            return store.max_finished, store.max_finished // 2
        table = self._runtime.read_later(grown.numbers.table)()
        n = min(store.max_finished, int(table[0, -1]))  # a dry run reads an estimate
        return n, min(int(table[1, -1]), (n - store.n_trees) // 2)

    def finish_into(self, found: Finished, grown: NumberedNodes, rule: ValueRule) -> None:
        """Finish the nodes of a batch by ``rule``; write the trees to the arrays of ``found``."""
        self._finish_nodes(grown, found, rule)
        if self._signs is not None:
            self._order_values(grown, found.columns, rule)

    def _finish_nodes(self, grown: NumberedNodes, found: Finished, rule: ValueRule) -> None:
        runtime, store, arrays = self._runtime, grown.buffer, found.columns
        nodes = store.nodes
        numbers = found.number_of is not None
        own = {
            **self._places(nodes, arrays),
            "has_draws": store.has_draws,
            "has_masks": self._has_masks,
            "width": self._bins["center"].shape[1],
            "rate": rule.rate if self._signs is None else self._one,  # see order_values
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
        n_blocks = min(-(-len(arrays["left"]) // threads), _NODE_BLOCKS * runtime.n_multiprocessors)
        known, given = (grown.numbers, nodes, rule), {**self._bins, **store.capacities}
        launch(runtime, "finish_nodes", n_blocks, *known, **given, **own)

    def _places(self, nodes: Store, arrays: dict[str, Array]) -> dict[str, Array]:
        """Arrays to which features, weights and masks are written.

        Features and weights have a narrow and a wide array each, and the kernel writes one of the
        two. Arrays that are not needed are replaced by placeholders.
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

    def _order_values(
        self, grown: NumberedNodes, arrays: dict[str, Array], rule: ValueRule
    ) -> None:
        empty, n, store = self._runtime.xp.empty, len(arrays["left"]), grown.buffer
        bounds = {name: empty(n, dtype=np.float64) for name in ("lower", "upper")}
        own = {"left": arrays["left"], "value": arrays["value"], "sign": self._signs}
        own |= {"largest": rule.given[2:3], **bounds, **store.capacities}
        records = grown.numbers, store.nodes, rule
        launch(self._runtime, "order_values", store.n_trees, *records, **own)


def _has_whole_weights(task: GrowTask, n_planes: int) -> bool:
    """Whether node weights are sums of integer weights of unit 1, which fit in 32 bits."""
    target, sampler = task.target, task.sampler
    assert sampler is not None
    own_planes = 0 if target.by_class else 2 * (target.n_channels + 1)
    counted = n_planes == own_planes and not target.by_median and sampler.shared_rows.unit == 1.0
    return counted and sampler.bounds[0] <= np.iinfo(np.uint32).max
