"""The benchmark of boosting on a GPU: peers' settings and bounds on seconds; needs no GPU."""

from __future__ import annotations

import sys
import types
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.gpu import peers, text
from benchmarks.gpu.cases import CASES, FIT, SECONDS_ON
from benchmarks.peers.peers import OURS
from benchmarks.suite.settings import ADABOOST, BOOSTING, FOREST, POISSON, BoostingOptions, Setting
from benchmarks.suite.tables import CLASSIFICATION, LARGE_MAKERS, REGRESSION


def test_seconds_are_bounded_only_on_the_intended_gpu() -> None:
    (case,) = (c for c in CASES if any(name.startswith(SECONDS_ON) for name in c.bounds))
    record = {"case": case.name, "who": OURS, "scale": "full", "kind": FIT, "seconds": 3.5}
    record |= {"bounds": dict(case.bounds), "gpu": {"name": "NVIDIA H200"}}
    (sentence,) = text.missed_bounds([record])
    assert "3.50 s, 3.0 s allowed on NVIDIA H200" in sentence
    assert text.missed_bounds([{**record, "seconds": 2.9}]) == []
    assert text.missed_bounds([{**record, "gpu": {"name": "NVIDIA T4"}}]) == []


def test_peers_say_what_they_cannot_train() -> None:
    boosting, stumps = (Setting(family, CLASSIFICATION) for family in (BOOSTING, ADABOOST))
    assert peers.CumlOnGpu().refuses(boosting) == "has no boosting"
    assert "AdaBoost" in str(peers.XGBoostOnGpu().refuses(stumps))
    assert "boosting alone" in str(peers.PyBoostOnGpu().refuses(stumps))
    poisson = replace(boosting, task=REGRESSION, boosting=BoostingOptions(loss=POISSON))
    assert "no loss poisson" in str(peers.PyBoostOnGpu().refuses(poisson))


def test_xgboost_gets_the_number_of_rounds(monkeypatch: Any) -> None:
    asked: dict[str, Any] = {}
    made = types.SimpleNamespace(
        QuantileDMatrix=lambda X, y, max_bin: "matrix",
        train=lambda words, matrix, num_boost_round: asked.update(words, rounds=num_boost_round),
    )
    monkeypatch.setitem(sys.modules, "xgboost", made)
    data = peers.DeviceTable(None, None, np.zeros((4, 3), np.float32), np.zeros(4), CLASSIFICATION)
    peers.XGBoostOnGpu().fit(data, Setting(BOOSTING, CLASSIFICATION, 70, max_depth=9), 5)
    assert asked["rounds"] == 70 and asked["max_depth"] == 9 and asked["device"] == "cuda"
    assert asked["objective"] == "binary:logistic" and asked["learning_rate"] == 0.1
    assert "num_parallel_tree" not in asked
    peers.XGBoostOnGpu().fit(data, Setting(FOREST, CLASSIFICATION, 70), 5)
    assert asked["rounds"] == 1 and asked["num_parallel_tree"] == 70


def test_py_boost_gets_the_same_settings(monkeypatch: Any) -> None:
    asked: dict[str, Any] = {}

    class Model:
        def __init__(self, loss: str, **words: Any) -> None:
            asked.update(words, loss=loss)

        def fit(self, X: Any, y: Any) -> None:
            asked["rows"] = len(X)

        def predict(self, X: Any) -> Any:
            return X[:, :1]

    module = types.SimpleNamespace(GradientBoosting=Model)
    monkeypatch.setitem(sys.modules, "py_boost", module)
    data = peers.DeviceTable(None, None, np.eye(4, 3), np.zeros(4), CLASSIFICATION)
    peer = peers.PyBoostOnGpu()
    model = peer.fit(data, Setting(BOOSTING, CLASSIFICATION, 70, max_depth=9), 5)
    assert asked["loss"] == "bce" and asked["ntrees"] == 70 and asked["es"] == 0
    assert asked["max_depth"] == 9 and asked["lambda_l2"] == 1.0 and asked["rows"] == 4
    assert np.array_equal(peer.predict(model, np.eye(4, 3)), [1, 0, 0, 0])


def test_airline_like_columns_have_few_values() -> None:
    table = LARGE_MAKERS["airline"](5000, 13, 0)
    assert table.X.shape == (5000, 13) and table.X.dtype == np.float32
    levels = [len(np.unique(column)) for column in table.X.T]
    assert levels[0] == 12 and levels[2] == 7 and levels[12] == 2 and max(levels) > 1000
    assert 0.1 < table.y.mean() < 0.5
