"""``gpuboost info``."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import gpuboost
from gpuboost.backends import cache as compiled
from gpuboost.backends import cost_model as cost
from gpuboost.backends.select import available_backends
from gpuboost.cli import calibration, information, output
from gpuboost.cli import main as cli
from gpuboost.cli.programs import WARM_UP_PROGRAMS


def test_info_names_every_backend_and_why_not(capsys):
    assert cli.main(["info"]) == 0
    text = capsys.readouterr().out
    lines = text[: text.index("device=")].splitlines()
    for name, works, reason in available_backends():
        (line,) = [line for line in lines if line.startswith(f"{name} ")]
        assert line.split()[1] == ("yes" if works else "no")
        assert reason in " ".join(text.split())
    assert 'device="auto"' in text and "scikit-learn" in text and "compile cache" in text


def test_info_fits_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(output, "FILE_COLUMNS", 80)
    monkeypatch.setattr(information, "compile_cache", lambda: "predict in /" + "folder/" * 30)
    assert cli.main(["info"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    for program in WARM_UP_PROGRAMS:
        assert re.search(rf"^{program.text} +(yes|no)$", text, flags=re.MULTILINE)


def test_info_as_json(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert cli.main(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["gpuboost"] == gpuboost.__version__
    found = [(own["backend"], own["usable"], own["reason"] or "") for own in facts["backends"]]
    assert found == available_backends()
    assert facts["threads"] >= 1 and facts["versions"]["numpy"] == np.__version__
    assert facts["warmup"] == {program.text: False for program in WARM_UP_PROGRAMS}


def test_info_shows_gpus(machine, capsys):
    assert cli.main(["info"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^cuda:1  NVIDIA Fake +9\.0+ +\d", text, flags=re.MULTILINE)
    assert "\nCuPy 14.2.0, NVRTC 12.9, driver for CUDA 13.0\n" in text
    assert cli.main(["info", "--json"]) == 0
    gpu = json.loads(capsys.readouterr().out)["gpus"][1]
    assert (gpu["device"], gpu["compute_capability"]) == ("cuda:1", 9.0) and gpu["bytes"] > 0


def test_calibration_is_kept_and_shown(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("GPUBOOST_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(calibration, "measure", lambda usable: cost.Speed(numba_visit=1e-9))
    cost.measured_speed.cache_clear()
    try:
        assert cli.main(["info"]) == 0
        assert "default values; --calibrate measures them" in capsys.readouterr().out
        assert cli.main(["info", "--calibrate"]) == 0
        assert f"measured,in{tmp_path / 'speed.json'}" in "".join(capsys.readouterr().out.split())
        assert cost.measured_speed().numba_visit == 1e-9
        monkeypatch.setenv("GPUBOOST_CACHE_DIR", str(tmp_path / "speed.json" / "below"))
        assert cli.main(["info", "--calibrate"]) == 2
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
    assert information.what_auto_does(usable).startswith(expected)


def test_compile_cache_is_counted(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert information.compile_cache().startswith("empty")
    (tmp_path / "grow.grow-1.py311-0.1.nbc").write_bytes(b"")  # compiled from other sources
    assert information.compile_cache().startswith("empty")
    compiled.mark_compiled(tmp_path, compiled.PREDICT)
    assert information.compile_cache() == f"predict in {tmp_path}"


def test_versions_of_missing_packages():
    assert information.installed("no-such-package-anywhere") is None
    assert information.installed("numpy")[0].isdigit()
