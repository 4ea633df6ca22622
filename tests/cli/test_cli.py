"""The command line: demo, info, version."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

import gpuboost
from gpuboost.backends import cache as compiled
from gpuboost.backends import cost_model as cost
from gpuboost.backends.select import available_backends
from gpuboost.cli import calibration, demo, demo_table
from gpuboost.cli import main as cli
from gpuboost.cli.demo_table import FitOutcome, Job, Line

CLI_ERROR = (
    'gpuboost: device must be "auto", "cpu", "cuda", "cuda:N", "numpy" or "numba", got \'gpu\'\n'
)


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"gpuboost {gpuboost.__version__}\n"


def test_python_m_gpuboost():
    command = [sys.executable, "-m", "gpuboost", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("gpuboost ")


@pytest.mark.parametrize("words", [[], ["train"], ["demo", "--rows", "5"], ["demo", "--rows", "x"]])
def test_wrong_commands_list_the_commands(words, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    assert stop.value.code == 2
    assert "usage: gpuboost" in capsys.readouterr().err


def test_info_names_every_backend_and_why_not(capsys):
    assert cli.main(["info"]) == 0
    text = capsys.readouterr().out
    lines = text[text.index("backends") : text.index("device=")].splitlines()
    for name, works, reason in available_backends():
        (line,) = [line for line in lines if line.startswith(f"  {name:6s} ")]
        assert line.split()[1] == ("yes" if works else "no")
        assert reason in line
    assert 'device="auto"' in text and "scikit-learn" in text and "compile cache" in text


def test_info_shows_gpus(machine, capsys):
    assert cli.main(["info"]) == 0
    text = capsys.readouterr().out
    assert "  cuda:1  NVIDIA Fake, compute capability 9.0, 0 GiB\n" in text
    assert "  CuPy 14.2.0, NVRTC 12.9, driver for CUDA 13.0\n" in text


def test_calibration_is_kept_and_shown(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("GPUBOOST_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(calibration, "measure", lambda usable: cost.Speed(numba_visit=1e-9))
    cost.measured_speed.cache_clear()
    try:
        assert cli.main(["info"]) == 0
        assert "default values; --calibrate measures them" in capsys.readouterr().out
        assert cli.main(["info", "--calibrate"]) == 0
        assert f"measured, in {tmp_path / 'speed.json'}" in capsys.readouterr().out
        assert cost.measured_speed().numba_visit == 1e-9
        monkeypatch.setenv("GPUBOOST_CACHE_DIR", str(tmp_path / "speed.json" / "below"))
        assert cli.main(["info", "--calibrate"]) == 1
        assert "set GPUBOOST_CACHE_DIR to another folder" in capsys.readouterr().err
    finally:
        cost.measured_speed.cache_clear()


@pytest.mark.parametrize(
    ("usable", "expected"),
    [
        (["numpy"], "always numpy"),
        (["numpy", "numba"], "numba for much work, numpy for little"),
        (["numpy", "numba", "cuda"], "cuda for much work, numpy for little"),
    ],
)
def test_info_shows_what_auto_chooses(usable, expected):
    assert cli.what_auto_does(usable).startswith(expected)


def test_compile_cache_is_counted(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert cli.compile_cache().startswith("empty")
    (tmp_path / "grow.grow-1.py311-0.1.nbc").write_bytes(b"")  # compiled from other sources
    assert cli.compile_cache().startswith("empty")
    compiled.mark_compiled(tmp_path, compiled.PREDICT)
    assert cli.compile_cache() == f"predict in {tmp_path}"


def test_versions_of_missing_packages():
    assert cli.installed("no-such-package-anywhere") == "not installed"
    assert cli.installed("numpy")[0].isdigit()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rows", "many"], "whole number from 100 to 100000000, got many"),
        (["--rows", "-5"], "whole number from 100"),
        (["--rows", "1000000000000"], "whole number from 100"),
        (["--seconds", "0"], "a number of seconds above 0, got 0"),
        (["--seconds", "nan"], "a number of seconds above 0"),
        (["--seconds", "soon"], "a number of seconds above 0, got soon"),
        (["--seed", "-1"], "whole number from 0 to 4294967295, got -1"),
        (["--seed", "x"], "whole number from 0 to 4294967295, got x"),
    ],
)
def test_wrong_options_of_the_demo_say_what_is_allowed(words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["demo", *words])
    assert stop.value.code == 2 and message in capsys.readouterr().err


def test_an_unknown_device_is_an_error_before_any_training(capsys, monkeypatch):
    monkeypatch.setattr(demo, "run", lambda options: pytest.fail("the demonstration began"))
    assert cli.main(["demo", "--device", "gpu"]) == 1
    assert capsys.readouterr() == ("", CLI_ERROR)


def test_unusable_device_is_one_line(capsys):
    if {name: works for name, works, _ in available_backends()}["cuda"]:
        pytest.skip("there is a GPU")
    assert cli.main(["demo", "--rows", "200", "--device", "cuda"]) == 1
    assert capsys.readouterr().err.startswith("gpuboost: device='cuda' cannot be used")


def test_demo_trains_every_estimator_on_every_table_of_its_kind():
    real = [demo.load_table(name, 0) for name in demo.REAL_TABLES]
    jobs = demo.small_jobs(real + demo.make_tables(400, 0))
    trained = {job.estimator for job in jobs}
    everything = {n for n in gpuboost.__all__ if n.endswith(("Classifier", "Regressor"))}
    assert trained == everything and len(everything) >= 10
    assert {job.table.name for job in jobs} == {*demo.REAL_TABLES, demo_table.SYNTHETIC}
    for job in jobs:
        assert job.estimator.endswith("Classifier") == job.table.is_classification


def test_every_ensemble_has_a_cost():
    estimators = {n for n in gpuboost.__all__ if n.endswith(("Classifier", "Regressor"))}
    single = ("DecisionTree", "ExtraTreeC", "ExtraTreeR")
    ensembles = {n for n in estimators if not n.startswith(single)}
    assert set(demo_table.TREE_COST) == ensembles


def test_the_number_of_trees_follows_from_the_time_limit():
    assert demo.trees_for(10.0, 1.0) == 10
    assert demo.trees_for(10.0, 100.0) == demo.FEWEST_TREES
    assert demo.trees_for(-5.0, 1.0) == demo.FEWEST_TREES
    assert demo.trees_for(10.0, 0.0) == demo.MAX_TREES
    jobs = [job for job in demo.small_jobs(demo.make_tables(400, 0)) if job.is_ensemble]
    few = demo.sized(jobs, tree_seconds=1.0, core_seconds=24.0)
    many = demo.sized(jobs[:2], tree_seconds=1.0, core_seconds=24.0)
    assert few.estimator == many.estimator == jobs[0].estimator
    assert few.parameters["n_estimators"] < many.parameters["n_estimators"]
    line = Line(few, FitOutcome(1.0, 1.0), FitOutcome(1.0, 1.0))
    sentence = demo.chosen_sentence([line], demo.DemoOptions(rows=400))
    assert f"{few.estimator} {few.parameters['n_estimators']}." in sentence


def test_table_lines_up():
    table = demo.load_table("iris", 0)
    lines = [
        Line(
            Job("DecisionTreeClassifier", table),
            FitOutcome(0.5, 0.9, "numpy"),
            FitOutcome(1.0, 0.8),
        ),
        Line(
            Job("RandomForestClassifier", table, {"n_estimators": 7}),
            FitOutcome(12.25, 0.5, "numba"),
            FitOutcome(2.0, 0.5),
        ),
    ]
    text = demo_table.table_text(lines).splitlines()
    assert text[2] == "iris"
    assert text[3].endswith("0.50") and text[4].endswith("6.12")
    assert "RandomForestClassifier (7)" in text[4] and "112 x 4" in text[4]
    assert len(text[3]) == len(text[4]) == len(text[1])


def test_footer_sums_the_synthetic_table():
    (table, _) = demo.make_tables(400, 0)
    line = Line(Job("ExtraTreeClassifier", table), FitOutcome(2.0, 0.9), FitOutcome(5.0, 0.8))
    text = demo_table.footer([line], 33.3)
    assert "2.0 s against scikit-learn's 5.0 s, 2.5 times as fast" in text and "33 s" in text


def test_warm_up_uses_the_fastest_backend(monkeypatch):
    both = [("numpy", True, ""), ("numba", True, ""), ("cuda", True, "")]
    monkeypatch.setattr("gpuboost.backends.select.available_backends", lambda: both)
    assert demo.fastest_backend("auto") == "cuda"
    assert demo.fastest_backend("cpu") == "numba"
    assert demo.fastest_backend("numpy") == "numpy"
    both[1:] = [("numba", False, "broken"), ("cuda", False, "no driver")]
    assert demo.fastest_backend("auto") == "numpy"


@pytest.mark.slow
def test_demo_end_to_end(capsys, monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(demo, "NUMPY_ROWS", 1000)
    assert demo.run(demo.DemoOptions(device="numpy", rows=5000, seconds=20.0), out) == 0
    text = out.getvalue()
    assert "The NumPy backend is used: 1,000 synthetic rows" in text
    assert "Warm-up: compiling" in text and "fingerprint" in text
    body = text[text.index("ratio") :]
    for name in demo.estimator_names(True):
        assert body.count(f"  {name} ") == 5
    for name in demo.estimator_names(False):
        assert body.count(f"  {name} ") == 2
    assert "fit" in capsys.readouterr().err  # the progress bar


def test_different_models_are_an_error(monkeypatch):
    real = [demo.load_table("digits", 0)]
    monkeypatch.setattr(
        "gpuboost.backends.select.available_backends",
        lambda: [("numpy", True, ""), ("cpu", True, "")],
    )
    same, sentence = demo.one_model(real, demo.DemoOptions())
    assert same and "numpy and cpu" in sentence
    counter = iter("ab")
    monkeypatch.setattr(
        gpuboost.RandomForestClassifier, "fingerprint", lambda self: next(counter) * 64
    )
    same, sentence = demo.one_model(real, demo.DemoOptions())
    assert not same and "DIFFERS" in sentence
