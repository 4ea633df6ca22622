"""The benchmarks: cases, alternating runs, verdicts, commands."""

from __future__ import annotations

import logging
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.peers.peers import OURS, PEER_NAMES, REFERENCE, GpuBoost
from benchmarks.quality import quality, scores
from benchmarks.report.results import read_results
from benchmarks.speed import choice, first_use, imports, memory, probe, timing
from benchmarks.suite import tables
from benchmarks.suite.boosting_cases import BOOSTING_SPEED
from benchmarks.suite.cases import MEMORY, SPEED, choose_cases
from benchmarks.suite.settings import TREE, Resources, Setting
from benchmarks.suite.tables import CLASSIFICATION, REGRESSION, Table

# ---- cases -------------------------------------------------------------------------------------


def test_case_names_are_unique_and_bounds_have_their_peer():
    names = [case.name for case in SPEED + BOOSTING_SPEED + MEMORY]
    assert len(set(names)) == len(names)
    for case in SPEED + BOOSTING_SPEED:
        held_to = {peer for bound in case.bounds for peer in bound.peers}
        assert held_to and held_to <= set(case.peers) <= set(PEER_NAMES)


def test_other_sizes_have_no_bounds():
    case = SPEED[0]
    assert case.sized("full", None) is case
    small = case.sized("small", None)
    assert (small.rows, small.setting.n_estimators, small.bounds) == (10_000, 20, ())
    assert case.sized("full", 500).rows == 500
    tree = next(c for c in SPEED if c.setting.family == TREE).sized("small", None)
    assert tree.setting.n_estimators == 1


def test_unknown_case_and_missing_folder():
    with pytest.raises(ValueError, match="no case contains 'boosting'"):
        choose_cases(SPEED, "boosting")
    n_other = sum("AdaBoost" in case.name for case in BOOSTING_SPEED)
    found = choose_cases(SPEED + BOOSTING_SPEED, "boosting")
    assert len(found) == len(BOOSTING_SPEED) - n_other
    (case,) = choose_cases(SPEED, "covertype")
    with pytest.raises(LookupError, match="needs --data"):
        case.tables(None, 0)


# ---- timing ------------------------------------------------------------------------------------


class FakeModel:
    """A model that learns nothing and logs its calls."""

    def __init__(self, log, name):
        self.log, self.name, self.classes_ = log, name, np.arange(2)

    def fit(self, X, y):
        self.log.append(f"fit {self.name}")
        return self

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])


class FakePeer:
    def __init__(self, log, name, refusal=None):
        self.log, self.name, self.refusal = log, name, refusal
        self.warms_up_whole = False

    def refuses(self, setting):
        return self.refusal

    def remark(self, setting):
        return None

    def make(self, setting, resources):
        return FakeModel(self.log, self.name)


def fake_tables():
    X = np.linspace(0, 1, 40, dtype=np.float32)[:, None]
    table = Table("fake", X, (X[:, 0] > 0.5).astype(np.int64), CLASSIFICATION)
    return table, table


@pytest.fixture
def all_turns(monkeypatch):
    """No peer is given up, though the microseconds of a fake one vary by any factor."""
    monkeypatch.setattr(timing, "HOPELESS", float("inf"))


@pytest.mark.usefixtures("all_turns")
def test_peers_take_turns_after_a_warm_up():
    log, case = [], SPEED[0].sized("full", 40)
    peers = [FakePeer(log, OURS), FakePeer(log, "b"), FakePeer(log, "c", "not here")]
    record = timing.measure_case(case, peers, fake_tables(), timing.Plan(repeat=2), log.append)
    fits = [entry.split()[1] for entry in log if entry.startswith("fit ")]
    two, one = [OURS, "b"], "b"  # warm-up, then one thread also has its turns
    assert fits == [*two, one, *two, one, *two, one]
    assert record["peers"]["c"] == {"left_out": "not here"}
    assert len(record["peers"]["b"]["runs"]) == 2
    assert record["peers"][OURS]["score"] == 1.0 and record["metric"] == "AUC"
    assert set(record["ratios"]) == {"b"}


