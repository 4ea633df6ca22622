"""The benchmarks of boosting: settings of peers, rates, quality against several peers, stages."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.peers.boosting_peers import CATBOOST, HIST, Threaded, adaboost
from benchmarks.peers.peers import (
    FAST_BOOSTING,
    FASTEST_BOOSTING,
    LIGHTGBM,
    OURS,
    REFERENCE,
    XGBOOST,
    choose_peers,
)
from benchmarks.peers.recent_boosting import BONSAI, HESSBOOST, QUANTISED
from benchmarks.quality import boosting_quality, scores
from benchmarks.report import report
from benchmarks.report.results import read_results
from benchmarks.speed.machine import describe_machine
from benchmarks.speed.speed import SUITES
from benchmarks.stages import boosting_stages, stages
from benchmarks.suite import rates, tables
from benchmarks.suite.boosting_cases import BOOSTING_SPEED
from benchmarks.suite.settings import (
    ABSOLUTE_ERROR,
    ADABOOST,
    BOOSTING,
    POISSON,
    QUANTILE,
    BoostingOptions,
    Resources,
    Setting,
)
from benchmarks.suite.tables import CLASSIFICATION, REGRESSION, Table

RESOURCES = Resources(n_jobs=1, seed=3, n_features=8, n_rows=600)
WANTED = BoostingOptions(learning_rate=0.3, l2=2.5, min_samples_leaf=7, min_hessian=0.25)
SETTING = Setting(BOOSTING, CLASSIFICATION, 30, max_depth=5, boosting=WANTED)


def made(name: str, setting: Setting = SETTING):
    """The estimator of a peer; the test is skipped if the peer is not installed."""
    (peer,) = choose_peers((name,), "numpy")
    why = peer.refuses(setting)
    if why is not None and "not installed" in why:
        pytest.skip(why)  # such as "xgboost is not installed"
    assert why is None
    return peer.make(setting, RESOURCES)


def parameters_of(name: str, setting: Setting = SETTING):
    """The library's own estimator, of which the parameters are read."""
    model = made(name, setting)
    return model._model if isinstance(model, Threaded) else model


# ---- settings ----------------------------------------------------------------------------------

OF_XGBOOST = ("n_estimators", "max_depth", "learning_rate", "reg_lambda", None, "min_child_weight")
NAMES = {
    OURS: (
        "n_estimators",
        "max_depth",
        "learning_rate",
        "l2_regularization",
        "min_samples_leaf",
        "min_hessian_leaf",
    ),
    XGBOOST: OF_XGBOOST,
    HESSBOOST: OF_XGBOOST,
    LIGHTGBM: (
        "n_estimators",
        "max_depth",
        "learning_rate",
        "reg_lambda",
        "min_child_samples",
        "min_child_weight",
    ),
    HIST: ("max_iter", "max_depth", "learning_rate", "l2_regularization", "min_samples_leaf", None),
    REFERENCE: ("n_estimators", "max_depth", "learning_rate", None, "min_samples_leaf", None),
}


@pytest.mark.parametrize("name", NAMES)
def test_boosting_is_set_equally(name):
    given = parameters_of(name).get_params()
    wanted = (30, 5, WANTED.learning_rate, WANTED.l2, WANTED.min_samples_leaf, WANTED.min_hessian)
    for word, value in zip(NAMES[name], wanted, strict=True):
        assert word is None or given[word] == value
    assert given["random_state"] == 3
    bins = {"max_bins", "max_bin"} & set(given)
    assert {given[word] for word in bins} == ({255} if name != REFERENCE else set())


def test_bonsai_is_set_equally():
    given = parameters_of(BONSAI).get_params()
    assert (given["n_iters"], given["max_depth"], given["max_leaves"]) == (30, 5, 2**5)
    assert given["learning_rate"] == WANTED.learning_rate and given["max_bin"] == 255
    assert given["grower"] == "depthwise" and given["random_seed"] == 3
    wanted = {
        "tree.lambda_l2": WANTED.l2,
        "tree.min_data_in_leaf": WANTED.min_samples_leaf,
        "tree.min_child_hess": WANTED.min_hessian,
    }
    assert given["params"] == wanted


