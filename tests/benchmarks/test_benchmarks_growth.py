"""The growth benchmark: its cases, exponents, table and plots; and bounds of memory."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import main
from benchmarks.peers.peers import LIGHTGBM, OURS, XGBOOST
from benchmarks.report.growth import draw_growth, growth_table
from benchmarks.speed import memory
from benchmarks.speed.growth import exponent, exponents, misses
from benchmarks.suite.cases import MEMORY
from benchmarks.suite.growth_cases import CLASSES, COLUMNS, DEPTH, ROWS, SIZES, case_of, title


def record(dimension: str, size: int, **seconds: float | None) -> dict[str, Any]:
    peers = {
        name.replace("_", " "): {"left_out": "slow"} if value is None else {"seconds": value}
        for name, value in seconds.items()
    }
    return {"dimension": dimension, "size": size, "n_jobs": 2, "peers": peers, "date": "2026-01-01"}


def growing(ours: float, theirs: float, dimension: str = ROWS) -> list[dict[str, Any]]:
    """Records of two libraries whose times are powers of the size, with these exponents."""
    return [
        record(dimension, n, gpuboost=1e-4 * n**ours, LightGBM=1e-3 * n**theirs)
        for n in SIZES[dimension]
    ]


def test_only_one_size_of_a_dimension_changes() -> None:
    for dimension, sizes in SIZES.items():
        cases = [case_of(dimension, size) for size in sizes]
        varied = {
            ROWS: [case.rows for case in cases],
            COLUMNS: [case.features for case in cases],
            DEPTH: [case.setting.max_depth for case in cases],
        }
        for name, values in varied.items():
            assert values == list(sizes) if name == dimension else len(set(values)) == 1
    assert [case_of(CLASSES, n).tables(None, 0)[0].n_classes for n in (2, 7, 100)] == [2, 7, 100]
    assert title(ROWS) == "rows x 28, 20 trees of depth 6"
    assert title(DEPTH) == "100,000 x 28, 20 trees"
    assert title(CLASSES) == "10,000 x 20, 10 rounds of depth 6"


def test_exponents_are_those_of_powers() -> None:
    assert exponent({n: 3.0 * n**0.8 for n in (10, 20, 40, 80)}) == pytest.approx(0.8)
    overhead = {1: 5.0, 2: 5.0, 10: 10.0, 100: 100.0}  # only the larger half counts
    assert exponent(overhead) == pytest.approx(1.0)
    assert math.isnan(exponent({10: 1.0})) and math.isnan(exponent({}))


def test_a_peer_without_the_largest_size_has_no_exponent() -> None:
    records = growing(1.0, 0.5)
    records[-1] = record(ROWS, SIZES[ROWS][-1], gpuboost=1.0, LightGBM=None)
    assert list(exponents(records, ROWS)) == [OURS]
    assert misses(records, ROWS) == []


def test_exponents_have_bounds_over_rows_and_columns() -> None:
    for dimension in (ROWS, COLUMNS):
        assert misses(growing(0.94, 0.9, dimension), dimension) == []
        (sentence,) = misses(growing(0.96, 0.9, dimension), dimension)
        assert "0.96" in sentence and LIGHTGBM in sentence
    assert misses(growing(3.0, 1.0, DEPTH), DEPTH) == []


def test_the_table_and_the_plots(tmp_path: Path) -> None:
    records = growing(1.0, 0.9)
    records[1]["peers"][XGBOOST] = {"seconds": 0.25}
    content = {"benchmark": "growth", "records": records}
    table = growth_table(content)
    assert "| 1,000,000 | 100 |" in table and "| 3,000 | 0.3 | 0.25 |" in table
    assert "| exponent | 1.00 | – | 0.90 |" in table and "Missed bounds: rows: " in table
    (path,) = draw_growth(content, tmp_path)
    assert f"images/{path.name}" in table
    text = path.read_text(encoding="utf-8")
    assert "gpuboost" in text and "20 trees of depth 6" in text
    (again,) = draw_growth(content, tmp_path)
    assert again.read_text(encoding="utf-8") == text


def test_memory_is_bounded_by_a_peak_or_by_extra_memory() -> None:
    forest, *_, boosting = MEMORY
    mega = 10**6
    found = {OURS: {"peak_bytes": 500 * mega, "extra_bytes": 301 * mega}}
    assert memory.misses(forest, found) == ["301 MB, 300 MB extra allowed"]
    assert memory.misses(boosting, found) == []  # without the peer
    found[LIGHTGBM] = {"peak_bytes": 400 * mega}
    assert memory.misses(boosting, found) == ["1.25 of LightGBM's peak, 1 allowed"]
    found[OURS] = {"peak_bytes": 400 * mega, "extra_bytes": 299 * mega}
    assert memory.misses(boosting, found) == memory.misses(forest, found) == []
    assert memory.misses(boosting, {OURS: {"left_out": "no memory"}}) == []


def test_a_run_measures_what_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "growth.json"
    command = ["growth", "--only", DEPTH, "--largest", "2", "--peers", OURS, "--repeat", "1"]
    for warm_ups in (1, 0):
        assert main([*command, "--name", str(path)]) == 0
        assert capsys.readouterr().out.count("warm-up") == warm_ups
    (found,) = json.loads(path.read_text())["records"]
    assert found["size"] == 2 and found["peers"][OURS]["seconds"] > 0
