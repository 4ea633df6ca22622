"""Best-first growth with kernels run on the CPU: comparison with the host's queue, and fits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpuboost.backends.cuda.growth.best_first import SplitQueue
from gpuboost.backends.cuda.level import slices
from gpuboost.backends.cuda.runtime.source import constant, file_text
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.engine.criteria import VARIANCE
from gpuboost.engine.growth.best_first import reached
from gpuboost.engine.growth.level_history import BestFirstFrontier, children_by_level
from gpuboost.engine.task import LEAF, TreeOptions
from tests import cuda_shim
from tests.cuda.boosting.test_cuda_booster import Fit, assert_same_fit, classifier, regressor, table
from tests.cuda.boosting.test_cuda_rounds import boosters
from tests.cuda.shim_runtime import ShimBackend, ShimRuntime, record, with_text
from tests.cuda_shim.launcher import KernelError
from tests.cuda_shim.mutants import barrier_mutants
from tests.engine.harness import Problem, grow
from tests.fakes.fake_cupy import WAIT
from tests.fakes.fake_streams import GRAPH

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)

SPARE = 3  # unused capacity of a level, in nodes


# The queues ---------------------------------------------------------------------------------


@dataclass
class Grown:
    """Trees of random gains, grown by the queues of the host and of the device.

    ``most`` has the capacity of each level, ``levels`` the levels that have nodes.
    """

    queue: SplitQueue
    most: list[int]
    levels: list[dict[str, np.ndarray]]


def grow_both(
    runtime: ShimRuntime, rng: np.random.Generator, n_trees: int, max_leaf_nodes: int
) -> Grown:
    """Grow trees with both queues, and assert equal splits. Gains often tie, so keys decide."""
    options = TreeOptions(VARIANCE, max_leaf_nodes=max_leaf_nodes)
    capacities = [n_trees + SPARE]
    for depth in range(max_leaf_nodes - 1):
        capacities.append(2 * n_trees * min(2**depth, options.max_splits(depth)) + SPARE)
    known = BestFirstFrontier(n_trees, max_leaf_nodes)
    queue = SplitQueue(runtime, options, n_trees, 10**6, sum(capacities))
    tree, first = np.arange(n_trees, dtype=np.int32), 0
    levels: list[dict[str, np.ndarray]] = []
    for most in capacities:
        m = len(tree)
        key = rng.integers(0, 2**64, m, dtype=np.uint64)
        gain = np.where(rng.random(m) < 0.9 + (m <= 4 * n_trees), rng.integers(0, 9, m) / 4.0, -1.0)
        expected = (gain >= 0.0) & known.limit_to_best_first(
            SimpleNamespace(tree=tree, key=key), gain
        )  # type: ignore[arg-type]
        padded = {"tree": tree, "key": key, "gain": gain, "accepted": (gain >= 0).astype(np.uint8)}
        there = {name: np.resize(column, most) for name, column in padded.items()}
        size = np.array([m], dtype=np.int32)
        frontier = record(size=size, capacity=most, tree=there["tree"], key=there["key"])
        splits = record(gain=there["gain"], accepted=there["accepted"])
        queue.limit_to_best_first(frontier, splits, np.array([first], dtype=np.int32))
        first += most
        np.testing.assert_array_equal(splits.accepted[:m] != 0, expected)
        levels.append({"tree": tree, "key": key, "gain": np.where(expected, gain, -1.0)})
        tree = np.repeat(tree[expected], 2)
        if not m:
            break
    return Grown(queue, capacities, levels)


@pytest.mark.parametrize("max_leaf_nodes", [2, 3, 9, 31])
@pytest.mark.parametrize("seed", range(6))
def test_queues_are_those_of_the_host(seed: int, max_leaf_nodes: int) -> None:
    """Final leaves also hold the sums of the nodes below them that were cut."""
    rng, runtime = np.random.default_rng(seed), ShimRuntime(order_seed=seed)
    grown = grow_both(runtime, rng, 1 + seed % 3 * 2, max_leaf_nodes)
    sums = rng.integers(-9, 9, (sum(grown.most), 2))
    leaf, inner = expected_ends(grown, max_leaf_nodes)
    first = np.cumsum([0, *grown.most[:-1]])
    real = np.concatenate([a + np.arange(len(o["tree"])) for a, o in zip(first, grown.levels)])  # noqa: B905
    whole = np.zeros_like(sums)
    np.add.at(whole, leaf[real], sums[real])
    at = np.flatnonzero(inner == 0)
    nodes = stored(grown, sums)
    np.testing.assert_array_equal(grown.queue.cut(nodes, adds=True)[real], leaf[real])
    np.testing.assert_array_equal(nodes.sums[at], whole[at])
    for column, of_leaf in ((nodes.left, 0), (nodes.gain, -1.0), (nodes.feature, LEAF)):
        np.testing.assert_array_equal(column, np.where(inner == 0, of_leaf, 7))
    number_of = rng.permutation(len(leaf)).astype(np.int32)
    expected = number_of[leaf]
    grown.queue.hand_numbers(leaf.astype(np.int32), number_of)
    np.testing.assert_array_equal(number_of, expected)


def stored(grown: Grown, sums: np.ndarray) -> Any:
    """The nodes that `SplitQueue.cut` writes to; all of them are split at first."""
    n = sum(grown.most)
    kinds = {"left": np.int32, "feature": np.int32, "gain": np.float64}
    return record(sums=sums, **{name: np.full(n, 7, kinds[name]) for name in kinds})


def expected_ends(grown: Grown, max_leaf_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Leaf of each node, and which nodes are inner, by a queue that knows all nodes."""
    whole = {name: np.concatenate([o[name] for o in grown.levels]) for name in grown.levels[0]}
    left = children_by_level([own["gain"] >= 0 for own in grown.levels])
    first = np.cumsum([0, *grown.most[:-1]])
    number = np.concatenate([a + np.arange(len(o["tree"])) for a, o in zip(first, grown.levels)])  # noqa: B905
    leaf, inner = np.arange(sum(grown.most)), np.ones(sum(grown.most), dtype=np.uint8)
    taken_back = 0
    for tree in range(int(whole["tree"].max()) + 1):
        stack = [(tree, -1)]
        own = whole["tree"] == tree
        local = np.cumsum(own) - 1
        left_own = np.where(left > 0, local[np.minimum(left, len(local) - 1)], 0)[own]
        chosen = np.zeros(len(own), dtype=bool)
        parts = (left_own, whole["gain"][own], whole["key"][own], max_leaf_nodes)
        chosen[own] = reached(*parts)
        while stack:
            node, above = stack.pop()
            if above < 0 and not chosen[node]:
                above = number[node]
                inner[above] = 0
            if above >= 0:
                leaf[number[node]] = above
            taken_back += bool(left[node] and not chosen[node])
            stack += [(child, above) for child in (left[node], left[node] + 1) if left[node]]
    assert max_leaf_nodes < 31 or taken_back
    return leaf, inner