@pytest.mark.usefixtures("all_turns")
def test_a_peer_beyond_its_budget_is_left_out_or_not_repeated():
    log, case = [], SPEED[0].sized("full", 40)
    peers = [FakePeer(log, "slow")]
    record = timing.measure_case(
        case, peers, fake_tables(), timing.Plan(budget=0.0), lambda text: None
    )
    assert "budget" in record["peers"]["slow"]["left_out"]
    peers[0].warms_up_whole = True  # its warm-up gives no estimate: one run, and none after it
    record = timing.measure_case(
        case, peers, fake_tables(), timing.Plan(budget=0.0), lambda text: None
    )
    assert len(record["peers"]["slow"]["runs"]) == 1


@pytest.mark.usefixtures("all_turns")
def test_prediction_cases_fit_once():
    log = []
    (case,) = choose_cases(SPEED, "prediction")
    record = timing.measure_case(
        case, [FakePeer(log, "a")], fake_tables(), timing.Plan(repeat=3), lambda text: None
    )
    assert log == ["fit a"] * 4  # the warm-up and the timed model, with two threads and with one
    assert record["timed"] == "prediction" and len(record["peers"]["a"]["runs"]) == 3


def test_fallbacks_of_intelex_are_noted_and_its_logger_left_as_it_was():
    logger = logging.getLogger("sklearnex")
    before = logger.handlers, logger.level, logger.propagate
    runs = timing.Runs(FakePeer([], "a"), 2)
    with timing.fallbacks_noted(runs):
        logger.info("fit: running accelerated version on CPU")
    assert runs.remarks == []
    with timing.fallbacks_noted(runs):
        logger.info("fit: fallback to original Scikit-learn")
    assert runs.remarks == ["falls back to scikit-learn"]
    assert (logger.handlers, logger.level, logger.propagate) == before
    assert not logger.isEnabledFor(logging.INFO)


def test_one_thread_counts_if_it_is_faster_and_is_given_up_if_it_is_slow(monkeypatch):
    seconds = {("fast", 2): 3.0, ("fast", 1): 2.0, ("slow", 2): 1.0, ("slow", 1): 2.0}
    runs_of = []

    def run_once(runs, *_):
        key = runs.peer.name, runs.n_jobs
        runs_of.append(key)
        runs.fit_seconds.append(seconds[key])
        runs.predict_seconds.append(0.0)
        runs.score = 0.5

    monkeypatch.setattr(timing, "_run_once", run_once)
    peers = [FakePeer([], "fast"), FakePeer([], "slow")]
    case = SPEED[0].sized("full", 40)
    record = timing.measure_case(case, peers, fake_tables(), timing.Plan(repeat=3), lambda t: None)
    found = record["peers"]
    assert (found["fast"]["seconds"], found["fast"]["n_jobs"]) == (2.0, 1)
    assert (found["slow"]["seconds"], found["slow"]["n_jobs"]) == (1.0, 2)
    assert runs_of.count(("fast", 1)) == 3 and runs_of.count(("slow", 1)) == 1


@pytest.mark.usefixtures("all_turns")
def test_cheap_cases_are_repeated_more_often():
    log, case = [], replace(SPEED[0], rows=40, min_repeat=4)
    record = timing.measure_case(
        case, [FakePeer(log, "a")], fake_tables(), timing.Plan(repeat=2), lambda text: None
    )
    assert len(record["peers"]["a"]["runs"]) == 4
    assert case.sized("small", None).min_repeat == 1


def test_the_fixed_cost_of_a_fit_is_not_counted_per_tree(monkeypatch):
    log, case = [], SPEED[0].sized("full", 40)
    times = {2: 10.0, 4: 10.2}  # 0.1 s per tree: 100 trees take 20 s
    monkeypatch.setattr(timing, "_few_trees", lambda *given: times[given[-1]])
    for budget, is_left_out in ((25.0, False), (15.0, True)):
        plan = timing.Plan(repeat=1, budget=budget)
        record = timing.measure_case(case, [FakePeer(log, "a")], fake_tables(), plan, log.append)
        why = record["peers"]["a"].get("left_out", "")
        assert ("would take about 20 s" in why) == is_left_out


