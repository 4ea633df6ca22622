"""The public API has types: a user's script is checked as a user's project would check it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("user_script.py")


@pytest.mark.slow
def test_a_users_script_passes_strict_checks_except_for_its_wrong_lines(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"]
    options = ["--config-file=", "--cache-dir", str(tmp_path), "--no-pretty", str(SCRIPT)]
    found = subprocess.run([*command, *options], capture_output=True, text=True, cwd=tmp_path)
    lines = SCRIPT.read_text(encoding="utf-8").splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    reported = {int(number) for number in re.findall(r"user_script\.py:(\d+): error", found.stdout)}
    assert len(wrong) == 6 and reported == wrong, found.stdout