@pytest.mark.parametrize("max_leaf_nodes", [500, 2500])
def test_more_nodes_than_threads(max_leaf_nodes: int) -> None:
    """Threads sort runs that are merged, also an odd number of them; splits come in groups."""
    grown = grow_both(ShimRuntime(order_seed=4), np.random.default_rng(0), 1, max_leaf_nodes)
    runs = [
        len(own["tree"]) / constant("growth/best_first.cu", "QUEUE_THREADS") for own in grown.levels
    ]
    assert max(runs) > (1 if max_leaf_nodes == 500 else 4)
    assert max_leaf_nodes > 2 * constant("growth/best_first.cu", "GROUP")


# Rounds of boosting -------------------------------------------------------------------------


ROUNDS: list[dict[str, Any]] = [
    {},
    {"max_depth": 4, "subsample": 0.7},
    {"loss": "absolute_error"},
    {"loss": "huber", "subsample": 0.5, "max_depth": 5},
    {"loss": "quantile", "alpha": [0.2, 0.9], "n_iter_no_change": 9},
    {"loss": "poisson", "min_impurity_decrease": 1e-4, "min_samples_leaf": 3},
    {"monotonic_cst": [1, 0, -1, 0, 0]},
    {"monotonic_cst": [1, 0, -1, 0, 0], "subsample": 0.5},
    {"monotonic_cst": [1, 0, -1, 0, 0], "loss": "huber"},
    {"interaction_cst": [[0, 1], [2, 3, 4]], "max_features": 2},
]


