"""Parts of the benchmarks: tables and their splits, peers and their settings."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.peers.peers import (
    INTELEX,
    OTHERS,
    REFERENCE,
    LightGBM,
    ScikitLearn,
    XGBoost,
    choose_peers,
)
from benchmarks.quality import scores
from benchmarks.suite import tables
from benchmarks.suite.cases import Bound
from benchmarks.suite.settings import (
    ADABOOST,
    BOOSTING,
    EXTRA_TREES,
    FOREST,
    TREE,
    Resources,
    Setting,
)
from benchmarks.suite.tables import CLASSIFICATION, REGRESSION, Table

# ---- tables ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", tables.MAKERS)
def test_makers_are_reproducible_and_learnable(name):
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    table = tables.MAKERS[name](3000, 8, 1)
    again = tables.MAKERS[name](3000, 8, 1)
    assert table.X.dtype == np.float32 and table.X.shape == (3000, 8)
    assert np.array_equal(table.X, again.X) and np.array_equal(table.y, again.y)
    assert not np.array_equal(table.X, tables.MAKERS[name](3000, 8, 2).X)
    classes = table.task == CLASSIFICATION
    model = (ExtraTreesClassifier if classes else ExtraTreesRegressor)(20, random_state=0)
    train, test = tables.split(table, 0)
    score = model.fit(train.X, train.y).score(test.X, test.y)
    floor = np.bincount(test.y).max() / len(test.y) + 0.03 if classes else 0.1
    assert score > floor


def test_makers_need_the_columns_of_the_signal():
    with pytest.raises(ValueError, match="at least 6 features, got 5"):
        tables.binary(100, 5)


def test_rare_classes_are_rare_and_present():
    counts = np.bincount(tables.rare_classes(20_000, 8).y)
    assert len(counts) == 10 and 0 < counts.min() < 60
    assert (np.diff(counts[:9]) < 0).all()


@pytest.mark.parametrize("name", tables.BUNDLED)
def test_bundled_tables(name):
    table = tables.bundled(name)
    assert table.task == tables.BUNDLED[name]
    assert table.y.dtype == (np.int64 if table.task == CLASSIFICATION else np.float64)
    assert (table.n_classes > 1) == (table.task == CLASSIFICATION)


def test_split_is_random_disjoint_and_keeps_class_shares():
    table = tables.rare_classes(8000, 6)
    marked = Table("m", np.arange(8000, dtype=np.float32)[:, None], table.y, CLASSIFICATION)
    train, test = tables.split(marked, 0)
    rows = np.concatenate([train.X[:, 0], test.X[:, 0]])
    assert np.array_equal(np.sort(rows), np.arange(8000))
    shares = np.bincount(train.y) / 6000 - np.bincount(test.y) / 2000
    assert np.abs(shares).max() < 0.001
    assert not np.array_equal(tables.split(marked, 1)[1].X, test.X)
    few, few_test = tables.split(marked, 0, max_train=100)
    assert len(few.y) == 100 and len(few_test.y) == 50
    assert not set(few.X[:, 0]) & set(few_test.X[:, 0])


def test_encode_one_hot_ordinal_and_missing():
    pd = pytest.importorskip("pandas")
    many = [f"c{k}" for k in range(tables.ONE_HOT_LEVELS + 1)]
    frame = pd.DataFrame(
        {
            "few": pd.Categorical(["b", None, "a"], ["a", "b"]),
            "many": pd.Categorical([many[3], None, many[0]], many),
            "x": np.array([1.5, np.nan, -2.0], np.float32),
        }
    )
    expected = [[0, 1, 3, 1.5], [0, 0, np.nan, np.nan], [1, 0, 0, -2.0]]
    assert np.array_equal(tables.encode(frame), np.float32(expected), equal_nan=True)


def test_load_drops_transforms_and_limits(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {
            "alive": ["yes", "no"] * 4,
            "fare": pd.array([1, None, 3, 4, 5, 6, 7, 8], "Int8"),
            "sex": pd.Categorical(["f", "m"] * 4),
            "split": ["train"] * 8,
            "survived": [1, 0, 1, 0, 1, 0, 1, 0],
        }
    )
    frame.to_parquet(tmp_path / "titanic.parquet")
    (found,) = tables.available_sources(tmp_path)
    table = tables.load(found, tmp_path)
    assert list(table.frame.columns) == ["fare", "sex"]
    assert table.X.shape == (8, 3) and np.isnan(table.X[1, 0])
    assert table.y.tolist() == [1, 0] * 4
    assert len(tables.load(found, tmp_path, max_rows=5).y) == 5
    assert tables.available_sources(None) == []


@pytest.mark.parametrize("source", tables.SOURCES, ids=lambda s: s.name)
def test_sources_drop_columns_that_leak_the_target(source):
    assert source.target not in source.drop
    twins = [s for s in tables.SOURCES if s.file == source.file and s.name != source.name]
    for twin in twins:
        assert twin.target == source.target or twin.target in source.drop


# ---- peers -------------------------------------------------------------------------------------


def test_equal_settings_are_translated():
    setting = Setting(FOREST, CLASSIFICATION, 30, max_depth=5)
    resources = Resources(n_jobs=2, seed=3, n_features=25, n_rows=1000)
    reference = ScikitLearn().make(setting, resources).get_params()
    assert reference["n_estimators"] == 30 and reference["max_depth"] == 5
    assert reference["n_jobs"] == 2 and reference["random_state"] == 3
    assert setting.share_of_features(25) == 0.2
    assert Setting(FOREST, REGRESSION).share_of_features(25) == 1.0
    assert Setting(TREE, CLASSIFICATION).share_of_features(25) == 1.0
    assert Setting(FOREST, REGRESSION, max_features=0.3).share_of_features(25) == 0.3


@pytest.mark.parametrize("peer", OTHERS, ids=lambda p: p.name)
@pytest.mark.parametrize("family", [FOREST, EXTRA_TREES, TREE, BOOSTING, ADABOOST])
@pytest.mark.parametrize("task", [CLASSIFICATION, REGRESSION])
def test_every_peer_trains_or_says_why_not(peer, family, task):
    setting = Setting(family, task, 5, max_depth=4 if family in (BOOSTING, ADABOOST) else None)
    refusal = peer.refuses(setting)
    if refusal:
        assert "not installed" in refusal or "has no" in refusal or "has boosting" in refusal
        return
    table = (tables.binary if task == CLASSIFICATION else tables.continuous)(600, 8)
    model = peer.make(setting, Resources(2, 0, 8, 600)).fit(table.X, table.y)
    outcome = scores.predict_for(model, table, table.X)
    assert scores.score_of(model, table, outcome) > (0.1 if family in (BOOSTING, ADABOOST) else 0.5)


def test_peer_remarks_name_the_differences():
    assert "63.2%" in XGBoost().remark(Setting(FOREST, CLASSIFICATION))
    assert "99.9%" in LightGBM().remark(Setting(EXTRA_TREES, CLASSIFICATION))
    assert ScikitLearn().remark(Setting(FOREST, CLASSIFICATION)) is None


def test_scikit_learn_is_not_patched_by_intelex():
    pytest.importorskip("sklearnex")
    peer = choose_peers((INTELEX,), "auto")[0]
    peer.make(Setting(FOREST, CLASSIFICATION, 2), Resources())
    made = ScikitLearn().make(Setting(FOREST, CLASSIFICATION, 2), Resources())
    assert type(made).__module__.startswith("sklearn.ensemble")


def test_unknown_peer():
    with pytest.raises(ValueError, match="no peer is called 'sprinter'; there are gpuboost"):
        choose_peers(("sprinter",), "auto")


# ---- bounds ------------------------------------------------------------------------------------


def test_bounds_of_one_peer():
    bound = Bound(0.1, (REFERENCE,))
    found = bound.verdict({REFERENCE: 0.1, INTELEX: 0.5})
    assert found == {
        "peers": [REFERENCE],
        "allowed": 0.1,
        "reached": 0.1,
        "fastest": REFERENCE,
    }
    sentence = bound.verdict({REFERENCE: 0.101})["missed"]
    assert sentence == "0.101 of scikit-learn's time, 0.1 allowed"
    assert "not compared with scikit-learn" in bound.verdict({})["missed"]
    assert "missed" not in Bound(0.1, (REFERENCE,), is_required=False).verdict({})


def test_bounds_of_the_fastest():
    bound = Bound(0.7, ("a", "b", "c"))
    found = bound.verdict({"a": 0.2, "b": 0.7, "c": 0.5, "d": 9.0})
    assert found["reached"] == 0.7 and found["fastest"] == "b" and "missed" not in found
    sentence = bound.verdict({"a": 0.2, "b": 0.5, "c": 0.8})["missed"]
    assert sentence == "0.800 of c's time, the fastest of a, b and c, 0.7 allowed"
    sentence = bound.verdict({"a": 0.2})["missed"]  # b or c might be the fastest
    assert "not compared with b and c" in sentence
