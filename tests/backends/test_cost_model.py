"""The cost model of ``device="auto"``: estimates for each device, and calibration."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.gpu.predictions.fit_work import ADABOOST_LAUNCHES
from gpuboost import (
    AdaBoostClassifier,
    DecisionTreeClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
)
from gpuboost.backends import cache as user_cache
from gpuboost.backends import cost_model as cost
from gpuboost.backends import select as choice
from gpuboost.backends.cache import GROW_ONE
from gpuboost.backends.cost_model import (
    GrowthSize,
    Speed,
    WorkTimes,
    growth_amount,
    growth_work,
)
from gpuboost.backends.cuda.adaboost.booster import CudaReweighter
from gpuboost.backends.cuda.boosting.booster import CudaBooster
from gpuboost.backends.cuda.growth.memory_plan import dry_run, nodes_at
from gpuboost.backends.cuda.runtime.shape_arrays import DeviceShape, ShapeRuntime
from gpuboost.backends.prediction_cost import prediction_amount
from gpuboost.backends.select import choose_backend
from gpuboost.cli import calibration
from gpuboost.cli.calibration import measure, seconds_of_a_byte, seconds_of_a_launch, slope
from gpuboost.engine.ensembles.boosting_task import BoostTask
from gpuboost.engine.task import NO_LIMIT
from gpuboost.estimators.fitting import pipeline as template
from gpuboost.estimators.memory.shape_only_fit import (
    ShapeOnlyTable,
    adaboost_reweight_task,
    boost_task,
    grow_task,
)

FOREST = GrowthSize(1_000_000, 28, n_candidate_features=5, n_trees=10, max_depth=8, n_channels=1)
BOOSTING = GrowthSize(
    1_000_000,
    28,
    n_candidate_features=28,
    n_trees=1,
    max_depth=6,
    n_channels=1,
    n_rounds=100,
)
TABLE = ShapeOnlyTable(100_000, 28, 2, 1, 0, False, np.dtype(np.float32))
BUDGET = 1 << 34  # bytes, enough for everything
KINDS = {
    "forest": replace(FOREST, n_trees=100, max_depth=NO_LIMIT),
    "forest of bounded depth": replace(FOREST, n_trees=100, max_depth=16),
    "boosting": BOOSTING,
    "AdaBoost": replace(BOOSTING, max_depth=1),
    "a tree": replace(BOOSTING, n_rounds=1, max_depth=NO_LIMIT),
}


@pytest.fixture
def speed_file(tmp_path, monkeypatch):
    """The file of measured speeds, in an empty cache."""
    monkeypatch.setenv("GPUBOOST_CACHE_DIR", str(tmp_path))
    cost.measured_speed.cache_clear()
    yield cost.speed_file()
    cost.measured_speed.cache_clear()


@pytest.mark.parametrize("growth", [FOREST, BOOSTING, replace(BOOSTING, ccp_alpha=0.1)])
def test_work_grows_with_everything(growth):
    one = growth_work(growth)
    for name in ("n_samples", "n_candidate_features", "n_trees", "max_depth", "n_rounds"):
        value = getattr(growth, name)
        more = growth_work(replace(growth, **{name: value + max(1, value // 2)}))
        assert all(getattr(more, who) > getattr(one, who) for who in ("numpy", "numba", "cuda"))
    for leaves in (2, 31):
        few, more = (growth_work(replace(growth, max_leaf_nodes=n)) for n in (leaves, leaves + 1))
        assert few.cuda < more.cuda <= one.cuda and few.numba < more.numba <= one.numba
    for name in ("n_features", "n_channels", "value_bytes"):
        assert growth_work(replace(growth, **{name: 30})).cuda > one.cuda
    assert one.cuda < one.numba < one.numpy  # this fit is large


def test_a_table_is_copied_once_in_any_fit():
    """All features are copied once, for any `max_features` and any number of rounds."""
    forest = growth_amount(FOREST).bytes
    wide = growth_amount(replace(FOREST, n_features=1000)).bytes
    assert wide - forest == FOREST.n_samples * (1000 - 28) * 4
    doubles = growth_amount(replace(FOREST, value_bytes=8)).bytes
    assert doubles - forest == FOREST.n_samples * 28 * 4
    one, ten, more = (growth_amount(replace(BOOSTING, n_rounds=n)).bytes for n in (1, 10, 19))
    assert one > BOOSTING.n_samples * 28 * 4
    assert one == ten == more


def test_rounds_are_launches_or_replays():
    """The first two rounds are launched; each replayed round costs a share of its launches."""
    binning = (
        growth_amount(BOOSTING).launches - growth_amount(replace(BOOSTING, value_bytes=1)).launches
    )
    of_round = cost.BOOSTING_LAUNCHES.of(BOOSTING.max_depth)
    two, three, many = (
        growth_amount(replace(BOOSTING, n_rounds=n)).launches - binning for n in (2, 3, 102)
    )
    assert two == 2 * of_round and many - two == pytest.approx(100 * (three - two))
    assert three - two == pytest.approx(cost.REPLAY_LAUNCHES + cost.KERNEL_LAUNCHES * of_round)
    for levels, limits in (
        (32, {"max_depth": 32}),
        (63, {"max_depth": NO_LIMIT, "max_leaf_nodes": 64}),
    ):
        deep = growth_amount(replace(BOOSTING, n_rounds=2, **limits)).launches
        assert deep - binning == 2 * cost.BOOSTING_LAUNCHES.of(levels)
    asked = replace(BOOSTING, ccp_alpha=0.1)
    few, more = (growth_amount(replace(asked, n_rounds=n)).launches for n in (10, 100))
    assert more - binning == pytest.approx(10 * (few - binning))
    assert growth_work(BOOSTING).cuda < growth_work(asked).cuda


ROUNDS: list[dict[str, Any]] = [
    *({"max_depth": depth} for depth in (6, 12, 20, 32, 33, None)),
    *({"max_depth": None, "max_leaf_nodes": leaves} for leaves in (31, 64, 65)),
    {"max_depth": 6, "max_leaf_nodes": 65},
    {"max_depth": 6, "ccp_alpha": 0.1},
    *({"max_depth": depth, "loss": "huber"} for depth in (6, 32, 33)),
    {"max_depth": 32, "loss": "absolute_error", "subsample": 0.5},
    {"max_depth": 32, "loss": "poisson", "min_samples_leaf": 1},
    {"max_depth": 12, "monotonic_cst": {"feature 0": 1}},
    {"max_depth": None, "max_leaf_nodes": 31, "interaction_cst": "pairwise"},
    {"max_depth": None, "monotonic_cst": {"feature 0": 1}},
    *({"max_depth": depth, "monotonic_cst": {"feature 0": 1}} for depth in (20, 32)),
    {"max_depth": 32, "interaction_cst": "pairwise"},
]


def booster_over_shapes(task: BoostTask) -> CudaBooster:
    """The booster of a task, over shape arrays and with enough memory."""
    shape, rows = DeviceShape(), task.matrix.n_samples
    sizes = shape.shared_memory, shape.n_multiprocessors
    runtime = ShapeRuntime(*sizes, lambda depth: task.trees_per_round * nodes_at(depth, rows))
    return CudaBooster(runtime, replace(task, memory_budget=BUDGET))


@pytest.mark.parametrize("limits", ROUNDS, ids=str)
def test_replayed_rounds_are_those_that_the_host_code_records(limits):
    """The cost model counts rounds as replayed exactly if the host code records them."""
    task = boost_task(GradientBoostingRegressor(random_state=0, **limits), TABLE)
    booster = booster_over_shapes(task)
    booster.rounds.draw.begin(0, 0.1)
    booster.launch(0)
    is_replayed = booster._grower.recorded is not None and booster.rounds.leaves is not None
    names = ("max_depth", "max_leaf_nodes", "ccp_alpha")
    growth = replace(BOOSTING, **{name: getattr(task.options, name) for name in names})
    assert growth.is_replayed is is_replayed


def works_of_fits(monkeypatch, *estimators):
    """The growth that each estimator estimates for the same small table."""
    X = np.random.default_rng(0).normal(size=(60, 7))
    seen = []

    def told(growth):
        seen.append(growth)
        return growth_work(growth)

    monkeypatch.setattr(template, "growth_work", told)
    for estimator in estimators:
        estimator.set_params(device="numpy").fit(X, X[:, 0] > 0)
    return seen


def test_growth_estimated_by_the_estimators(monkeypatch):
    boosting, deep, ada, forest = works_of_fits(
        monkeypatch,
        GradientBoostingClassifier(n_estimators=3, max_depth=4, max_features=0.5),
        GradientBoostingClassifier(n_estimators=3, max_depth=None, max_leaf_nodes=5),
        AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=3),
        RandomForestClassifier(3, max_depth=5),
    )
    table = {"n_samples": 60, "n_features": 7, "n_channels": 1, "value_bytes": 8}
    one = {**table, "n_trees": 1, "n_rounds": 3}
    assert boosting == GrowthSize(**one, n_candidate_features=3, max_depth=4)
    assert deep == GrowthSize(**one, n_candidate_features=7, max_depth=NO_LIMIT, max_leaf_nodes=5)
    assert ada == GrowthSize(**one, n_candidate_features=7, max_depth=2)
    assert forest == GrowthSize(**table, n_trees=3, n_candidate_features=2, max_depth=5)


@pytest.fixture
def launches(monkeypatch):
    """A list that receives the kernels that a dry run of a fit launches."""
    found = []
    kernel = ShapeRuntime.kernel

    def counting(self, *names):
        launch = kernel(self, *names)
        return lambda *args, **more: (found.append(names), launch(*args, **more))

    monkeypatch.setattr(ShapeRuntime, "kernel", counting)
    return found


@pytest.mark.parametrize("depth", [3, 12, 32])
@pytest.mark.parametrize(
    ("make", "n_trees", "said"),
    [
        (DecisionTreeClassifier, 1, cost.TREE_LAUNCHES),
        (partial(RandomForestClassifier, 100), 100, cost.FOREST_LAUNCHES),
    ],
)
def test_launches_of_a_batch_are_those_of_the_host_code(make, n_trees, said, depth, launches):
    task = grow_task(make(max_depth=depth, random_state=0), TABLE)
    dry_run(replace(task, memory_budget=BUDGET), n_trees, DeviceShape())
    assert said.of(depth) == pytest.approx(len(launches), rel=0.15)


@pytest.mark.parametrize("depth", [1, 6])
def test_launches_of_a_round_are_those_of_the_host_code(depth, launches):
    """The first round is also run dry, so each of its launches is logged twice."""
    runtime = ShapeRuntime(DeviceShape().shared_memory, 132, lambda depth: 2**depth)
    task = boost_task(GradientBoostingClassifier(max_depth=depth, random_state=0), TABLE)
    booster = booster_over_shapes(task)
    launches.clear()
    booster.rounds.draw.begin(0, 0.1)
    booster.launch(0)
    assert cost.BOOSTING_LAUNCHES.of(depth) == pytest.approx(len(launches) / 2, rel=0.15)

    trees = DecisionTreeClassifier(max_depth=depth)
    task = adaboost_reweight_task(AdaBoostClassifier(trees, random_state=0), TABLE)
    reweighter = CudaReweighter(runtime, replace(task, memory_budget=BUDGET))
    reweighter.launch(0)
    launches.clear()
    reweighter.launch(1)
    assert ADABOOST_LAUNCHES.of(depth) == pytest.approx(len(launches) / 2, rel=0.15)


# ---- which backend is chosen ------------------------------------------------------------------


@pytest.fixture
def chosen(monkeypatch):
    """A function that returns the backend chosen by "auto" if all backends have been started."""
    monkeypatch.setattr(choice, "why_no_cuda", lambda: "")
    monkeypatch.setattr(choice, "_why_no_numba", lambda: "")
    monkeypatch.setattr(choice, "_cuda_start_seconds", lambda: 0.0)
    monkeypatch.setattr(choice, "_numba_start_seconds", lambda program: 0.0)
    monkeypatch.setattr(choice, "numpy_backend", lambda: "numpy")
    monkeypatch.setattr(choice, "_numba_backend", lambda: "numba")
    monkeypatch.setattr(choice, "cuda_backend", lambda number: "cuda")
    monkeypatch.setattr(choice, "device_number", lambda device: 0)
    monkeypatch.setattr(choice, "_loaded_programs", set())
    monkeypatch.setattr(choice, "_spent", {})
    return lambda growth: choose_backend("auto", growth_work(growth))


@pytest.mark.parametrize("kind", KINDS)
def test_auto_chooses_a_gpu_only_for_many_rows(kind, chosen, monkeypatch, speed_file):
    growth = KINDS[kind]
    assert chosen(replace(growth, n_samples=150)) in ("numpy", "numba")
    assert chosen(replace(growth, n_samples=1_000_000)) == "cuda"
    assert chosen(replace(growth, n_samples=10_000_000)) == "cuda"
    # A small fit does not start a GPU that no fit has used.
    monkeypatch.setattr(choice, "_cuda_start_seconds", lambda: cost.CUDA_START_SECONDS)
    monkeypatch.setattr(choice, "_numba_start_seconds", lambda program: choice.LOAD_SECONDS)
    assert chosen(replace(growth, n_samples=150)) in ("numpy", "numba")
    assert chosen(replace(growth, n_samples=10_000)) in ("numpy", "numba")
    assert chosen(replace(growth, n_samples=10_000_000)) == "cuda"


def test_a_gpu_is_chosen_from_some_number_of_rows_on(chosen, speed_file):
    """For each kind of fit, one number of rows separates fits on the host from fits on a GPU."""
    sizes = [1000 * 2**k for k in range(14)]
    for growth in KINDS.values():
        on_gpu = [chosen(replace(growth, n_samples=n)) == "cuda" for n in sizes]
        assert on_gpu == sorted(on_gpu) and not on_gpu[0] and on_gpu[-1]


def test_a_slow_copy_or_slow_rounds_keep_work_on_the_host(chosen, speed_file):
    growth = replace(BOOSTING, n_samples=100_000)
    for slow in ({"cuda_launch": 0.1}, {"cuda_byte": 1e-6}, {"cuda_traffic": 1e-8}):
        cost.keep_speed(Speed(cuda_launch=1e-6), "a fast GPU")
        assert chosen(growth) == "cuda"
        cost.keep_speed(Speed(**{"cuda_launch": 1e-6, **slow}), "a slow GPU")
        assert chosen(growth) != "cuda"


# ---- prediction ---------------------------------------------------------------------------------


def test_rows_are_copied_with_all_their_features():
    X = np.random.default_rng(0).normal(size=(50, 9))
    ensemble = DecisionTreeClassifier(device="numpy").fit(X, X[:, 0] > 0)._model.ensemble
    few, many = (prediction_amount(1000, 8 * f, ensemble).bytes for f in (9, 100))
    assert many - few == 1000 * 8 * 91


def test_small_fits_do_not_look_for_a_gpu(monkeypatch):
    monkeypatch.setattr(choice, "_numba_start_seconds", lambda program: 0.0)
    monkeypatch.setattr(choice, "why_no_cuda", lambda: pytest.fail("CuPy was looked for"))
    work = growth_work(replace(FOREST, n_samples=50_000, max_depth=NO_LIMIT))
    assert work.cuda < work.numba  # starting CUDA costs more than it saves
    assert choose_backend("auto", work).name == "numba"
    assert (
        choose_backend("cpu", WorkTimes(GROW_ONE, numpy=1e6, numba=1e4, cuda=0.0)).name == "numba"
    )


def test_measured_speeds_are_kept(speed_file):
    usual = growth_work(FOREST)
    assert cost.measured_speed() == Speed()
    measured = Speed(numba_visit=1e-8, cuda_launch=1e-3)
    assert cost.keep_speed(measured, "this one") == speed_file
    assert cost.measured_speed() == measured
    work = growth_work(FOREST)
    assert work.numba > usual.numba and work.cuda > usual.cuda
    assert work.numpy == pytest.approx(25 * usual.numpy)  # slower by as much as Numba


WRONG_SPEEDS = {
    "": "Expecting value",
    "[]": "list indices",
    '{"format": 2}': "'seconds'",
    '{"seconds": [1]}': "values",
    '{"seconds": {"cuda_step": 1}}': "unexpected keyword argument 'cuda_step'",  # of older versions
    **{
        json.dumps({"seconds": {**asdict(Speed()), "cuda_byte": value}}): "are not numbers above 0"
        for value in (0.0, -1.0, float("nan"), float("inf"), "fast", True)
    },
}


@pytest.mark.parametrize("text", WRONG_SPEEDS)
def test_a_broken_file_of_speeds_warns_and_is_ignored(text, speed_file):
    speed_file.write_text(text)
    with pytest.warns(UserWarning, match=f"{speed_file.name} is ignored.*{WRONG_SPEEDS[text]}"):
        assert cost.measured_speed() == Speed()
    assert cost.measured_speed() == Speed()  # warns once


def test_a_binary_file_of_speeds_is_ignored(speed_file):
    speed_file.write_bytes(b"\xff\xfe\xff")
    with pytest.warns(UserWarning, match="is ignored"):
        assert cost.measured_speed() == Speed()


def test_the_cache_is_in_the_users_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("GPUBOOST_CACHE_DIR")
    monkeypatch.setattr(user_cache.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache.cache_folder() == tmp_path / "gpuboost"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert user_cache.cache_folder() == Path.home() / ".cache" / "gpuboost"
    monkeypatch.setattr(user_cache.sys, "platform", "darwin")
    assert user_cache.cache_folder() == Path.home() / "Library" / "Caches" / "gpuboost"
    monkeypatch.setattr(user_cache.sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert user_cache.cache_folder() == tmp_path / "gpuboost" / "Cache"


def test_calibration_measures_all_usable_backends(monkeypatch):
    assert measure([]) == Speed()
    speed = measure(["numpy", "numba"], cpu_rows=3000)
    assert speed.numba_visit != Speed().numba_visit
    assert replace(speed, numba_visit=Speed().numba_visit) == Speed()


@pytest.mark.parametrize("unit", ["traffic", "visits"])
def test_speeds_are_slopes(unit, monkeypatch):
    forest, seconds = calibration.forest, iter([1.0, 3.0])
    monkeypatch.setattr(calibration, "forest", lambda device, n_trees: forest("numpy", n_trees))
    monkeypatch.setattr(calibration, "fastest", lambda run: next(seconds))
    few, more = (
        getattr(calibration.growth_of(200, n_trees), unit)
        for n_trees in (calibration.FEW_TREES, calibration.MORE_TREES)
    )
    assert slope("cuda", 200, unit) == 2.0 / (more - few)


@pytest.mark.parametrize(("device", "rows"), [("numpy", 4000), ("numba", 20_000)])
def test_calibrated_estimates_are_about_right(device, rows, monkeypatch):
    """Constants calibrated on one forest estimate the seconds of another one."""
    monkeypatch.setattr(calibration, "REPEATS", 2)
    # On a busy machine, few trees may take as long as many, so take the minimum.
    assert calibration.SMALLEST_SECONDS <= slope(device, rows, "visits") < 1e-6
    assert seconds_of_a_launch(device) > 1e-6
    assert 1e-13 < seconds_of_a_byte(device, rows) < 1e-6
