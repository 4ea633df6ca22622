"""The user's cache folder: a folder that other users can write to is not used."""

from __future__ import annotations

import os
import re
import stat
import warnings

import pytest

from gpuboost.backends import cache
from gpuboost.backends.cost_model import Speed, keep_speed

needs_modes = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="the system has no modes")


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A file in the cache, in a folder for its kind."""
    monkeypatch.setenv("GPUBOOST_CACHE_DIR", str(tmp_path / "own"))
    path = tmp_path / "own" / "kernels" / "code.cubin"
    cache.keep(path, b"code")
    return path


def recall_without_warnings(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return cache.recall(path)


@needs_modes
def test_new_folders_of_the_cache_are_private(tmp_path):
    before = os.umask(0)
    try:
        cache.keep(tmp_path / "a" / "b" / "file", b"content")
    finally:
        os.umask(before)
    for folder in (tmp_path / "a", tmp_path / "a" / "b"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "a" / "b" / "file").stat().st_mode) == 0o600
    assert recall_without_warnings(tmp_path / "a" / "b" / "file") == b"content"


@needs_modes
@pytest.mark.parametrize("mode", [0o755, 0o750, 0o700])
def test_a_folder_that_others_can_only_read_is_used(kept, mode):
    kept.parent.chmod(mode)
    assert recall_without_warnings(kept) == b"code"


@needs_modes
@pytest.mark.parametrize("level", [0, 1], ids=["folder of the file", "cache folder"])
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777], ids=oct)
def test_a_folder_that_others_can_write_to_is_not_used(kept, level, mode):
    folder = kept.parents[level]
    folder.chmod(mode)
    message = (
        rf"the cache folder {re.escape(str(folder))} can be .* chmod go-w .*GPUBOOST_CACHE_DIR"
    )
    with pytest.warns(UserWarning, match=message):
        assert cache.recall(kept) is None
    assert recall_without_warnings(kept) is None  # it warns once
    cache.keep(kept, b"new code")
    assert kept.read_bytes().endswith(b"code") and not kept.read_bytes().endswith(b"new code")
    folder.chmod(0o755)
    assert recall_without_warnings(kept) == b"code"


@needs_modes
@pytest.mark.parametrize("level", [0, 1], ids=["folder of the file", "cache folder"])
def test_a_folder_of_another_user_is_not_used(kept, level, monkeypatch):
    if os.geteuid() == 0:
        os.chown(kept.parents[level], 1234, -1)
    else:  # root would own it, whom everyone trusts
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.warns(UserWarning, match="belongs to another user"):
        assert cache.recall(kept) is None


@needs_modes
def test_a_folder_of_root_is_used(kept, monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("the folder must belong to root: run the tests as root")
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert recall_without_warnings(kept) == b"code"


@needs_modes
def test_speeds_are_not_saved_where_others_can_write(kept):
    kept.parents[1].chmod(0o777)
    with pytest.raises(cache.UnsafeFolderError, match="set GPUBOOST_CACHE_DIR"):
        keep_speed(Speed(), "this one")
