"""What "auto" decides by: the cost of work on each device, and its calibration."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from gpuboost.backends import choice, cost, user_cache
from gpuboost.backends.choice import CUDA_LEAD, Work, choose_backend, growth_work
from gpuboost.backends.compiled import GROW_ONE
from gpuboost.backends.cost import Speed
from gpuboost.calibration import (
    Size,
    measure,
    seconds_of_a_byte,
    seconds_of_a_launch,
    seconds_of_the_start,
    slopes,
)


def test_work_of_a_gpu_grows_with_everything():
    one = growth_work(1_000_000, 5, 10, 8, 1)
    for more in (
        (2_000_000, 5, 10, 8, 1),
        (1_000_000, 6, 10, 8, 1),
        (1_000_000, 5, 11, 8, 1),
        (1_000_000, 5, 10, 9, 1),
        (1_000_000, 5, 10, 8, 2),
    ):
        assert growth_work(*more).cuda > one.cuda
    assert one.cuda < one.numba  # or nobody would want one
    little = growth_work(150, 2, 1, 2**31 - 1, 1)
    assert CUDA_LEAD * little.cuda > min(little.numpy, little.numba)


def test_little_work_does_not_ask_for_a_gpu(monkeypatch):
    monkeypatch.setattr(choice, "_numba_start_seconds", lambda program: 0.0)
    monkeypatch.setattr(choice, "why_no_cuda", lambda: pytest.fail("CuPy was looked for"))
    work = growth_work(10_000, 5, 10, 2**31 - 1, 1)
    assert work.cuda < work.numba  # but starting CUDA would cost more than it saves
    assert choose_backend("auto", work).name == "numba"
    assert choose_backend("cpu", Work(GROW_ONE, numpy=1e6, numba=1e4, cuda=0.0)).name == "numba"


@pytest.fixture
def speed_file(tmp_path, monkeypatch):
    """Where this machine's speed is kept, in an empty cache."""
    monkeypatch.setenv("GPUBOOST_CACHE_DIR", str(tmp_path))
    cost.measured_speed.cache_clear()
    yield cost.speed_file()
    cost.measured_speed.cache_clear()


def test_measured_speeds_are_kept(speed_file):
    usual = growth_work(10_000, 5, 10, 8, 1)
    assert cost.measured_speed() == Speed()
    measured = Speed(numba_visit=1e-8, cuda_launch=1e-3)
    assert cost.keep_speed(measured, "this one") == speed_file
    assert cost.measured_speed() == measured
    work = growth_work(10_000, 5, 10, 8, 1)
    assert work.numba > usual.numba and work.cuda > usual.cuda and work.numpy == usual.numpy


WRONG_SPEEDS = {
    "": "Expecting value",
    "[]": "format 1",
    '{"format": 2}': "format 1",
    '{"format": 1, "seconds": {"cuda_byte": 1}}': "its seconds are not cuda_byte, cuda_launch",
    **{
        json.dumps({"format": 1, "seconds": {**asdict(Speed()), "cuda_step": value}}): "cuda_step"
        for value in (0.0, -1.0, float("nan"), float("inf"), "fast", True)
    },
}


@pytest.mark.parametrize("text", WRONG_SPEEDS)
def test_a_broken_file_of_speeds_is_told_and_ignored(text, speed_file):
    speed_file.write_text(text)
    with pytest.warns(UserWarning, match=f"{speed_file.name} is ignored.*{WRONG_SPEEDS[text]}"):
        assert cost.measured_speed() == Speed()
    assert cost.measured_speed() == Speed()  # told once


def test_a_file_of_speeds_that_is_no_text(speed_file):
    speed_file.write_bytes(b"\xff\xfe\xff")
    with pytest.warns(UserWarning, match="is ignored"):
        assert cost.measured_speed() == Speed()


def test_the_cache_is_the_users(monkeypatch, tmp_path):
    monkeypatch.delenv("GPUBOOST_CACHE_DIR")
    monkeypatch.setattr(user_cache.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache.cache_folder() == tmp_path / "gpuboost"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert user_cache.cache_folder() == Path.home() / ".cache" / "gpuboost"
    monkeypatch.setattr(user_cache.sys, "platform", "darwin")
    assert user_cache.cache_folder() == Path.home() / "Library" / "Caches" / "gpuboost"
    monkeypatch.setattr(user_cache.sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert user_cache.cache_folder() == tmp_path / "gpuboost" / "Cache"


def test_calibration_measures_what_can_be_used(monkeypatch):
    small = Size(large=3000, small=200)
    assert measure([], small, small) == Speed()
    speed = measure(["numpy", "numba"], small, small)
    assert speed.numba_visit != Speed().numba_visit and speed.numba_step != Speed().numba_step
    assert replace(speed, numba_visit=5e-9, numba_step=3e-9) == Speed()


@pytest.mark.parametrize("device", ["numpy", "numba"])
def test_what_calibration_measures_is_about_right(device):
    """The constants of a device are those of a forest: they foretell another one."""
    visit, step = slopes(device, Size(large=20_000))
    assert 1e-10 < visit < 1e-6 and 1e-10 < step < 1e-6
    assert seconds_of_a_launch(device, Size(large=1)) > 1e-6
    assert 1e-13 < seconds_of_a_byte(device, Size(large=20_000)) < 1e-6
    assert 0 < seconds_of_the_start(device) < 60
