"""Rounds of AdaBoost on the device: launches, readbacks, and results of a round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from gpuboost import DecisionTreeClassifier, DecisionTreeRegressor
from gpuboost.backends.cuda.adaboost.booster import CudaReweighter
from gpuboost.backends.cuda.adaboost.rows import ReweightedRows
from gpuboost.backends.cuda.backend import CudaBackend
from gpuboost.backends.cuda.runtime import readback as readbacks
from gpuboost.backends.cuda.runtime.launch import launch
from gpuboost.backends.cuda.sampling.batch_inputs import ROUNDS_AT_ONCE, InputsOfRounds
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.data.binning import bin_columns
from gpuboost.engine.criteria import VARIANCE
from gpuboost.engine.ensembles import adaboost
from gpuboost.engine.fixed_point import WeightFacts
from gpuboost.engine.quantise import regression_target
from gpuboost.engine.sampling import root_key
from gpuboost.engine.task import GrowTask, TreeOptions
from tests import cuda_shim
from tests.binning import fit_bin_mapper
from tests.cuda.adaboost.test_cuda_adaboost import (
    Fit,
    assert_same_fit,
    classifier,
    regressor,
    table,
)
from tests.cuda.shim_runtime import ShimRuntime
from tests.engine.exact import assert_equal_models
from tests.fakes.fake_cupy import WAIT
from tests.fakes.fake_streams import GRAPH

pytestmark = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[CudaReweighter]:
    """A list that receives every `CudaReweighter` created by the test."""
    found: list[CudaReweighter] = []

    class Kept(CudaReweighter):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            found.append(self)

    monkeypatch.setattr("gpuboost.backends.cuda.backend.CudaReweighter", Kept)
    return found


@pytest.mark.parametrize("boosting", ["reweighting", "resampling"])
@pytest.mark.parametrize("n_classes", [0, 2])
def test_rounds_of_bounded_depth_are_replayed(
    n_classes: int, boosting: str, fit_on: Fit, made: list[CudaReweighter]
) -> None:
    make = classifier if n_classes else regressor
    runtime = assert_same_fit(fit_on, make(boosting=boosting), *table(n_classes=n_classes))
    assert is_replayed(made[0])
    name = "classes" if n_classes else "values"
    counts = [runtime.launches.count(f"{verb}_{name}") for verb in ("evaluate", "reweigh")]
    assert counts == [5, 4]
    assert runtime.launches.count("pack_tree") == runtime.launches.count("end_round") == 5
    assert runtime.launches.count("draw_weighted") == 5 * (boosting == "resampling")


def is_replayed(fit: CudaReweighter) -> bool:
    return fit._grower.recorded is not None


LIMITS: list[dict[str, Any]] = [
    {"max_leaf_nodes": 7},
    {"max_leaf_nodes": 90, "max_depth": 5},
    {"max_depth": 3, "monotonic_cst": [1, 0, 0, -1]},
    {"max_depth": 20, "min_samples_leaf": 4},
]


@pytest.mark.parametrize("limits", range(len(LIMITS)))
@pytest.mark.parametrize("n_classes", [0, 2])
def test_rounds_of_all_trees_of_bounded_size_are_replayed(
    n_classes: int, limits: int, fit_on: Fit, made: list[CudaReweighter]
) -> None:
    kind = DecisionTreeClassifier if n_classes else DecisionTreeRegressor
    asked = (classifier if n_classes else regressor)(
        estimator=kind(**LIMITS[limits]), n_estimators=4
    )
    runtime = assert_same_fit(fit_on, asked, *table(n_classes=n_classes))
    assert is_replayed(made[0])
    judged = "evaluate_classes" if n_classes else "evaluate_values"
    best_first = "max_leaf_nodes" in LIMITS[limits]
    assert runtime.launches.count(judged) == runtime.launches.count("end_round") == 4
    assert runtime.launches.count("cut_nodes") == 4 * best_first
    assert ("grow_subtrees" in runtime.launches) == (LIMITS[limits].get("max_depth") == 20)


@pytest.mark.parametrize("kind", ["medians", "deep", "pruned", "deep and pruned", "cut back"])
def test_a_tree_is_evaluated_once(kind: str, fit_on: Fit, made: list[CudaReweighter]) -> None:
    """Trees are evaluated on the device, or after the host has pruned or cut them back."""
    base = DecisionTreeRegressor(max_depth=2)
    if "deep" in kind:
        base.set_params(max_depth=None, min_samples_leaf=9)
    if "pruned" in kind:
        base.set_params(ccp_alpha=0.002)
    if kind in ("medians", "cut back"):
        base.set_params(criterion="absolute_error")
    if kind == "cut back":
        base.set_params(min_impurity_decrease=0.05)
    asked = regressor(estimator=base, n_estimators=3)
    runtime = assert_same_fit(fit_on, asked, *table(n_classes=0))
    assert runtime.launches.count("finish_nodes") == runtime.launches.count("evaluate_values") == 3
    assert is_replayed(made[0]) == ("deep" not in kind)


@pytest.mark.parametrize("budget", [1 << 12, 1 << 24])
def test_little_memory(budget: int, fit_on: Fit, made: list[CudaReweighter]) -> None:
    """With little memory, histograms are built in slices and rounds are not recorded."""
    asked = classifier(max_depth=4, criterion="gini")
    assert_same_fit(fit_on, asked, *table(n_classes=3), budget=budget)
    assert (made[0]._grower.recorded is None) == (budget < 1 << 24)


# ---- one readback per round ----------------------------------------------------------------------


@pytest.mark.parametrize("make", [classifier, regressor])
def test_the_host_waits_once_a_round(make: Callable[..., Any], machine: Any) -> None:
    """The host waits for a tree's nodes and error sums, but not while rows are prepared."""
    n, spans = 5, []
    make_rows = ReweightedRows.make

    def watched(self: ReweightedRows, inputs: Any) -> Any:
        begun = len(machine.events)
        rows = make_rows(self, inputs)
        spans.append(machine.events[begun:])
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReweightedRows, "make", watched)
        X, y = table(n_classes=2 if make is classifier else 0)
        make(n_estimators=n, max_depth=1, device="cuda")().fit(X, y)
    assert spans and all(WAIT not in events for events in spans)
    rounds = [place for place, event in enumerate(machine.events) if event == GRAPH]
    assert len(rounds) == n - 2  # the first updates no weights, the second is recorded
    for first, last in pairwise(rounds):
        assert machine.events[first:last].count(WAIT) == 1