@pytest.mark.parametrize("options", ROUNDS, ids=lambda options: "-".join(options) or "none")
def test_rounds_are_replayed(
    options: dict[str, Any], fit_on: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, runtime = boosters(monkeypatch), ShimRuntime(order_seed=6)
    asked = regressor(**{"max_leaf_nodes": 9, "max_depth": None, **options})
    assert_same_fit(fit_on, asked, *table(), runtime=runtime)
    (booster,) = made
    assert booster._grower.recorded is not None
    assert runtime.launches.count("differentiate") == runtime.launches.count("cut_nodes") == 3
    used = set(runtime.launches)
    assert {"keep_leaves", "finish_nodes", "hand_numbers", "add_leaves"} <= used
    assert ("join_groups" in used) == (options.get("loss", "poisson") != "poisson")


@pytest.mark.parametrize("deep", [{"max_depth": 5}, {"max_depth": None}])
def test_the_host_reads_once_a_round(deep: dict[str, Any], machine: Any) -> None:
    n = 5
    model = regressor(n_estimators=n, max_leaf_nodes=9, **deep)().set_params(device="cuda")
    model.fit(*table())
    rounds = [place for place, event in enumerate(machine.events) if event == GRAPH]
    assert len(rounds) == n - 1
    for first, last in pairwise(rounds):
        assert machine.events[first:last].count(WAIT) == 1


@pytest.mark.parametrize("n_classes", [0, 3])
def test_categories_and_watched_rows(n_classes: int, fit_on: Fit) -> None:
    """Rows walk to the remaining leaves by codes and by values, in several trees a round."""
    X, y = table(300, n_classes=n_classes)
    X[:, 3] = np.random.default_rng(1).integers(0, 60, len(X))
    X[:, 4] = np.random.default_rng(2).integers(0, 3, len(X))
    words: dict[str, Any] = {"subsample": 0.6, "max_depth": None, "max_leaf_nodes": 12}
    asked = (classifier if n_classes else regressor)(categorical_features=[3, 4], **words)
    watched = [(X[:50], y[:50]), (X[50:90] + 0.25, y[50:90], np.arange(40.0))]
    runtime = ShimRuntime(order_seed=3)
    assert_same_fit(fit_on, asked, X, y, runtime=runtime, eval_set=watched)
    assert {"add_leaves", "add_leaves_by_value", "hand_numbers"} <= set(runtime.launches)


@pytest.mark.parametrize(
    ("empty_launches", "needs_size_readback"), [(0, True), (slices.EMPTY_LAUNCHES, False)]
)
def test_little_memory(
    empty_launches: int, needs_size_readback: bool, fit_on: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No level's histograms fit; they are built in slices, or the host reads the sizes."""
    monkeypatch.setattr(slices, "EMPTY_LAUNCHES", empty_launches)
    budget = 1 << 20
    made, runtime = boosters(monkeypatch), ShimRuntime(order_seed=3, budget=budget)
    asked = regressor(max_depth=None, max_leaf_nodes=20, subsample=0.8)
    assert_same_fit(fit_on, asked, *table(), runtime=runtime)
    assert (made[0]._grower.recorded is None) == needs_size_readback


def test_many_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """With this many leaves, the host reads the size of every level of the trees."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 4))
    asked = Problem(X, X[:, 0] * X[:, 1] + np.sin(9.0 * X[:, 2]), False, n_trees=3)
    asked = asked.with_options(max_leaf_nodes=120, min_samples_leaf=2)
    with monkeypatch.context() as without:
        without.delattr("gpuboost.backends.numpy.rows.grown_trees")
        ensemble, fingerprint = grow(asked, ShimBackend(ShimRuntime(order_seed=2)))
    assert fingerprint == grow(asked, NumpyBackend())[1]
    assert (np.add.reduceat(ensemble.left == 0, ensemble.offset[:-1]) == 120).all()


# Sound kernels ------------------------------------------------------------------------------


@pytest.mark.parametrize("flavour", ["race", "undefined", "guard"])
def test_kernels_are_sound(flavour: str, fit_on: Fit) -> None:
    runtime = ShimRuntime(flavour=flavour, order_seed=8)
    grown = grow_both(runtime, np.random.default_rng(1), 2, 60)
    found = np.ones((sum(grown.most), 2), dtype=np.int64)
    leaf = grown.queue.cut(stored(grown, found), adds=True)
    grown.queue.hand_numbers(leaf, np.ones(len(found), dtype=np.int32))
    X, y = table(150)
    asked = regressor(n_estimators=1, max_leaf_nodes=6, max_depth=None, loss="huber")
    assert_same_fit(fit_on, asked, X, y, runtime=runtime)
    kernels = set(re.findall(r"^(\w+)\(", file_text("growth/best_first.cu"), re.MULTILINE))
    assert len(kernels) == 4 and kernels | {"first_groups", "join_groups"} <= set(runtime.launches)


MUTANTS = [
    (name, mutant)
    for name in ("growth/best_first.cu", "common/running_sum.cuh")
    for mutant in barrier_mutants(file_text(name))
]


@pytest.mark.parametrize(
    ("name", "mutant"), MUTANTS, ids=lambda part: str(getattr(part, "line", part))
)
def test_every_barrier_is_needed(name: str, mutant: cuda_shim.Mutant) -> None:
    sources = with_text(name, mutant.source_text, ["growth/best_first.cu"])
    zeroed: Any = SimpleNamespace(**{**vars(np), "empty": np.zeros})  # no random indices
    runtime = ShimRuntime(flavour="race", order_seed=4, sources=sources, xp=zeroed)
    with pytest.raises((KernelError, AssertionError)):
        grow_both(runtime, np.random.default_rng(0), 1, 500)


def test_there_are_mutants() -> None:
    assert len(MUTANTS) == 7
