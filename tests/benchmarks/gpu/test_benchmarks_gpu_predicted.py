"""Predicted times on a GPU: sums over kernels, overlapping resources, and current files."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.gpu.cases import CASES
from benchmarks.gpu.predictions import fit_work, kernel_work, predicted, tree_shapes
from benchmarks.gpu.predictions.fit_work import ADABOOST_LAUNCHES
from benchmarks.gpu.predictions.hot_loops import Counted, stored
from benchmarks.gpu.predictions.rates import GAP, LEAST, Kernel, Rates, Stage, Work, bare
from benchmarks.suite.settings import ADABOOST, BOOSTING
from gpuboost.backends.cost_model import (
    BOOSTING_LAUNCHES,
    FOREST_LAUNCHES,
    TREE_LAUNCHES,
)
from gpuboost.backends.cuda.data import binning
from gpuboost.engine.bins import BinRule
from tests.fakes.fake_cupy import Machine

RATES = Rates(bytes=10.0, additions=4.0, words=2.0)


# ---- the files ---------------------------------------------------------------------------------


def test_the_file_has_the_current_predictions(tmp_path: Path, capsys: Any) -> None:
    path, document = tmp_path / "predicted.json", tmp_path / "gpu.md"
    document.write_text(f"before\n{predicted.BEGIN}old\n{predicted.END} after")
    assert predicted.main(path, document) == 0
    assert path.read_text() == predicted.RESULT.read_text(), (
        "run benchmarks.gpu.predictions.predicted anew"
    )
    assert "not measured" in capsys.readouterr().out
    table = predicted.summary(json.loads(path.read_text()))
    assert document.read_text() == (f"before\n{predicted.BEGIN}{table}\n{predicted.END} after")


def test_the_document_has_the_table_of_the_file() -> None:
    known = json.loads(predicted.RESULT.read_text())
    text = predicted.DOCUMENT.read_text(encoding="utf-8")
    assert predicted.put_into(text, known) == text, "run benchmarks.gpu.predictions.predicted anew"
    assert text.count("not measurements") == 1 and "Nothing has run on a GPU" in text
    loops, rows = stored(), f"{kernel_work.rows_per_block(1_000_000, 28)} at the root"
    row, feature = loops["histogram of gradients"], loops["feature of a small node"]
    assert f"{row.instructions} instructions for sixteen rows" in text and rows in text
    assert f"warps of a block takes {feature.instructions} instructions" in text
    for record in known["records"]:
        if "to purity" in record["case"]:
            more = record["seconds_with_pageable_copies"] - record["seconds"]
            assert f"{more:.2f} s" in text


def test_the_table_shows_earlier_predictions() -> None:
    earlier = json.loads(predicted.EARLIER.read_text())["seconds"]
    records = json.loads(predicted.RESULT.read_text())["records"]
    to_module_of: dict[str, dict[str, float]] = {}
    for record in records:
        for name, stage in record["stages"].items():
            if stage["earlier_seconds"] is not None:
                to_module_of.setdefault(record["case"], {})[name] = stage["earlier_seconds"]
    assert to_module_of == earlier
    higgs = next(record for record in records if "HIGGS" in record["case"])
    assert higgs["earlier_seconds"] == pytest.approx(sum(earlier[higgs["case"]].values()))


def test_every_bounded_case_is_predicted() -> None:
    found = {prediction.case for prediction in predicted.predictions()}
    assert found <= {case.name for case in CASES}
    assert {case.name for case in CASES if case.bounds} <= found


# ---- sums of times -----------------------------------------------------------------------------


def test_a_kernel_is_as_slow_as_its_slowest_resource() -> None:
    work = Work(bytes=20.0, additions=4.0)
    assert work.seconds(RATES) == (2.0, "bytes")
    both = work + Work(additions=4.0, words=1.0)
    assert both.seconds(RATES) == (2.5, "additions")  # 2 and 0.5 share a port
    assert both.times(2.0).seconds(RATES) == (5.0, "additions")
    assert Kernel(work, 3.0).seconds(RATES) == {"gaps": 3 * GAP, "bytes": 2.0}


def test_kernels_and_gaps_add_up() -> None:
    stage = Stage.of(Work(bytes=20.0), Work(additions=4.0)) + Stage.of(bare(4.0))
    assert stage.launches == 6.0 and stage.work == Work(bytes=20.0, additions=4.0)
    seconds, bound = stage.seconds(RATES)
    assert seconds == pytest.approx(3.0 + 6 * GAP + 4 * LEAST) and bound == "bytes"
    assert Stage.of(bare(4.0)).seconds(RATES) == (4 * (GAP + LEAST), "gaps")
    assert stage.times(3).seconds(RATES)[0] == pytest.approx(3 * seconds)
    assert Stage().seconds(RATES) == (0.0, "gaps")


def test_the_slower_of_host_and_device_counts() -> None:
    stages = {"binning": Stage.of(Work(bytes=100.0)), "rest": Stage.of(Work(bytes=20.0))}
    rates = Rates(bytes=10.0, launches=2.0)
    for launches, ahead, late in ((10.0, 1.0, 3.0), (10.0, 0.5, 4.0), (2.0, 1.0, None)):
        one = predicted.Prediction("case", stages, launches, ahead).record(rates, {})
        found = one["stages"].get("waiting for launches", {"seconds": None})["seconds"]
        assert found == (late if late is None else pytest.approx(late, abs=1e-4))


def test_seconds_are_formatted() -> None:
    words = [predicted.seconds_in_words(seconds) for seconds in (2.0, 0.0123, 1.5e-5)]
    assert words == ["2 s", "12.3 ms", "15 us"]


# ---- work of kernels ---------------------------------------------------------------------------


def test_the_number_of_resident_warps() -> None:
    one = Counted(100, 500, 900, 4, 512, 62)
    assert kernel_work.resident_warps(one) == 32  # registers allow two blocks of 16 warps
    assert kernel_work.resident_warps(one, 96 << 10) == 32
    assert kernel_work.resident_warps(one, 150 << 10) == 16
    assert kernel_work.resident_warps(Counted(1, 1, 1, 1, 256, 16)) == 64
    assert kernel_work.resident_warps(Counted(1, 1, 1, 1, 32, 135)) == 15


def test_loop_iterations_take_latency_and_issue_time(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"loop": Counted(100, 500, 900, 4, 256, 64)}
    monkeypatch.setattr(kernel_work, "stored", lambda: known)
    at_once = 132 * 32
    assert kernel_work.iterations("loop", 5) == Work(instructions=500, cycles=500)
    assert kernel_work.iterations("loop", 4 * at_once).cycles == 4 * 500
    assert kernel_work.iterations("loop", 4 * at_once, is_far=True).cycles == 4 * 900
    assert kernel_work.iterations("loop", 0) == Work()
    assert kernel_work.tiles("loop", 3) == Work(cycles=1500)
    known["loop"] = Counted(100, 500, 900, 4, 1024, 64)
    assert kernel_work.tiles("loop", 3) == Work(cycles=3 * 32 * 100 / 4)


def test_rows_of_a_block_are_those_of_the_package() -> None:
    assert kernel_work.rows_per_block(1_000_000, 28) == 3788
    assert kernel_work.rows_per_block(11_000_000, 28) == 41667


def test_codes_of_many_rows_share_sectors() -> None:
    """In a node of a million rows, a row reads one byte of a column; in a small one, a sector."""
    table = kernel_work.Table(1_000_000, 28, 1e6)
    for rows, nodes, of_row in ((1_000_000, 1, 1), (500_000, 4, 8), (1_000_000, 64, 32)):
        assert table.gathered(rows, nodes) == rows * of_row
    assert table.gathered(0.0, 0.0) == 0 and not table.is_far
    large = kernel_work.Table(11_000_000, 28, 11e6)
    assert large.gathered(11e6, 128) == 11e6 * 64 and large.is_far
    assert (large.row_bytes(1), large.row_bytes(2)) == (32, 64)


def test_a_pass_over_higgs_takes_the_time_of_its_additions() -> None:
    """The additions of 11M rows to 3 words in 32 lanes at 8.36e12 per second, and flushes."""
    table = kernel_work.Table(11_000_000, 28, 11e6)
    stage = kernel_work.histograms(kernel_work.GRADIENTS, table, 11e6, 1, 1, 28, 1)
    times = stage.work.times_of(Rates())
    assert times["additions"] == pytest.approx(11e6 * 32 * 3 / 8.36e12, rel=0.05)
    assert max(times, key=times.__getitem__) == "additions"
    text = predicted.DOCUMENT.read_text(encoding="utf-8")
    named = ("instructions", "bytes", "cycles", "additions")
    assert all(f"{1e6 * times[name]:.0f} us" in text.replace("\n ", "") for name in named)


# ---- launches, waits and shapes ----------------------------------------------------------------


def test_predicted_launches_are_those_of_the_cost_model() -> None:
    """Every launch belongs to exactly one stage of the prediction."""
    for name, trees, launches in (
        ("tree, depth 8", 1, TREE_LAUNCHES),
        ("forest, depth 16", 100, FOREST_LAUNCHES),
    ):
        shape = tree_shapes.SHAPES[name]
        stages = fit_work.fit_stages(shape, trees, 1_000_000, 28, False)
        assert predicted.launches_of(stages) == launches.of(len(shape.rows))


def test_predicted_launches_of_rounds_are_those_of_the_cost_model() -> None:
    """Levels with many rows include the launches of prefix sums."""
    for case in CASES:
        family, size = case.setting.family, (case.rows, case.features)
        if family == ADABOOST:
            found = predicted.launches_of(fit_work.adaboost_round(*size))
            assert found == ADABOOST_LAUNCHES.of(1)
        if family == BOOSTING and case.setting.max_depth and case.rows < 4 << 20:
            found = predicted.launches_of(fit_work.boosting_round(*size, case.setting))
            assert found == BOOSTING_LAUNCHES.of(case.setting.max_depth)


@pytest.mark.parametrize(
    ("is_rounded", "counted"), [(False, fit_work.MANY_VALUES), (True, fit_work.FEW_VALUES)]
)
def test_predicted_waits_and_allocations_of_binning(
    is_rounded: bool, counted: tuple[int, int, int], machine: Machine
) -> None:
    """The numbers of waits, arrays and passes are those of the prediction for any columns."""
    from gpuboost.backends.cuda.runtime.cupy import CupyRuntime

    for features in (2, 5):
        X = np.random.default_rng(0).standard_normal((4000, features)).astype(np.float32)
        X = np.round(X) if is_rounded else X
        before = machine.waits, machine.allocations, len(machine.launches)
        binning.fit_bins(CupyRuntime(0), X, BinRule(np.zeros(features, dtype=bool)))
        now = machine.waits, machine.allocations, len(machine.launches) - 1  # one makes codes
        assert tuple(b - a for a, b in zip(before, now, strict=True)) == counted


def test_tree_shapes_match_grown_trees() -> None:
    for shape in tree_shapes.SHAPES.values():
        assert len(shape.rows) == len(shape.large)
        assert shape.n_nodes == 2 * (sum(shape.large) + shape.small + shape.tiny) + 1
        assert all(b <= a for a, b in pairwise(shape.rows))
        assert all(b <= 2 * a for a, b in pairwise(shape.large))
        assert all(rows > 512 * n for rows, n in zip(shape.rows, shape.large, strict=True))