@pytest.mark.parametrize("n_classes", [0, 2])
def test_a_round_is_launched_before_the_previous_one_is_read(n_classes: int, fit_on: Fit) -> None:
    """Replayed rounds overlap with reading the previous round, in one copy each."""
    device, events = Watched(), []
    device.events = events
    make = classifier if n_classes else regressor
    fit_on(CudaBackend(device), make(n_estimators=5)(), *table(n_classes=n_classes))
    rounds = events[events.index("end_round") :]
    first, second = ["end_round", "copy 0", "read 0"], ["end_round", "copy 1"]
    later = ["end_round", "copy 2", "read 1", "end_round", "copy 3", "read 2"]
    last = ["end_round", "copy 4", "read 3", "read 4"]
    assert rounds == [*first, *second, *later, *last]


@dataclass
class Watched(ShimRuntime):
    """Logs the ends of rounds and the copies to the host."""

    events: list[str] = field(default_factory=list)

    def kernel(self, file_name: str, name: str, constants: Mapping[str, int]) -> Any:
        kernel = super().kernel(file_name, name, constants)

        def told(*given: Any, **words: Any) -> None:
            if name == "end_round":
                self.events.append(name)
            kernel(*given, **words)

        return told

    def to_host(self, array: np.ndarray) -> np.ndarray:
        self.events.append("to host")
        return super().to_host(array)

    def read_later(self, array: np.ndarray) -> Callable[[], np.ndarray]:
        read = super().read_later(array)
        number = sum(event.startswith("copy") for event in self.events)
        self.events.append(f"copy {number}")

        def waited() -> np.ndarray:
            self.events.append(f"read {number}")
            return read()

        return waited


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_large_rounds_copy_only_the_used_nodes(
    n_classes: int, fit_on: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The results of a round are read first, then its tree while the next round runs."""
    monkeypatch.setattr(readbacks, "MAX_WHOLE", 0)
    device, events = Watched(), []
    device.events = events
    X, y = table(n_classes=n_classes)
    base: Any = (DecisionTreeClassifier if n_classes else DecisionTreeRegressor)(max_depth=3)
    make = classifier if n_classes else regressor
    asked = make(estimator=base, n_estimators=4, categorical_features=[1])
    found = fit_on(CudaBackend(device), asked(), X, y)
    assert_equal_models(found, fit_on(NumpyBackend(), asked(), X, y))
    ends = [place for place, event in enumerate(events) if event == "end_round"]
    for number in range(1, len(ends) - 1):
        own, first = events[ends[number] : ends[number + 1]], 13 * number
        late = [f"read {copy}" for copy in range(first - 12, first)]
        facts = [f"copy {first}", f"read {first}"]
        assert own == ["end_round", *late, *facts, *(f"copy {first + i}" for i in range(1, 13))]
    assert len(ends) > 2


IN_VAIN: list[tuple[int, int, int, dict[str, Any]]] = [  # classes, seed, rows; parameters
    (2, 4, 12, {"learning_rate": 2.0}),
    (3, 9, 12, {"boosting": "resampling"}),
    (0, 8, 40, {"learning_rate": 2.0, "boosting": "reweighting"}),
    (0, 8, 40, {"learning_rate": 2.0, "boosting": "resampling"}),
]


@pytest.mark.parametrize("case", range(len(IN_VAIN)))
def test_a_round_launched_after_the_last_is_discarded(case: int, fit_on: Fit) -> None:
    """The fit ends after a few rounds, with a perfect tree or one no better than chance."""
    n_classes, seed, n, words = IN_VAIN[case]
    X = np.random.default_rng(seed).integers(0, 3, (n, 2)).astype(float)
    asked = (classifier if n_classes else regressor)(n_estimators=40, max_depth=2, **words)
    device = ShimRuntime()
    y = np.arange(n) % (n_classes or 5)
    found = fit_on(CudaBackend(device), asked(), X, y)
    expected = fit_on(NumpyBackend(), asked(), X, y)
    assert_equal_models(found, expected)
    n_rounds = len(expected.estimators_)
    assert 3 < n_rounds < 16
    perfect = expected.estimator_errors_[-1] == 0.0  # otherwise the last tree is not in the model
    assert device.launches.count("end_round") == n_rounds + 2 - perfect


def test_inputs_of_many_rounds_equal_those_of_each_round() -> None:
    """Inputs are made for many rounds at once, also with features drawn per tree."""
    X, y = np.random.default_rng(0).normal(size=(30, 9)), np.zeros(30)
    matrix = bin_columns(X, fit_bin_mapper(X, np.zeros(9, dtype=bool)))
    target = regression_target(y[:, None], WeightFacts(30.0, 1.0), VARIANCE)

    def features(tree: int) -> np.ndarray:
        return np.arange(tree % 4, 9, 2, dtype=np.int32)

    task = GrowTask(matrix, target, TreeOptions(VARIANCE), lambda tree: None, range(2), seed=7)  # type: ignore[arg-type, return-value]
    for asked in (task, replace(task, features_of=features)):
        inputs = InputsOfRounds(asked, 2)
        for number in (0, 1, ROUNDS_AT_ONCE, ROUNDS_AT_ONCE + 3, 2):
            found, trees = inputs.of(number), range(2 * number, 2 * number + 2)
            assert list(found.trees) == list(trees)
            on_device = found.to_device(ShimRuntime())
            assert on_device.keys.trees.tolist() == list(trees)
            assert on_device.key.tolist() == [root_key(7, tree) for tree in trees]
            drawn = [np.flatnonzero(row).tolist() for row in on_device.allowed]
            assert drawn == [asked.tree_features(tree).tolist() for tree in trees]
            assert found.max_allowed == max(map(len, drawn))
            assert on_device.unit[0] == target.gain_unit(VARIANCE)
            assert on_device.min_hessian[0] == asked.options.min_hessian


# ---- results of a round --------------------------------------------------------------------------


RUNTIME = ShimRuntime()  # compiles the kernel once


def ended(by_class: bool, n_classes: int, rate: float, sums: tuple[int, int]) -> list[float]:
    """Factors, error, vote and bound, computed by the kernel."""
    factors, facts = np.empty(2), np.empty(5)
    chance = 1.0 - 1.0 / n_classes if by_class else 0.5
    table, own = np.array([[0, 5], [0, 2], [0, 0]]), np.array([*sums, 1])
    given = {"by_class": by_class, "n_classes": n_classes, "learning_rate": rate, "chance": chance}
    found = {"table": table, "sums": own, "factors": factors, "facts": facts}
    launch(RUNTIME, "end_round", 1, **given, **found)
    assert facts[3:].tolist() == [5.0, 2.0] and not own.any()
    return [*factors.tolist(), *facts[:3].tolist()]


def test_results_of_a_round_are_those_of_the_host() -> None:
    rng = np.random.default_rng(0)
    for number in range(200):
        whole = int(rng.integers(1 << 60, 1 << 61))
        share = rng.random() if number % 4 else 10.0 ** rng.uniform(-19, 0)
        lost = min(whole, round(whole * share))
        rate = float(rng.choice([1.0, 0.3, 1e6]))
        for n_classes in (2, 3, 7):
            found = ended(True, n_classes, rate, (lost, whole))
            assert found == expected_classes(n_classes, rate, lost, whole)
        error = lost / whole
        vote = adaboost.class_vote(error, 2, rate) if 0.0 < error < 0.5 else 0.0
        values = [adaboost.value_step(vote), adaboost.value_step(vote), error, vote, 1.0]
        assert ended(False, 2, rate, (lost, whole)) == [values[0], 0.0, *values[2:]]


def expected_classes(n_classes: int, rate: float, lost: int, whole: int) -> list[float]:
    error, chance = lost / whole, 1.0 - 1.0 / n_classes
    if not 0.0 < error < chance:
        return [1.0, 1.0, error, 0.0, 1.0]
    vote = adaboost.class_vote(error, n_classes, rate)
    factors, bound = adaboost.class_factors(error, vote)
    return [*factors.tolist(), error, vote, bound]


def test_errors_between_two_floats_are_rounded_once() -> None:
    for part, whole in [(1, 3), ((1 << 53) + 1, 1 << 61), ((1 << 54) + 1, (1 << 61) - 1)]:
        for lost in (part, whole - part, whole, 0):
            assert ended(False, 2, 1.0, (lost, whole))[2] == lost / whole