def test_scores_by_task():
    y = np.array([0, 1, 2])
    table = Table("t", np.zeros((3, 1), np.float32), y, CLASSIFICATION)
    model = FakeModel([], "m")
    model.classes_ = np.array([0, 2, 1])
    assert scores.score_of(model, table, np.eye(3)) == pytest.approx(1 / 3)
    values = Table("t", table.X, np.array([1.0, 2.0, 4.0]), REGRESSION)
    assert scores.score_of(model, values, values.y) == 1.0


# ---- quality -----------------------------------------------------------------------------------


def test_quality_bounds_are_for_ensembles():
    found = {"AUC": {"difference": -0.006, "standard_error": 0.001}}
    assert quality.missed_bounds("DecisionTree", found) == []
    (sentence,) = quality.missed_bounds("RandomForest", found)
    assert "AUC 0.0060 below" in sentence
    assert quality.missed_bounds("Bagging", {"R2": {"difference": -0.008}}) == []
    assert quality.missed_bounds("Bagging", {"mean recall": {"difference": -1.0}}) == []


def test_quality_differences_are_paired():
    both = quality.Scores(ours={"AUC": [0.9, 0.8]}, theirs={"AUC": [0.8, 0.7]})
    found = both.summary("AUC")
    assert found["difference"] == pytest.approx(0.1)
    assert found["standard_error"] == pytest.approx(0.0)
    assert "native_categories" not in found


# ---- memory and import -------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("resettable", [True, False])
def test_peak_memory_includes_freed_memory(resettable, monkeypatch):
    if not resettable:
        monkeypatch.setattr(probe, "_reset_high_water_mark", lambda: False)
    before = probe.resident_bytes()
    with probe.peak_memory() as peak:
        block = np.ones(64 * 2**20, np.uint8)
        for _ in range(20):
            block += 1
        del block
    assert peak[0] - before > 50 * 2**20


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.slow
def test_probe_measures_in_a_separate_process():
    request = {"case": MEMORY[0].name, "rows": 20_000, "device": "auto", "n_jobs": 1, "seed": 0}
    found = memory.ask_probe({**request, "peer": REFERENCE}, timeout=120)
    assert found["input_bytes"] == 20_000 * (28 * 4 + 8)
    assert found["peak_bytes"] > found["input_bytes"] + found["model_bytes"] / 2
    failed = memory.ask_probe({**request, "peer": "nobody"}, timeout=120)
    assert "no peer is called 'nobody'" in failed["left_out"]
    late = memory.ask_probe({**request, "peer": REFERENCE}, timeout=0.01)
    assert "took more than" in late["left_out"]


def test_import_verdicts():
    good = {"ratio": 1.2, "loaded_optional": [], "first_fit_seconds": 1.0}
    assert imports.missed_bounds(good) == []
    bad = {"ratio": 1.31, "loaded_optional": ["numba"], "first_fit_seconds": 30.0}
    assert len(imports.missed_bounds(bad)) == 3


def test_first_use_is_measured_from_an_empty_cache(monkeypatch):
    case = first_use.FirstUse("RandomForestClassifier", 2000, 10.0, True)
    folders, run = [], subprocess.run

    def noted(*args, **given):
        folders.append((given["env"]["NUMBA_CACHE_DIR"], given["env"]["GPUBOOST_CACHE_DIR"]))
        assert len(folders) > 1 or not list(Path(folders[0][0]).iterdir())
        return run(*args, **given)

    monkeypatch.setattr(first_use.subprocess, "run", noted)
    found = first_use.measure(case, "numpy", 1)
    assert len(set(folders)) == 1 and len(set(folders[0])) == 1
    assert found["first_device"] == found["warm_device"] == "numpy"
    assert found["compile_cpu_seconds"] == 0 and first_use.missed_bounds(case, found) == []
    slow = {"first_seconds": 15.0, "warm_seconds": 1.0, "compile_cpu_seconds": 8.5}
    assert first_use.missed_bounds(case, slow) == [
        "14.0 s more than a warm fit, 10 allowed",
        "8.5 CPU s of compiling, 8 allowed",
    ]
    assert len(first_use.missed_bounds(first_use.FIRST_USES[0], slow)) == 2


