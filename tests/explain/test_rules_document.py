"""docs/rules.md shows what its examples print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "rules.md"


def test_the_document_shows_the_printed_text_and_rules(capsys: pytest.CaptureFixture[str]) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    examples = [own for language, own in blocks if language == "python"]
    shown = [own for language, own in blocks if not language]
    assert len(shown) == 2
    for code, wanted in zip(examples, shown, strict=False):
        exec(compile(code, str(DOCUMENT), "exec"), {})
        assert capsys.readouterr().out.startswith(wanted)
