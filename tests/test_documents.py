"""Markdown documents: tables match the result files, links have targets, and examples run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.report.highlights import CASES, HIGHLIGHTS, SOURCES, highlight, highlights_table
from benchmarks.report.report import DEFAULT_NAMES, DOCUMENT, README, put_between_markers, table_of
from benchmarks.report.results import read_results, result_path

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")])
README_LINES = 150
WRITE = "run python -m benchmarks table --write"

needs_all = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)


def test_readme_has_the_figures_of_the_result_files() -> None:
    text = README.read_text(encoding="utf-8")
    assert put_between_markers(text, HIGHLIGHTS, highlights_table()) == text, WRITE


@pytest.mark.parametrize("name", [n for n in DEFAULT_NAMES if result_path(n).exists()])
def test_document_has_the_tables_of_the_result_files(name: str) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    table = table_of(read_results(result_path(name)))
    assert put_between_markers(text, name, table) == text, WRITE


def test_readme_claims_no_more_than_its_table() -> None:
    """The README says that gpuboost is faster than the strongest peer in each case."""
    contents = {name: read_results(result_path(name)) for name in SOURCES}
    lines = [highlight(contents[name], case) for name, case in CASES if name != "memory"]
    slower = [(case, peer) for case, _, peer, ratio, _ in lines if float(ratio) <= 1.0]
    text = README.read_text(encoding="utf-8")
    assert "In each fit and prediction below it is faster" in text
    assert not slower


def test_readme_is_short_and_says_what_has_not_run() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= README_LINES
    assert "Nothing has run on a GPU yet" in text
    assert 'pip install -e ".[test]" && pytest' in text  # .ci/run extracts this line


# ---- links -------------------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    """Anchors of a Markdown file: its headings, in the form that GitHub uses in links."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(path: Path) -> Iterator[tuple[str, str]]:
    """Relative links of a Markdown file, as pairs of target file and anchor."""
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            name, _, anchor = target.partition("#")
            yield name, anchor


@needs_all
def test_links_lead_somewhere(path: Path) -> None:
    for name, anchor in links(path):
        there = path.parent / name if name else path
        assert there.exists(), f"{path.name} links to {name}"
        assert not anchor or anchor in anchors(there), f"{path.name} links to {name}#{anchor}"


def test_kernels_of_the_table_are_there() -> None:
    text = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
    table = text[text.index("| kernels | what they do") :].partition("\n\n")[0]
    named = {name for line in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", line)}
    sources = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "kernels").rglob("*.cu"))
    known = set(re.findall(r"__global__[^;{]*?\b(\w+)\((?!\w+_THREADS|WARP|1\))", sources))
    options = {"max_leaf_nodes", "absolute_error"}
    assert named - options <= known and len(named) > 30


# ---- examples ----------------------------------------------------------------------------------


@needs_all
def test_examples_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the examples of a document in order, each in a namespace of its own."""
    monkeypatch.chdir(tmp_path)
    text = path.read_text(encoding="utf-8")
    for code in re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        exec(compile(code, str(path), "exec"), {})
