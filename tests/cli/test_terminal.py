"""What a terminal of 80 columns shows, and what a file gets."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gpuboost.cli.output import progress, shown, shown_bytes, shown_seconds
from tests.cli.test_train import CLASSES

COMMAND = [sys.executable, "-m", "gpuboost", "train", "t.csv", *CLASSES]
LONG = ("--set", "n_estimators=150", "--valid", "0.2")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_progress_on_a_terminal(folder: Path) -> None:
    ours, theirs = os.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    process = subprocess.Popen([*COMMAND, *LONG], stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    content = b""
    with suppress(OSError):  # the end of a pseudo-terminal
        while part := os.read(ours, 4096):
            content += part
    os.close(ours)
    text = _CONTROL.sub("", content.decode())
    assert process.wait() == 0
    assert re.search(r"training .* \d+/150 rounds .*\d/s .* left loss 0\.\d", text)
    lines = re.split(r"[\r\n]+", text)
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line.startswith("valid ")]


def test_no_progress_in_a_file(folder: Path) -> None:
    done = subprocess.run([*COMMAND, *LONG], capture_output=True, text=True, check=True)
    assert len(done.stderr.splitlines()) == 3
    assert not {"\x1b", "\r"} & set(done.stdout + done.stderr)
    assert not [line for line in done.stdout.splitlines() if line.endswith(" ")]


def test_bars_without_a_terminal_do_nothing(capsys: Any) -> None:
    with progress("anything", 3) as bar:
        bar.describe("more")
        bar.advance()
        assert not bar.is_shown
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (1234, "1,234"), (0.5, "0.5000"), (0.0, "0.0000"), (1e-7, "1e-07"),
     (1.5e9, "1.5e+09"), (True, "True"), ("a", "a")],
)  # fmt: skip
def test_values_as_text(value: Any, text: str) -> None:
    assert shown(value) == text


def test_units() -> None:
    assert shown_bytes(999) == "999 bytes" and shown_bytes(1500) == "1.5 kB"
    assert shown_bytes(2e6) == "2.0 MB" and shown_bytes(3e12) == "3000.0 GB"
    assert shown_seconds(0.1234) == "0.123 s" and shown_seconds(12.34) == "12.3 s"