def test_lightgbm_quantises_its_gradients():
    quantised, plain = parameters_of(QUANTISED).get_params(), parameters_of(LIGHTGBM).get_params()
    assert quantised == plain | {"use_quantized_grad": True}


def test_trees_have_as_many_leaves_as_their_depth_allows():
    assert parameters_of(LIGHTGBM).num_leaves == 2**5
    hist = parameters_of(HIST)
    assert hist.max_leaf_nodes is None and hist.early_stopping is False
    model = parameters_of(OURS)
    assert model.max_leaf_nodes is None and model.n_iter_no_change is None


@pytest.mark.parametrize("loss", [ABSOLUTE_ERROR, QUANTILE, POISSON])
@pytest.mark.parametrize("name", [OURS, *FASTEST_BOOSTING])
def test_every_loss_means_the_same_to_all_peers(name, loss):
    options = BoostingOptions(loss=loss, quantile=0.8, learning_rate=0.3)
    setting = Setting(BOOSTING, REGRESSION, 40, max_depth=3, boosting=options)
    table = tables.continuous(1500, 8)
    y = np.random.default_rng(0).poisson(np.exp(0.5 * np.tanh(table.y)))
    y = y.astype(np.float64) if loss == POISSON else table.y
    predicted = made(name, setting).fit(table.X, y).predict(table.X)
    if loss == POISSON:  # rates, not logarithms
        assert predicted.mean() == pytest.approx(y.mean(), rel=0.03)
        return
    below = {ABSOLUTE_ERROR: 0.5, QUANTILE: 0.8}[loss]
    assert np.mean(y <= predicted) == pytest.approx(below, abs=0.06)
    other = Table("t", table.X, y, REGRESSION)
    assert scores.score_of(None, other, predicted, setting) > 0.15
    assert scores.metric_name(other, setting).startswith("D2")


def test_scores_of_losses_are_relative_to_a_constant():
    y = np.arange(101.0)
    table = Table("t", y[:, None].astype(np.float32), y, REGRESSION)
    setting = replace(SETTING, task=REGRESSION, boosting=BoostingOptions(QUANTILE, quantile=0.9))
    assert scores.score_of(None, table, np.full(101, 90.0), setting) == pytest.approx(0.0)
    assert scores.score_of(None, table, np.full(101, 50.0), setting) < -0.5
    assert scores.score_of(None, table, y, setting) == 1.0


def test_adaboost_has_the_same_trees_on_both_sides():
    setting, table = Setting(ADABOOST, CLASSIFICATION, 20, max_depth=1), tables.binary(250, 8)
    X = np.round(table.X, 1)  # fewer values than bins, so both have the same candidate splits
    ours = adaboost(setting, RESOURCES, OURS, "numpy").fit(X, table.y)
    theirs = adaboost(setting, RESOURCES, REFERENCE).fit(X, table.y)
    assert np.allclose(ours.estimator_errors_[0], theirs.estimator_errors_[0])
    assert ours.score(X, table.y) == pytest.approx(theirs.score(X, table.y), abs=0.03)


def test_threads_of_openmp_are_limited():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    seen = []

    class Model:
        def fit(self, X, y):
            pools = threadpoolctl.threadpool_info()
            seen.extend(p["num_threads"] for p in pools if p["user_api"] == "openmp")

    Threaded(Model(), 1).fit(None, None)
    assert seen and set(seen) == {1}


# ---- speed -------------------------------------------------------------------------------------