def test_a_choice_is_compared_to_the_better_backend(tmp_path, monkeypatch):
    assert len({case.name for case in choice.GRID}) == len(choice.GRID) > 60
    case = choice.Choice("DecisionTreeClassifier", 100, 4, 3, {"max_depth": 2}, 2, False)
    seconds, used = choice._fits(case, "numpy", str(tmp_path), 60.0)
    assert seconds > 0 and used == "numpy"
    times = {"numba": [4.0, 5.0, 4.5], "numpy": [None], "auto": [6.0, 5.0, 5.5]}

    def fits(case, device, *_):
        taken = times[device].pop(0)
        return None if taken is None else (taken, "numba")

    monkeypatch.setattr(choice, "_fits", fits)
    found = choice.measure(case, "")  # above the limit, so all three runs are made
    expected = {"seconds": {"numba": 4.0, "auto": 5.0}, "runs": 3, "used": "numba", "ratio": 1.25}
    assert found == expected
    times.update(numba=[4.0], auto=[4.1], numpy=[9.0])
    assert choice.measure(case, "")["runs"] == 1


def test_import_loads_nothing_optional():
    assert imports.optional_modules_loaded() == []


# ---- the commands ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", ["speed", "quality", "quality-boosting", "memory", "import", "stages", "table"]
)
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0 and "--" in capsys.readouterr().out


def test_speed_command_end_to_end_and_continued(tmp_path, capsys):
    path = tmp_path / "s.json"
    words = [
        "speed",
        "--only",
        "Classifier 10k x 20, 100 trees to",
        "--rows",
        "300",
        "--repeat",
        "1",
    ]
    words += ["--peers", f"{OURS},{REFERENCE}", "--device", "numpy", "--name", str(path)]
    assert main(words) == 0
    (first, second) = read_results(path)["records"]
    assert first["peers"][OURS]["device"] == "numpy" and first["rows"] == 300
    assert first["ratios"][REFERENCE] > 0 and second["asked_device"] == "numpy"
    capsys.readouterr()
    assert main(words) == 0
    assert "warm-up" not in capsys.readouterr().out


def test_quality_command_end_to_end(tmp_path):
    path = tmp_path / "q.json"
    words = ["quality", "--only", "iris", "--seeds", "2", "--trees", "5", "--device", "numpy"]
    assert main([*words, "--name", str(path)]) in (0, 1)
    records = read_results(path)["records"]
    assert [r["estimator"] for r in records] == [*quality.ENSEMBLES, *quality.SINGLE]
    for record in records:
        assert record["metrics"]["accuracy"]["ours"] > 0.8


def test_quality_compares_native_categories():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 6, 400)
    frame = pd.DataFrame({"c": pd.Categorical.from_codes(codes, list("abcdef")), "x": codes % 2})
    table = Table("cats", tables.encode(frame), (codes > 2).astype(np.int64), CLASSIFICATION, frame)
    comparison = quality.Comparison("RandomForest", "cats", 2, 1, 5, 200, "numpy")
    record = quality.compare(comparison, table)
    assert record["metrics"]["AUC"]["native_categories"] == 1.0
    assert record["train_rows"] == 200


def test_errors_are_one_line(capsys, tmp_path):
    name = str(tmp_path / "speed.json")
    assert main(["speed", "--only", "nothing like this", "--name", name]) == 2
    assert capsys.readouterr().err.startswith("error: no case contains")


def test_gpuboost_peer_uses_the_device():
    model = GpuBoost("numpy").make(Setting(TREE, REGRESSION, 1, max_depth=2), Resources())
    assert model.device == "numpy" and model.max_depth == 2
