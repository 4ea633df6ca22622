"""The benchmark of predictions of few rows: its records, bounds, table and command."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.peers.peers import OURS, REFERENCE
from benchmarks.report.report import table_of
from benchmarks.speed import service
from benchmarks.speed.service import BOOSTER, PREDICTOR, SERVICES, Service
from benchmarks.suite.cases import Bound
from benchmarks.suite.settings import FOREST, Setting
from benchmarks.suite.tables import CLASSIFICATION

SMALL = Service(
    "a small forest",
    Setting(FOREST, CLASSIFICATION, n_estimators=3, max_depth=2),
    (OURS, REFERENCE),
    dict.fromkeys(service.ROWS, Bound(1e-9, (REFERENCE,))),
)


@pytest.fixture
def few_turns(monkeypatch):
    monkeypatch.setattr(service, "TURNS", 2)
    monkeypatch.setattr(service, "BATCH_SECONDS", 1e-4)


def test_cases_have_bounds_for_all_rows():
    assert len({each.name for each in SERVICES}) == len(SERVICES)
    for each in SERVICES:
        assert set(each.bounds) == set(service.ROWS)
        assert all(set(bound.peers) <= set(each.peers) for bound in each.bounds.values())


def test_the_shortest_time_of_a_peer_counts():
    times = {OURS: (10.0, 12.0), PREDICTOR: (5.0, 6.0), BOOSTER: (4.0, 4.0)}
    times |= {peer: (40.0, 50.0) for peer in SERVICES[0].peers if peer != OURS}
    found = service._record(SERVICES[0], 1, times, 2)
    assert [each["reached"] for each in found["bounds"]] == [0.25, 1.25]
    assert found["missed"] == ["1.250 of LightGBM Booster's time, 1.0 allowed"]
    assert found["median_microseconds"][OURS] == 12.0
    best = service._times({OURS: [lambda X: None, lambda X: sum(range(9999))]}, np.zeros((1, 1)))
    assert best[OURS][0] < 20.0


def test_the_command(tmp_path, monkeypatch, capsys, few_turns):
    path = tmp_path / "service.json"
    monkeypatch.setattr(service, "SERVICES", (replace(SMALL, name="one"), SMALL))
    command = ["service", "--rows", "300", "--name", str(path), "--device", "numba"]
    assert main([*command, "--only", "small"]) == 1  # the bounds are missed
    assert capsys.readouterr().out.count("MISSED: ") == 3
    assert len(json.loads(path.read_text())["records"]) == 3
    assert main(command) == 1
    content = json.loads(path.read_text())
    *records, first = content["records"]
    assert len(records) == 6 and first["key"] == service.FIRST_CALL
    assert 0 < first["milliseconds"] == min(first["runs"])
    assert set(records[0]["microseconds"]) == {OURS, PREDICTOR, REFERENCE}
    table = table_of(content)
    assert table.count("\n| ") == 7 and f"| {PREDICTOR} |" in table
    assert "fresh process takes" in table