def test_suites_have_their_own_files(tmp_path, monkeypatch, capsys):
    assert SUITES["speed_boosting"] is BOOSTING_SPEED
    monkeypatch.setattr("benchmarks.report.results.FOLDER", tmp_path)
    words = ["speed", "--only", "500 x 10", "--rows", "300", "--scale", "small", "--repeat", "1"]
    assert main([*words, "--peers", f"{OURS},{HIST}", "--device", "numpy", "--n-jobs", "1"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["speed_boosting-small.json"]
    (record,) = read_results(tmp_path / "speed_boosting-small.json")["records"]
    assert record["ratios"][HIST] > 0 and record["estimator"] == "GradientBoostingClassifier"
    assert main(["table", str(tmp_path / "speed_boosting-small.json")]) == 0
    assert f"{HIST}: edges from" in capsys.readouterr().out


def test_the_table_has_the_bounds():
    found = {"seconds": 2.0, "score": 0.8}
    record = {
        "case": "c",
        "date": "2026-01-01",
        "metric": "AUC",
        "n_jobs": 2,
        "peers": {OURS: found, HIST: found, XGBOOST: {"left_out": "not installed"}},
        "ratios": {HIST: 1.0},
        "bounds": [
            {"peers": [HIST], "allowed": 0.7, "reached": 1.0, "fastest": HIST},
            {"peers": [HIST, XGBOOST], "allowed": 0.5},
        ],
    }
    content = {"benchmark": "speed", "machine": describe_machine(), "records": [record]}
    text = report.table_of(content)
    assert "| reached (allowed) |" in text and f"1.00 of {HIST} (0.7)" in text
    assert f"– (0.5 of {HIST}, {XGBOOST})" in text and "| XGBoost |" not in text


@pytest.mark.parametrize("name", [OURS, *FASTEST_BOOSTING, CATBOOST])
def test_every_peer_predicts_several_outputs(name):
    """Libraries with one output have a model for each, and say so."""
    setting = Setting(BOOSTING, REGRESSION, 40, max_depth=3, boosting=BoostingOptions(n_outputs=2))
    table = tables.several_outputs(2, 1500, 8)
    predicted = made(name, setting).fit(table.X, table.y).predict(table.X)
    assert predicted.shape == (1500, 2)
    assert scores.score_of(None, table, predicted, setting) > 0.4
    (peer,) = choose_peers((name,), "numpy")
    has_one = name not in (OURS, XGBOOST, HESSBOOST, CATBOOST)
    assert ("a model for each output" in (peer.remark(setting) or "")) == has_one


# ---- rates -------------------------------------------------------------------------------------


def counts(rows: int = 3000) -> Table:
    """Counts with exposures from 0.05 to 1; one column determines the rate."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((rows, 6), dtype=np.float32)
    exposure = rng.uniform(0.05, 1.0, rows)
    y = rng.poisson(exposure * np.exp(0.8 * X[:, 0] - 1.0)).astype(np.float64)
    return Table("counts", X, y, REGRESSION, None, exposure)


@pytest.mark.parametrize("name", [OURS, *FAST_BOOSTING])
def test_rates_are_per_unit_of_exposure(name):
    table = counts()
    train, test = tables.split(table, 0)
    options = BoostingOptions(loss=POISSON)
    setting = Setting(BOOSTING, REGRESSION, 50, max_depth=2, boosting=options)
    model = made(name, setting)
    found = rates.predicted_rates(name, model, train, test)
    assert (found * test.exposure).sum() == pytest.approx(test.y.sum(), rel=0.1)
    best = rates.explained_deviance(test, np.exp(0.8 * test.X[:, 0] - 1.0))
    assert best - 0.06 < rates.explained_deviance(test, found) < best + 0.02


def test_a_table_without_exposure_has_no_rates():
    with pytest.raises(ValueError, match="has no exposure"):
        rates.explained_deviance(tables.continuous(50, 6), np.ones(50))


def test_exposures_follow_their_rows(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {
            "IDpol": range(8),
            "ClaimNb": [0, 1, 0, 2, 0, 0, 1, 0],
            "Exposure": np.linspace(0.1, 0.8, 8),
            "age": np.arange(8.0),
        }
    )
    frame.to_parquet(tmp_path / "freMTPL2freq.parquet")
    (source,) = tables.available_sources(tmp_path, tables.RATE_SOURCES)
    table = tables.load(source, tmp_path)
    assert table.X.shape == (8, 1)
    part = table.take(np.array([3, 0]))
    assert part.exposure == pytest.approx([0.4, 0.1]) and part.y.tolist() == [2.0, 0.0]
    assert source.name not in [s.name for s in tables.available_sources(tmp_path)]


# ---- quality -----------------------------------------------------------------------------------


def test_categories_of_too_many_levels_are_codes():
    pd = pytest.importorskip("pandas")
    few, many = list("abc"), [f"c{k}" for k in range(9)]
    frame = pd.DataFrame(
        {
            "few": pd.Categorical(["a", None, "c"], few),
            "many": pd.Categorical([many[8], None, many[2]], many),
        }
    )
    found = tables.with_levels_up_to(frame, 3)
    assert isinstance(found["few"].dtype, pd.CategoricalDtype)
    assert found["many"].dtype == np.float32
    assert np.array_equal(found["many"], [8, np.nan, 2], equal_nan=True)
    assert isinstance(frame["many"].dtype, pd.CategoricalDtype)  # the input is not changed


def test_differences_are_paired_with_each_peer():
    found = boosting_quality.summary({OURS: [0.9, 0.7], "a": [0.8, 0.6], "b": [0.9]}, {"b": "x"})
    assert set(found["scores"]) == {OURS, "a"}
    assert found["differences"]["a"]["difference"] == pytest.approx(0.1)
    assert found["differences"]["a"]["standard_error"] == pytest.approx(0.0)


def test_every_peer_that_is_too_far_above_is_named():
    def against(difference):
        return {"difference": difference, "standard_error": 0.001}

    metrics = {"AUC": {"differences": {"a": against(-0.0041), "b": against(-0.004)}}}
    (sentence,) = boosting_quality.missed_bounds(metrics, {})
    assert "AUC 0.0041 below a" in sentence
    metrics = {"R2": {"differences": {"a": against(-0.0061), "b": against(0.1)}}}
    missed = boosting_quality.missed_bounds(metrics, {"c": "not installed"})
    assert len(missed) == 2 and "not compared with c: not installed" in missed


def test_quality_of_boosting_end_to_end(tmp_path, capsys):
    path = tmp_path / "q.json"
    words = ["quality-boosting", "--only", "wine", "--seeds", "1", "--rounds", "5", "--depth", "2"]
    words += ["--device", "numpy", "--peers", HIST, "--n-jobs", "1", "--name", str(path)]
    assert main(words) in (0, 1)
    (record,) = read_results(path)["records"]
    assert record["seeds"] == 6 and set(record["metrics"]) == {"accuracy", "mean recall"}
    assert record["metrics"]["accuracy"]["scores"][OURS] > 0.8
    assert set(record["metrics"]["accuracy"]["differences"]) == {HIST}
    assert not record["left_out"]
    text = report.table_of(read_results(path))
    assert "| wine | 134 x 13 | accuracy |" in text and "after 5 rounds" in text
    capsys.readouterr()
    assert main(words) in (0, 1)  # continued
    assert "wine" in capsys.readouterr().out


def test_a_peer_that_fails_is_left_out_of_a_table(monkeypatch):
    original = boosting_quality.fitted_scores

    def fail(peer, setting, resources, both):
        if peer.name == HIST and resources.seed == 1:
            raise RuntimeError("too many classes")
        return original(peer, setting, resources, both)

    monkeypatch.setattr(boosting_quality, "fitted_scores", fail)
    comparison = boosting_quality.Comparison("small", (HIST,), 2, 1, 3, 2, 200, "numpy")
    table = tables.rare_classes(300, 6)
    monkeypatch.setattr(boosting_quality, "more_seeds", lambda rows: 1)
    record = boosting_quality.compare(comparison, table)
    assert "too many classes" in record["left_out"][HIST]
    assert record["metrics"]["accuracy"]["differences"] == {}
    assert record["missed"][0].startswith(f"not compared with {HIST}")


def test_each_split_of_a_synthetic_table_has_its_own_table():
    def comparison(name):
        return boosting_quality.Comparison(name, (HIST,), 2, 1, 3, 2, 50, "numpy")

    table = tables.continuous(100, 20, 0)
    found = [boosting_quality.drawn(comparison("continuous"), table, seed) for seed in (0, 1)]
    assert np.array_equal(found[0].X, table.X)
    assert len(found[1].X) == 100 and not np.isin(found[1].X, table.X).any()
    assert boosting_quality.drawn(comparison("wine"), table, 1) is table


def test_tables_of_fewer_rounds_say_so():
    metrics = {"R2": {"scores": {OURS: 0.5}, "differences": {}}}
    record = {"train_rows": 10, "features": 2, "seeds": 4, "metrics": metrics}
    records = [
        {**record, "table": "a", "rounds": 20, "categories": True},
        {**record, "table": "b", "rounds": 100, "categories": False},
    ]
    text = report._boosting_quality_table({"records": records})
    assert "| a (native categories, 20 rounds) |" in text
    assert "| b |" in text and "after 100 rounds" in text


def test_quality_uses_categories_and_offsets():
    pd = pytest.importorskip("pandas")
    table = counts(800)
    frame = pd.DataFrame(table.X, columns=[f"x{k}" for k in range(6)])
    codes = (table.X[:, 0] > 0).astype(int)
    frame["x0"] = pd.Categorical.from_codes(codes, ["low", "high"])
    table = replace(table, frame=frame)
    comparison = boosting_quality.Comparison("counts", (HIST,), 1, 1, 10, 2, 500, "numpy")
    record = boosting_quality.compare(comparison, table)
    assert record["loss"] == POISSON and record["categories"]
    assert not record["left_out"]
    assert record["metrics"][boosting_quality.DEVIANCE]["scores"][OURS] > 0.0


# ---- stages ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "only",
    [
        "(numpy or edges) and not predict",  # none of which compiles code
        pytest.param("numba or predict", marks=pytest.mark.slow),
    ],
)
def test_stages_run(only):
    words = [sys.executable, "-m", "pytest", "benchmarks/stages/test_stages.py", "-q", "-k", only]
    words += ["--benchmark-disable", "-p", "no:cacheprovider"]
    environment = {**stages.os.environ, stages.ROWS_VARIABLE: "1500"}
    done = subprocess.run(
        words, capture_output=True, text=True, cwd=stages._CHECKOUT, env=environment, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]


def test_a_round_is_timed_step_by_step():
    found = boosting_stages.measure_steps(800, 2)
    assert len(found) % len(boosting_stages.STEPS) == 0
    for name in {record["backend"] for record in found.values()}:
        whole, grow = (found[f"boosting_{step}[{name}]"] for step in ("boost", "grow"))
        assert 0 < grow["fastest"] < whole["seconds"] and whole["rounds"] == 2


def test_missing_steps_are_reported(monkeypatch):
    monkeypatch.setattr(boosting_stages.TimedSteps, "run", lambda self, rounds: [0.0])
    with pytest.raises(RuntimeError, match="took no step gradients"):
        boosting_stages.measure_steps(300, 1)


def test_stages_command_keeps_all(tmp_path, monkeypatch):
    info = {"stage": "split", "backend": "numpy", "size": "10 x 2"}
    entry = {"name": "s", "extra_info": info, "stats": {"median": 0.002, "min": 0.001, "rounds": 7}}
    monkeypatch.setattr(stages, "run_tests", lambda rows, only: (0, [entry]))
    path = tmp_path / "stages.json"
    assert main(["stages", "--rows", "400", "--rounds", "1", "--name", str(path)]) == 0
    text = report.table_of(read_results(path))
    assert "| split | numpy |" in text and "| boosting: gradients and hessians | numpy |" in text
    monkeypatch.setattr(stages, "run_tests", lambda rows, only: (5, []))
    assert main(["stages", "--name", str(tmp_path / "other.json")]) == 5
