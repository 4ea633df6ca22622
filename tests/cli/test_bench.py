"""``gpuboost bench``."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from pyarrow import csv

from gpuboost.cli.bench import cells, runner, worker
from gpuboost.cli.bench.cells import (
    GPUBOOST,
    SCIKIT,
    TREE,
    TREES_OF,
    BenchCell,
    CellOutcome,
    make_cell_model,
    places_of_all,
    planned_cells,
)
from gpuboost.cli.bench.report import BenchReport, print_report, report_to_json
from gpuboost.cli.bench.rows import BenchRows, read_rows, rows_of_table
from gpuboost.cli.bench.runner import BenchOptions, CellRunner, Schedule
from tests.cli.conftest import make_table

SYNTHETIC = BenchRows(None, None, True, 0)


def test_every_installed_library_has_cells() -> None:
    places = places_of_all()
    assert places[0][0] == GPUBOOST and (SCIKIT, "cpu") in places
    planned = planned_cells((100, 200))
    assert [cell.rows for cell in planned] == sorted(cell.rows for cell in planned)
    assert {cell.model for cell in planned if cell.library == GPUBOOST} == set(TREES_OF)


def test_every_gpu_has_cells(machine: Any, monkeypatch: Any) -> None:
    backends = [(name, True, "") for name in ("numpy", "numba", "cuda")]
    monkeypatch.setattr("gpuboost.backends.select.available_backends", lambda: backends)
    monkeypatch.setattr(cells, "_xgboost_has_cuda", lambda: True)
    places = places_of_all()
    assert places[:3] == [(GPUBOOST, "numba"), (GPUBOOST, "cuda:0"), (GPUBOOST, "cuda:1")]
    on_gpu = {cell.library for cell in planned_cells((100,)) if cell.is_gpu}
    assert on_gpu <= {GPUBOOST, cells.XGB} and GPUBOOST in on_gpu
    assert (cells.XGB, "cuda:1") in places or cells.XGB not in {name for name, _ in places}
    monkeypatch.setattr("gpuboost.backends.select.available_backends", lambda: backends[:1])
    assert places_of_all()[0] == (GPUBOOST, "numpy")


@pytest.mark.parametrize("is_classification", [True, False])
def test_every_cell_trains(is_classification: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)).astype(np.float32)
    y = (X[:, 0] > 0).astype(np.int64) if is_classification else X[:, 0] + X[:, 1]
    for cell in planned_cells((300,)):
        outcome, seconds = worker.answer(
            cell, (X[:300], y[:300], X[300:], y[300:]), is_classification, 0
        )
        assert outcome.reason == "" and outcome.seconds is not None, cell
        assert outcome.score is not None and outcome.score > 0.3 and seconds >= outcome.seconds
        if sys.platform == "linux":
            assert outcome.peak_bytes is not None and outcome.peak_bytes > 10**6


def test_the_seconds_of_a_cell_have_no_first_use(monkeypatch: Any) -> None:
    class SlowAtFirst:
        used: ClassVar[set[str]] = set()

        def first_use(self, what: str) -> None:
            time.sleep(0.0 if what in self.used else 0.3)
            self.used.add(what)

        def fit(self, X: Any, y: Any) -> SlowAtFirst:
            self.first_use("fit")
            return self

        def score(self, X: Any, y: Any) -> float:
            self.first_use("score")
            return 1.0

    monkeypatch.setattr(worker, "make_cell_model", lambda *_: SlowAtFirst())
    rows = tuple(np.zeros(3) for _ in range(4))
    outcome, seconds = worker.measured_cell(BenchCell(3, TREE, GPUBOOST, "numba"), rows, True, 0)
    assert outcome.seconds is not None and outcome.seconds <= seconds < 0.3


def test_an_error_of_a_library_is_the_reason() -> None:
    cell = BenchCell(3, TREE, SCIKIT, "cpu")
    X = np.full((3, 1), np.inf)
    outcome, _ = worker.answer(cell, (X, np.array([0, 1, 0]), X, np.array([0, 1, 0])), True, 0)
    assert outcome.is_error and outcome.reason.startswith("ValueError: ")


def test_models_of_one_cell_have_the_same_shape() -> None:
    for library, device in places_of_all():
        for name in cells._MODELS_OF.get(library, tuple(TREES_OF)):
            model = make_cell_model(BenchCell(9, name, library, device), True, 7, 0)
            text = str(model.get_params())
            assert "7" in text or name == TREE


# ---- rows --------------------------------------------------------------------------------------


def test_rows_are_written_once_for_all_processes(tmp_path: Path) -> None:
    SYNTHETIC.write(500, tmp_path)
    X, y, X_test, y_test = read_rows(500, tmp_path)
    assert X.shape == (500, 16) and X.dtype == np.float32 and set(np.unique(y)) == {0, 1}
    assert len(X_test) == len(y_test) == 1000
    assert SYNTHETIC.sizes((5, 10)) == (5, 10)


def test_rows_of_a_table(tmp_path: Path) -> None:
    path = str(tmp_path / "t.csv")
    csv.write_csv(make_table(200), path)
    rows = rows_of_table(path, "y", 0)
    assert rows.is_classification and rows.X is not None and rows.X.dtype == np.float32
    assert rows.sizes((100, 1000, 10000)) == (100, 150)
    rows.write(100, tmp_path)
    X, y, X_test, _ = read_rows(100, tmp_path)
    assert X.shape == (100, 6) and len(X_test) == 50 and set(np.unique(y)) <= {0, 1, 2}
    assert not rows_of_table(path, "price", 0).is_classification


# ---- schedule ----------------------------------------------------------------------------------


def test_cells_that_would_take_too_long_are_skipped() -> None:
    schedule = Schedule(100.0, time.perf_counter() + 100.0)
    small, large = (BenchCell(rows, TREE, SCIKIT, "cpu") for rows in (1000, 10_000))
    assert schedule.reason_to_skip(small) == "" and schedule.predicted(small) == 0.0
    schedule.record(small, 1.0)
    assert schedule.predicted(large) == 10.0 and schedule.reason_to_skip(large) == ""
    schedule.record(small, 5.0)
    assert schedule.reason_to_skip(large) == "about 50 s"
    schedule.record(small, float("inf"))
    assert schedule.reason_to_skip(large) == "too slow with fewer rows"
    assert Schedule(100.0, time.perf_counter() + 0.5).reason_to_skip(small) == "no time left"


def test_a_cell_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(runner, "ENDED_SHARE", 0.001)
    monkeypatch.setattr(runner, "EXPECTED_SHARE", 0.001)
    SYNTHETIC.write(300, tmp_path)
    own = CellRunner(tmp_path, SYNTHETIC, Schedule(100.0, time.perf_counter() + 100.0))
    cell = BenchCell(300, TREE, SCIKIT, "cpu")
    assert own.run(cell).reason == "ended after 0 s" and not own.servers
    assert own.run(cell).reason == "too slow with fewer rows"


def test_a_process_that_ends_is_an_error(tmp_path: Path) -> None:
    own = CellRunner(tmp_path, SYNTHETIC, Schedule(100.0, time.perf_counter() + 100.0))
    for _ in range(2):  # each time, there is a new process
        outcome = own.run(BenchCell(300, TREE, SCIKIT, "cpu"))  # whose rows were not written
        assert outcome.is_error and outcome.reason == "its process ended with status 1"
        assert not own.servers


# ---- report ------------------------------------------------------------------------------------


def report_of(seconds: dict[tuple[int, str, str], float | None]) -> BenchReport:
    """A report of seconds by rows, library and device, all of decision trees."""
    found = {
        BenchCell(rows, TREE, library, device): CellOutcome(taken, 0.9, 10**8)
        if taken is not None
        else CellOutcome(reason="about 99 s")
        for (rows, library, device), taken in seconds.items()
    }
    return BenchReport(found, 300.0, 20.0, "synthetic rows", True)


def test_the_size_from_which_the_gpu_wins() -> None:
    times = {
        (10, GPUBOOST, "numba"): 1.0,
        (10, GPUBOOST, "cuda:0"): 2.0,
        (100, GPUBOOST, "numba"): 5.0,
        (100, GPUBOOST, "cuda:0"): 4.0,
        (1000, SCIKIT, "cpu"): 9.0,
        (1000, GPUBOOST, "cuda:0"): 5.0,
    }
    assert report_of(times).gpu_wins_from() == {TREE: 100}
    assert report_of(times | {(1000, SCIKIT, "cpu"): 3.0}).gpu_wins_from() == {TREE: None}
    assert report_of(times | {(10, GPUBOOST, "numba"): 3.0}).gpu_wins_from() == {TREE: 10}
    assert report_of({(10, GPUBOOST, "numba"): 1.0}).gpu_wins_from() == {}
    skipped_on_cpu = {(10, GPUBOOST, "cuda:0"): 1.0, (10, GPUBOOST, "numba"): None}
    assert report_of(skipped_on_cpu).gpu_wins_from() == {}
    assert report_of(times | {(1000, SCIKIT, "cpu"): None}).gpu_wins_from() == {TREE: 100}
    sentences = " ".join(report_of(times).sentences())
    assert "decision tree: the GPU wins from 100 rows." in sentences


def test_the_report_fits_a_terminal_and_names_what_is_missing(capsys: Any) -> None:
    times = {(10, GPUBOOST, "numba"): 1.0, (10, SCIKIT, "cpu"): 2.0, (1000, SCIKIT, "cpu"): None}
    print_report(report_of(times), as_json=False)
    out = capsys.readouterr().out
    assert "1.000*" in out and "2.000 " in out and "100.0 MB" in out
    assert "skipped at 1,000 rows (about 99 s): scikit-learn decision tree on cpu." in out
    assert "1,000 rows\n" not in out  # a table without a line
    assert max(map(len, out.splitlines())) <= 80
    found = report_to_json(report_of(times))
    assert found["cells"][0]["seconds"] == 1.0 and found["cells"][2]["reason"] == "about 99 s"


def test_status_is_one_if_our_fit_fails(monkeypatch: Any, capsys: Any) -> None:
    def fails(self: Any, cell: BenchCell) -> CellOutcome:
        return CellOutcome(reason="broken", is_error=cell.library == GPUBOOST)

    monkeypatch.setattr(CellRunner, "run", fails)
    assert runner.run(BenchOptions((300,), 60.0), as_json=False) == 1
    assert "failed at 300 rows (broken): gpuboost decision tree" in capsys.readouterr().out


# ---- the command -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rows", "5"), "whole number from 100"),
        (("--rows", "1000,x"), "whole number from 100"),
        (("--seconds", "0"), "a number of seconds above 0"),
        (("--data", "t.csv"), "belong together"),
        (("--data", "absent.csv", "--target", "y"), "absent.csv: No such file"),
    ],
)
def test_wrong_options(words: Any, message: str, run: Any) -> None:
    status, out, err = run("bench", *words)
    assert (status, out) == (2, "") and message in err


@pytest.mark.slow
def test_the_benchmark_ends_in_its_time(folder: Path, run_json: Any) -> None:
    began = time.perf_counter()
    words = ("--rows", "300,500", "--seconds", "20", "--data", "t.csv", "--target", "y")
    found = run_json("bench", *words)
    assert time.perf_counter() - began < 21.0
    measured = [cell for cell in found["cells"] if cell["seconds"] is not None]
    assert {cell["rows"] for cell in found["cells"]} == {300} and measured[0]["library"] == GPUBOOST
    for cell in found["cells"]:
        assert (cell["seconds"] is None) == bool(cell["reason"])
        assert not cell["is_error"] or cell["library"] != GPUBOOST
