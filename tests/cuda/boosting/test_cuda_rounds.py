"""Rounds of boosting on the device: what is recorded, and what the host reads when."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from gpuboost import (
    AdaBoostClassifier,
    BaggingClassifier,
    DecisionTreeClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from gpuboost.backends.cuda.backend import CudaBackend
from gpuboost.backends.cuda.boosting import booster as cuda_booster
from gpuboost.backends.cuda.boosting.boosted_round import BoostedRound, read_round
from gpuboost.backends.cuda.boosting.booster import CudaBooster
from gpuboost.backends.cuda.boosting.leaf_updates import RoundLeaves
from gpuboost.backends.cuda.boosting.round_rows import RoundRows
from gpuboost.backends.cuda.growth import node_buffer as stored
from gpuboost.backends.cuda.level import policy, slices
from gpuboost.backends.cuda.runtime import readback as readbacks
from gpuboost.backends.cuda.runtime.readback import HostCopy
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.engine.criteria import VARIANCE
from gpuboost.engine.ensembles import boosting
from gpuboost.engine.ensembles.boosting_task import RoundLosses
from gpuboost.engine.growth import tree
from gpuboost.engine.task import TreeOptions
from tests import cuda_shim
from tests.cuda.boosting.test_cuda_booster import Fit, assert_same_fit, classifier, regressor, table
from tests.cuda.shim_runtime import ShimRuntime
from tests.fakes.fake_cupy import WAIT
from tests.fakes.fake_streams import GRAPH

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)


TOO_LARGE: list[Any] = [
    DecisionTreeClassifier(),
    RandomForestClassifier(2),
    BaggingClassifier(DecisionTreeClassifier(), 2),
    AdaBoostClassifier(DecisionTreeClassifier(), n_estimators=2),
    GradientBoostingClassifier(max_depth=None, n_estimators=2),
    GradientBoostingClassifier(max_depth=None, n_estimators=2, ccp_alpha=0.1),
]


# Pending rounds and sums --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["GRADIENT_BITS", "HESSIAN_BITS", "VALUE_BITS", "EXACT_BITS"])
def test_bits_of_integers(name: str) -> None:
    assert constant("boosting/gradients.cu", name) == getattr(boosting, name)


def test_bits_of_sums() -> None:
    assert constant("common/rounds.cuh", "SUM_BITS") == boosting.SUM_BITS


class Copies:
    """The host copy of a round of one tree with one leaf; counts how often it is waited for."""

    def __init__(self, weight: int) -> None:
        kinds = {"feature": np.int32, "threshold": np.float64, "code": np.uint8}
        kinds |= {"missing_left": np.uint8, "left": np.int32, "weight": np.float64}
        kinds |= dict.fromkeys(("impurity_decrease", "impurity"), np.float64) | {"count": np.uint32}
        arrays = {name: np.zeros(1, kind) for name, kind in kinds.items()}
        arrays |= {"table": np.array([[0, 1], [0, 0], [weight, 0]]), "value": np.array([[1.5]])}
        arrays["losses"] = np.full((1, 12), 7)
        self._readback, self.waits = HostCopy.of(arrays), 0

    def __call__(self) -> HostCopy:
        self.waits += 1
        return self._readback


def test_pending_rounds_are_read_once() -> None:
    read, losses = Copies(weight=3), RoundLosses(1.5, None, ())
    summed: list[np.ndarray] = []
    made: Any = SimpleNamespace(of_sums=lambda sums: summed.append(sums) or losses)
    late = BoostedRound(lambda: read_round(read, made, ValueError))
    assert read.waits == 0
    late.results()
    assert read.waits == 1
    (found,) = late.read().trees
    assert found.node_count == 1 and found.value.tolist() == [[1.5]]
    assert late.read().losses is late.read().losses is losses
    assert [own.tolist() for own in summed] == [[[7] * 12]]
    restored = pickle.loads(pickle.dumps(found))
    assert type(restored) is tree.Tree and restored.node_count == 1 and read.waits == 1


def test_pending_rounds_without_rows() -> None:
    copies, losses = Copies(weight=0), RoundLosses(1.5, None, ())
    late = BoostedRound(lambda: read_round(copies, losses, lambda: ValueError("no weight")))
    with pytest.raises(ValueError, match="no weight"):
        late.results()


# Launches, waits and copies -----------------------------------------------------------------


def boosters(monkeypatch: pytest.MonkeyPatch) -> list[CudaBooster]:
    """A list that receives every `CudaBooster` created by the test."""
    made: list[CudaBooster] = []

    class Kept(CudaBooster):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr("gpuboost.backends.cuda.backend.CudaBooster", Kept)
    return made


REPLAYED: list[dict[str, Any]] = [
    {},
    {"loss": "absolute_error"},
    {"loss": "huber", "subsample": 0.5},
    {"loss": "quantile", "alpha": [0.2, 0.9], "n_iter_no_change": 9},
    {"monotonic_cst": [1, 0, -1, 0, 0]},
    {"monotonic_cst": [1, 0, -1, 0, 0], "subsample": 0.5},
]


@pytest.mark.parametrize("options", REPLAYED, ids=lambda options: "-".join(options) or "none")
def test_rounds_of_bounded_depth_are_replayed(
    options: dict[str, Any], fit_on: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, runtime = boosters(monkeypatch), ShimRuntime()
    assert_same_fit(fit_on, regressor(**options), *table(), runtime=runtime)
    (booster,) = made
    assert booster._grower.recorded is not None
    assert runtime.launches.count("differentiate") == 3
    # The partition keeps track of rows, and trees are finished on the device.
    used = set(runtime.launches)
    assert {"keep_leaves", "finish_nodes", "add_leaves"} <= used
    assert ("set_leaf_quantiles" in used) == ("loss" in options)
    assert ("order_values" in used) == ("monotonic_cst" in options)


def test_levels_with_as_many_nodes_as_possible(fit_on: Fit) -> None:
    """Every node has just enough rows for a split, until all nodes are too small."""
    y, runtime = np.arange(64.0), ShimRuntime(flavour="guard")
    asked = regressor(max_depth=13, n_estimators=1, min_samples_split=16)
    found = assert_same_fit(fit_on, asked, y[:, None], y, runtime=runtime)
    assert (found._model.ensemble.left == 0).sum() == 8
    for limit in ({"min_samples_split": 16}, {"min_samples_leaf": 8}):
        assert policy.max_children(4, 64, TreeOptions(VARIANCE, **limit)) == 8


def test_sizes_of_levels_beyond_the_memory_are_read_back(
    fit_on: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host reads the sizes of levels, but leaves are still added on the device."""
    monkeypatch.setattr(slices, "EMPTY_LAUNCHES", 0)
    made, runtime = boosters(monkeypatch), ShimRuntime(order_seed=3, budget=1 << 20)
    asked = regressor(max_depth=6, min_samples_split=5, subsample=0.8)
    assert_same_fit(fit_on, asked, *table(), runtime=runtime)
    (booster,) = made
    assert booster._grower.recorded is None and booster.rounds.leaves is not None
    assert "finish_nodes" in runtime.launches


