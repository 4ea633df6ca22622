"""The examples of docs/interchange.md that need another library run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "interchange.md"


def test_examples_with_other_libraries_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xgboost")
    monkeypatch.chdir(tmp_path)
    text = DOCUMENT.read_text(encoding="utf-8")
    examples = re.findall(r"^```py\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert examples
    for code in examples:
        exec(compile(code, str(DOCUMENT), "exec"), {})
