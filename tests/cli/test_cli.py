"""The command line: demo, warmup, version, errors."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys

import pytest

import gpuboost
from gpuboost.backends import cache as compiled
from gpuboost.backends.select import available_backends
from gpuboost.cli import demo, demo_peers, demo_table, information, warm_up
from gpuboost.cli import main as cli
from gpuboost.cli.demo_table import LIGHTGBM, SCIKIT_LEARN, XGBOOST, FitOutcome, Job, Line
from gpuboost.cli.programs import WARM_UP_PROGRAMS
from tests.estimators.estimator_cases import WITH_TREES

CLI_ERROR = (
    'gpuboost: device must be "auto", "cpu", "cuda", "cuda:N", "numpy" or "numba", got \'gpu\'\n'
)


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"gpuboost {gpuboost.__version__}\n"


def test_python_m_gpuboost():
    command = [sys.executable, "-m", "gpuboost", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("gpuboost ")


@pytest.mark.parametrize(
    "words", [[], ["trian"], ["train"], ["demo", "--rows", "5"], ["demo", "--rows", "x"]]
)
def test_wrong_commands_are_one_line_that_names_the_help(words, capsys):
    assert cli.main(words) == 2
    out, err = capsys.readouterr()
    own = words[:1] if words[:1] in (["train"], ["demo"]) else []
    assert not out and err.startswith("gpuboost: ") and len(err.splitlines()) == 1
    assert err.endswith(f"See {' '.join(['gpuboost', *own])} --help.\n")


def test_help_lists_the_commands_on_80_columns(capsys):
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    for command in cli.COMMANDS:
        assert f"\n  {command.name} " in text
        assert cli.main([command.name, "--help"]) == 0
        text += capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    shortened = [line for line in text.splitlines() if line.endswith("...")]
    assert all(line.startswith("Usage: ") for line in shortened)


def test_errors_have_no_control_characters(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.csv").write_bytes(b"\x7fELF\x00\x1b[31m\nname,\x00\x07\xff\n")
    assert cli.main(["train", "b.csv", "--target", "y", "--out", "m"]) == 2
    expected = "gpuboost: cannot read 'b.csv' as CSV or TSV: CSV parse error: Expected 1 columns, "
    assert capsys.readouterr().err == f"{expected}got 2\n"
    assert cli.main(["inspect", "absent\x1b[31m"]) == 2
    assert capsys.readouterr().err == "gpuboost: absent\\x1b[31m: No such file or directory\n"
    cli._show_warning("a\x1b\nb \u00e9")
    assert capsys.readouterr().err == "note: a\\x1b b \u00e9\n"


def test_errors_end_the_process_without_waiting_for_threads(monkeypatch):
    ended = []
    monkeypatch.setattr("os._exit", lambda status: ended.append(status))
    monkeypatch.setattr(sys, "argv", ["gpuboost", "inspect", "absent"])
    with pytest.raises(SystemExit):  # after the substitute for os._exit
        cli.run_process()
    assert ended == [2]


def test_damaged_tables_never_abort(tmp_path):
    rows = random.Random(0).randbytes(400_000).hex()
    text = "a,b\n" + "\n".join(f"{rows[i : i + 9]},{i}" for i in range(0, len(rows), 9))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode())[:-300_000])
    (tmp_path / "t.csv").write_text("a,b\n1\n" + text, encoding="utf-8")
    for name in ("t.csv.gz", "t.csv") * 4:
        words = [sys.executable, "-m", "gpuboost", "train", str(tmp_path / name), "--target", "a"]
        done = subprocess.run(
            [*words, "--out", str(tmp_path / "m")], capture_output=True, text=True
        )
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr


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
    assert cli.main(["demo", *words]) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_device_is_an_error_before_any_training(capsys, monkeypatch):
    monkeypatch.setattr(demo, "run", lambda options: pytest.fail("the demonstration began"))
    assert cli.main(["demo", "--device", "gpu"]) == 2
    assert capsys.readouterr() == ("", CLI_ERROR)


def test_unusable_device_is_one_line(capsys):
    if {name: works for name, works, _ in available_backends()}["cuda"]:
        pytest.skip("the error appears without a GPU, and this machine has one")
    assert cli.main(["demo", "--rows", "200", "--device", "cuda"]) == 2
    assert capsys.readouterr().err.startswith("gpuboost: device='cuda' cannot be used")


def test_demo_trains_every_estimator_on_every_table_of_its_kind():
    real = [demo.load_table(name, 0) for name in demo.REAL_TABLES]
    jobs = demo.small_jobs(real + demo.make_tables(400, 0))
    trained = {job.estimator for job in jobs}
    assert trained == set(WITH_TREES) and len(trained) >= 10
    assert {job.table.name for job in jobs} == {*demo.REAL_TABLES, demo_table.SYNTHETIC}
    for job in jobs:
        assert job.estimator.endswith("Classifier") == job.table.is_classification


def test_every_ensemble_has_a_cost():
    single = ("DecisionTree", "ExtraTreeC", "ExtraTreeR")
    ensembles = {name for name in WITH_TREES if not name.startswith(single)}
    assert set(demo_table.TREE_COST) == ensembles


def test_the_number_of_rows_follows_from_the_time_limit():
    few, more = (demo.rows_for(seconds, of_tree=0.1, n_measured=6000) for seconds in (20.0, 40.0))
    assert demo.MIN_ROWS < few < more < 2 * few and few % 1000 == 0
    assert demo.rows_for(-5.0, 0.1, 6000) == demo.MIN_ROWS
    (table, _) = demo.make_tables(400, 0)
    assert demo.tree_seconds(table) > 0.0
    assert "400 x 16" in demo.chosen_sentence(demo.DemoOptions(rows=400))
    assert "the fewest" in demo.chosen_sentence(demo.DemoOptions(rows=demo.MIN_ROWS))
    assert "about 70 s" in demo.chosen_sentence(demo.DemoOptions(rows=9000))


def test_synthetic_ensembles_have_twenty_trees():
    jobs = demo.synthetic_jobs(demo.make_tables(400, 0))
    assert len(jobs) == len(demo.estimator_names(True)) + len(demo.estimator_names(False))
    for job in jobs:
        assert job.parameters == ({"n_estimators": 20} if job.is_ensemble else {})


PEERS = (SCIKIT_LEARN, XGBOOST, LIGHTGBM)


def test_tables_line_up(capsys):
    table = demo.load_table("iris", 0)
    other = FitOutcome(1.0, 0.8)
    lines = [
        Line(
            Job("DecisionTreeClassifier", table), FitOutcome(0.5, 0.9, "numpy"), {PEERS[0]: other}
        ),
        Line(
            Job("GradientBoostingClassifier", table, {"n_estimators": 7}),
            FitOutcome(12.25, 0.5, "cuda:0"),
            dict.fromkeys(PEERS, other),
        ),
    ]
    demo_table.print_outcomes(lines, PEERS)
    text = capsys.readouterr().out.splitlines()
    assert text[0] == "iris, classification: 112 x 4, ensembles of 7 trees"
    assert text[3].split() == ["DecisionTree", "numpy", "500ms", "0.900", "1.0s", "0.800", "-", "-"]
    assert text[4].split()[:4] == ["GradientBoosting", "cuda:0", "12.2s", "0.500"]
    assert len({len(line) for line in text[1:5]}) == 1 and len(text[1]) <= 80


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0034, "3.4ms"), (0.0996, "100ms"), (0.99949, "999ms"), (1.0, "1.0s"), (99.99, "100s")],
)
def test_short_times(seconds, text):
    assert demo_table.short_seconds(seconds) == text


def test_footer_sums_the_synthetic_table():
    (table, _) = demo.make_tables(400, 0)
    others = {SCIKIT_LEARN: FitOutcome(5.0, 0.8)}
    line = Line(Job("ExtraTreeClassifier", table), FitOutcome(2.0, 0.9), others)
    text = demo_table.footer([line], 33.3)
    assert "2.0 s against scikit-learn's 5.0 s, 2.5 times as fast" in text and "33 s" in text


@pytest.mark.parametrize("peer", PEERS[1:])
def test_peers_boost_and_grow_random_forests(peer):
    pytest.importorskip(peer.lower())
    assert peer in demo_peers.installed_peers()
    for table in demo.make_tables(400, 0):
        made = {name: demo_peers.make_peer(peer, Job(name, table, {"n_estimators": 5}), 0)
                for name in demo.estimator_names(table.is_classification)}  # fmt: skip
        present = {name: model for name, model in made.items() if model is not None}
        assert set(present) == {f"{kind}{table.kind}" for kind in demo_peers._BOTH}
        for model in present.values():
            assert model.fit(table.X_train, table.y_train).score(table.X_test, table.y_test) > 0.3


def test_peers_that_are_missing_are_left_out(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert demo_peers.installed_peers() == (SCIKIT_LEARN,)


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
    monkeypatch.setattr(demo, "NUMPY_ROWS", 1000)
    assert demo.run(demo.DemoOptions(device="numpy", rows=5000, seconds=20.0)) == 0
    text, err = capsys.readouterr()
    assert "The NumPy backend is used: at most 1,000 synthetic rows" in text
    assert "Warm-up: compiling" in text and "fingerprint" in text
    body = text[text.index("estimator ") :]
    for kind in (True, False):
        for name in demo.estimator_names(kind):
            short = name.removesuffix("Classifier").removesuffix("Regressor")
            assert body.count(f"\n{short} ") == 7
    assert "training" in err and not {"\r", "\x1b"} & set(text + err)


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


# ---- warmup --------------------------------------------------------------------------------------


def test_warmup_reports_what_each_program_adds():
    found = {program.name: {program.name: 1.0} for program in WARM_UP_PROGRAMS}
    found[WARM_UP_PROGRAMS[0].name]["shared"] = 2.0
    found[WARM_UP_PROGRAMS[1].name]["shared"] = 4.0  # two processes compiled it
    found[WARM_UP_PROGRAMS[2].name] = {}
    rows = warm_up.report(found)
    assert rows[0] == (WARM_UP_PROGRAMS[0].text, 2, "3.0")
    assert rows[1][1:] == (2, "5.0") and rows[2][1:] == (0, "0.0")
    n = len(WARM_UP_PROGRAMS)
    assert rows[-1] == ("all programs together", n, f"{n + 5}.0")


def test_programs_have_names_of_their_own():
    assert len({program.name for program in WARM_UP_PROGRAMS}) == len(WARM_UP_PROGRAMS)
    assert all(program.fits for program in WARM_UP_PROGRAMS)
    assert not {program.name for program in WARM_UP_PROGRAMS} & set(compiled.PROGRAMS)


def test_warmup_does_nothing_if_all_is_compiled(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("GPUBOOST_CACHE_DIR", str(tmp_path))
    assert set(information.warmed_up().values()) == {False}
    (tmp_path / "grow.nbc").touch()
    for program in WARM_UP_PROGRAMS:
        compiled.mark_compiled(tmp_path, program.name)
    assert cli.main(["warmup"]) == 0
    assert capsys.readouterr().out.startswith("All programs are compiled already")
    assert set(information.warmed_up().values()) == {True}


ALL_FITS = """
import warnings
warnings.simplefilter("ignore")
import numpy as np
from gpuboost import GradientBoostingRegressor
from gpuboost.backends.numba.background import used_functions
from tests.golden_fits import golden_fits
for fit in golden_fits():
    fit.fingerprint("numba")
X = np.random.default_rng(0).normal(size=(200_000, 2))
for dtype in (np.float32, np.float64):
    GradientBoostingRegressor(n_estimators=2, device="numba").fit(X.astype(dtype), X[:, 0])
print(len(used_functions), *(each.name for each in used_functions if each.is_new))
"""


@pytest.mark.slow
def test_after_warmup_no_golden_fit_compiles(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    monkeypatch.setenv("GPUBOOST_CACHE_DIR", str(tmp_path / "own"))
    text = {"capture_output": True, "text": True, "check": True}
    done = subprocess.run([sys.executable, "-m", "gpuboost", "warmup"], **text)
    assert "all programs together" in done.stdout
    number, *new = subprocess.run([sys.executable, "-c", ALL_FITS], **text).stdout.split(maxsplit=1)
    assert int(number) > 50 and not new