def test_trees_of_a_round_beyond_the_node_buffer_grow_apart(
    fit_on: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trees of a round that exceed the node buffer grow apart, and the host finishes them."""
    made, runtime = boosters(monkeypatch), ShimRuntime(order_seed=1)
    asked, most = classifier(max_depth=2, n_estimators=2), 7  # nodes per tree
    for places in (3 * most, 3 * most - 1):
        monkeypatch.setattr(stored, "MAX_PLACES", places)
        assert_same_fit(fit_on, asked, *table(n_classes=3), runtime=runtime)
    assert [booster.rounds.leaves is None for booster in made] == [False, True]


@pytest.mark.parametrize("make", TOO_LARGE, ids=lambda make: type(make).__name__)
def test_trees_beyond_the_node_buffer_are_refused(
    make: Any, fit_on: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is raised before the first launch."""
    runtime, (X, y) = ShimRuntime(), table(60, n_classes=2)
    monkeypatch.setattr(stored, "MAX_PLACES", 20)
    with pytest.raises(ValueError, match=r"^a tree of 60 rows .* Set max_depth, increase min"):
        fit_on(CudaBackend(runtime), clone(make), X, y)
    assert not {"make_roots", "draw_rows", "differentiate"} & set(runtime.launches)


DEEP: list[dict[str, Any]] = [
    {"max_depth": None},
    {"max_depth": None, "loss": "huber"},
    {"max_depth": None, "max_leaf_nodes": 70},
    {"max_depth": None, "monotonic_cst": [1, 0, -1, 0, 0]},
    {"max_depth": 20, "loss": "poisson", "subsample": 0.6},
    {"max_depth": 20, "loss": "quantile", "alpha": [0.2, 0.7], "subsample": 0.7},
    {"max_depth": 25, "monotonic_cst": [1, 0, -1, 0, 0], "subsample": 0.5},
]


@pytest.mark.parametrize("options", DEEP, ids=lambda options: "-".join(options))
def test_rounds_of_deep_trees(
    options: dict[str, Any], fit_on: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small nodes leave the level loop where possible, and all rows walk the finished trees."""
    made, runtime, (X, y) = boosters(monkeypatch), ShimRuntime(order_seed=3), table(120)
    if "subsample" in options:  # copy only the nodes that are used
        monkeypatch.setattr(readbacks, "MAX_WHOLE", 0)
    asked = regressor(n_estimators=2, **options)
    assert_same_fit(fit_on, asked, X, y, runtime=runtime, eval_set=[(X[:30], y[:30])])
    (booster,), used = made, set(runtime.launches)
    assert (booster._grower.recorded is None) == (options["max_depth"] is None)
    assert {"finish_nodes", "add_leaves", "add_leaves_by_value"} <= used
    assert ("keep_leaves" in used) == ("max_leaf_nodes" in options)
    assert ("key_traversed" in used) == (options.get("loss") in ("huber", "quantile"))
    small = "grow_subtrees" in used
    assert small == (not {"max_leaf_nodes", "monotonic_cst"} & set(options))


@pytest.mark.parametrize(("depth", "waits"), [(None, 0), (4, 1)])
def test_copies_wait_only_for_trees_of_unknown_size(
    depth: int | None, waits: int, fit_on: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host waits for the numbers of nodes before the copy, unless it has read all sizes."""
    runtime, found = Waiting(), list[int]()
    start = RoundLeaves.read_later

    def counted(self: RoundLeaves) -> Any:
        before = runtime.waits
        read = start(self)
        found.append(runtime.waits - before)
        return read

    monkeypatch.setattr(RoundLeaves, "read_later", counted)
    monkeypatch.setattr(readbacks, "MAX_WHOLE", 0)
    asked = regressor(max_depth=depth, n_estimators=2, categorical_features=[1])
    X, y = table(120)
    X[:, 1] = np.arange(120) % 7
    assert_same_fit(fit_on, asked, X, y, runtime=runtime)
    assert found == [waits, waits]


class Waiting(ShimRuntime):
    """Counts how often the host waits for a copy."""

    waits = 0

    def read_later(self, array: np.ndarray) -> Callable[[], np.ndarray]:
        read = super().read_later(array)

        def waited() -> np.ndarray:
            self.waits += 1
            return read()

        return waited


@pytest.mark.parametrize("loss", ["huber", "quantile", "absolute_error"])
@pytest.mark.parametrize("deep", [{"max_depth": None}, {"max_leaf_nodes": 9}])
def test_leaves_of_trees_that_are_finished_on_the_host(
    deep: dict[str, Any], loss: str, fit_on: Fit
) -> None:
    runtime, weights = ShimRuntime(order_seed=2), np.random.default_rng(1).uniform(size=230)
    words = {"sample_weight": weights}
    asked = regressor(loss=loss, subsample=0.6, n_estimators=2, ccp_alpha=1e-3, **deep)
    assert_same_fit(fit_on, asked, *table(), runtime=runtime, **words)
    assert {"count_leaves", "key_traversed", "set_leaf_quantiles"} <= set(runtime.launches)


def test_trees_of_a_round_in_batches(fit_on: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    made = boosters(monkeypatch)
    for at_once in (2, 4):  # an incomplete last batch, and none
        monkeypatch.setattr(cuda_booster, "trees_at_once", lambda *_, n=at_once: n)
        X, y = table(n_classes=at_once + 1 if at_once == 2 else 8)
        assert_same_fit(fit_on, classifier(multi_strategy="one_output_per_tree"), X, y)
    assert (made[0]._grower.recorded is None) and (made[1]._grower.recorded is not None)
    assert all(booster.rounds.leaves is None for booster in made)


def test_the_rows_of_a_round_are_made_without_a_copy_to_the_host(machine: Any) -> None:
    """The host does not wait between the first launch of a round and its trees."""
    make, spans = RoundRows.make, []

    def watched(self: RoundRows, inputs: Any) -> Any:
        begun = len(machine.events)
        made = make(self, inputs)
        spans.append(machine.events[begun:])
        return made

    RoundRows.make = watched
    try:
        regressor(subsample=0.5)().set_params(device="cuda").fit(*table())
    finally:
        RoundRows.make = make
    assert spans and all(WAIT not in events for events in spans)


FOLLOWED: list[dict[str, Any]] = [
    {},
    {"loss": "huber", "subsample": 0.5},
    {"loss": "poisson", "subsample": 0.5, "n_iter_no_change": 9},
    {"max_leaf_nodes": 9, "monotonic_cst": [1, 0, -1, 0, 0]},
    {"max_depth": 13, "loss": "quantile", "alpha": 0.2, "min_samples_leaf": 40},
    {"max_depth": 20, "subsample": 0.5},
]


@pytest.mark.parametrize("options", FOLLOWED, ids=lambda options: "-".join(options) or "none")
def test_the_host_reads_once_a_round(options: dict[str, Any], machine: Any) -> None:
    """The host waits once a round; without early stopping, it reads the previous round."""
    n, (X, y) = 7, table()
    model = regressor(n_estimators=n, **options)().set_params(device="cuda")
    model.fit(X, y, sample_weight=np.linspace(0.0, 1.0, len(y)))
    rounds = [place for place, event in enumerate(machine.events) if event == GRAPH]
    assert len(rounds) == n - 1
    for first, last in pairwise(rounds):
        assert machine.events[first:last].count(WAIT) == 1
    *others, last = machine.launched_since[-n:]
    assert (set(others), last) == ({0 if "n_iter_no_change" in options else 1}, 0)


@pytest.mark.parametrize("deep", [{}, {"max_depth": None, "loss": "huber"}])
def test_no_rows_are_copied_to_the_device_in_a_round(
    deep: dict[str, Any], machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Masks of drawn rows and weights are not uploaded, even with evaluation sets."""
    boost, sizes = CudaBooster.boost, []

    def watched(self: CudaBooster, *given: Any) -> Any:
        before = machine.uploaded
        made = boost(self, *given)
        sizes.append(machine.uploaded - before)
        return made

    monkeypatch.setattr(CudaBooster, "boost", watched)
    X, y = table(6000)
    asked = regressor(subsample=0.5, min_samples_leaf=2000, **deep)
    words = {"sample_weight": np.linspace(0.0, 1.0, 6000), "eval_set": [(X[:99], y[:99])]}
    asked().set_params(device="cuda").fit(X, y, **words)
    assert len(sizes) == 3 and max(sizes[1:]) < 6000
