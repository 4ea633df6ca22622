"""The temporary file of codes: its contents, and its faults."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuboost.blocks import spill
from gpuboost.blocks.spill import SpilledCodes, SpillError


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "SPILLED_ROWS", 64)
    monkeypatch.setattr(spill, "READ_BYTES", 200)


def make_codes(n_features: int = 7, n_samples: int = 300) -> np.ndarray:
    rng = np.random.default_rng(n_features)
    return rng.integers(0, 256, (n_features, n_samples)).astype(np.uint8)


def spilled(codes: np.ndarray, memory_limit: int = 1) -> SpilledCodes:
    found = SpilledCodes(*codes.shape, memory_limit)
    for feature, own in enumerate(codes):
        found.write(feature, own)
    return found


def read(stored: SpilledCodes, features: Any = None) -> np.ndarray:
    codes = np.zeros(stored.shape, np.uint8)
    for chunk in stored.chunks(features):
        codes[chunk.first : chunk.first + len(chunk.codes), chunk.rows] = chunk.codes
    return codes


@pytest.mark.parametrize("memory_limit", [1, 1000, 10_000])
def test_codes_are_read_as_written(memory_limit: int) -> None:
    codes = make_codes()
    stored = spilled(codes, memory_limit)
    assert np.array_equal(read(stored), codes)
    some = np.array([0, 2, 3, 6])
    assert np.array_equal(read(stored, some)[some], codes[some])
    for rows in stored.row_slices:
        assert np.array_equal(stored.column(3, rows), codes[3, rows])
    rows = np.array([5, 299, 64, 63])
    part = stored.take(rows)
    assert isinstance(part, np.ndarray) == (part.shape[0] * len(rows) <= memory_limit // 2)
    found = part if isinstance(part, np.ndarray) else read(part)
    assert np.array_equal(found, codes[:, rows])
    stored.replace(7, 9)
    assert np.array_equal(read(stored), np.where(codes == 7, 9, codes))


def test_blocks_of_whole_pages() -> None:
    """Blocks have whole pages, at most the rows that were given, and few more than are needed."""
    page = 8 * spill.PAGE_WORDS
    rng = np.random.default_rng(0)
    for size, n in [(page + 1, 1), (page, 10), *rng.integers(1, 50 * page, (200, 2)).tolist()]:
        found = spill._whole_pages(size, n)
        assert 1 <= found <= size
        assert found == size if size <= page else found % page == 0
        if size > page:  # one block more than are needed can make their number even
            assert -(-n // found) <= -(-n // (size - size % page)) + 1


def test_a_damaged_file_is_an_error() -> None:
    stored = spilled(make_codes())
    assert stored._file is not None
    os.pwrite(stored._file.fileno(), b"\x00\x01", 700)
    with pytest.raises(SpillError, match=r"damaged while in use: feature .* of rows 64 to 127"):
        read(stored)


def test_a_short_file_is_an_error() -> None:
    stored = spilled(make_codes())
    assert stored._file is not None
    os.ftruncate(stored._file.fileno(), 800)
    with pytest.raises(SpillError, match="cut short while in use"):
        read(stored)


def test_a_full_disk_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(SpillError, match=r"disk of .* is full; free some space, set TMPDIR"):
        spilled(make_codes())


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """The file has no name even while it is used, so a killed process leaves nothing."""
    program = (
        "import os, signal, numpy as np\n"
        "from gpuboost.blocks.spill import SpilledCodes\n"
        "stored = SpilledCodes(3, 10_000, 1)\n"
        "stored.write(0, np.zeros(10_000, np.uint8))\n"
        "print(os.listdir(os.environ['TMPDIR']), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    where = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=where, capture_output=True, text=True, check=False
    )
    assert done.stdout == "[]\n" and done.returncode == -9
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_fits_that_are_killed_at_random_leave_nothing_behind(tmp_path: Path) -> None:
    """Processes that stream, bin and grow are killed at random moments."""
    program = (
        "import numpy as np, pyarrow as pa\n"
        "from gpuboost import Dataset, RandomForestRegressor\n"
        "X = np.random.default_rng(0).standard_normal((20_000, 30))\n"
        "table = pa.table({str(i): column for i, column in enumerate(X.T)})\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    data = Dataset.from_batches([table] * 3, label='0', memory_limit=100_000)\n"
        "    RandomForestRegressor(5, max_depth=3, device='numpy').fit(data, data.y)\n"
    )
    where, rng = {**os.environ, "TMPDIR": str(tmp_path)}, np.random.default_rng(0)
    for _ in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", program], env=where, stdout=subprocess.PIPE
        )
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        time.sleep(rng.random() * 2)
        process.kill()
        assert process.wait() == -9 and not list(tmp_path.iterdir())
        process.stdout.close()


def test_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the limit holds the first blocks; without a file if that is enough."""
    monkeypatch.setattr(tempfile, "TemporaryFile", None)
    assert spilled(make_codes(), 20_000)._file is None
