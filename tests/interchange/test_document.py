"""The examples of documents that need another library run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCUMENTS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("name", "libraries"), [("interchange", ["xgboost"]), ("shap", ["shap", "lime", "matplotlib"])]
)
def test_examples_with_other_libraries_run(
    name: str, libraries: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for library in libraries:
        pytest.importorskip(library)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    document = DOCUMENTS / f"{name}.md"
    text = document.read_text(encoding="utf-8")
    examples = re.findall(r"^```py\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert examples
    for code in examples:
        exec(compile(code, str(document), "exec"), {})
