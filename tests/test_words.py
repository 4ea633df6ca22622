"""Names in the code are standard terms with one meaning each; struck names are not used."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from tests.sizes import SOURCES, module_of

ROOT = Path(__file__).parents[1]
PARTS = ("gpuboost", "kernels", "tests", "benchmarks")
_NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

# Struck names and their replacements. A name is written as the words that an identifier consists
# of: `max_rows` and `MaxRows` are both "max rows".
STRUCK = {
    "crew|crews|team|teams": "pool, barrier",
    "grove|groves": "grow state",
    "phantom|phantoms": "shape array",
    "foretell|foretold": "dry run, estimate",
    "parcel": "readback, host copy",
    "keeper|keeping ops": "tree builder, device-resident operations",
    "unasked": "sync free",
    "seat|seats|seated": "offset",
    "desk": "block state",
    "descent": "traversal",
    "router|not routed|find routes": "threshold finder, split thresholds",
    "known nodes": "best-first frontier",
    "leaf refits|refit leaves|refits leaves": "leaf quantiles",
    "class judge|value judge|tree judge|said classes": "objective, predicted classes",
    "room|rooms": "stride, first node, capacity",
    "late tree|late round|late trees": "pending round",
    "joint|level columns|join codes": "feature bundle",
    "beats|offer numeric|offer feature": "is better, evaluate",
    "claim|is last arrived": "next task, barrier",
    "word of$|machine of": "check option, execution",
    "taken over": "from sklearn",
    "rise|rises": "gain",
    "squares term|squares gain": "variance criterion",
    "max most|min least|most rows|least rows|most nodes|least hessian": "max, min",
    "lists pay": "use feature lists",
    "sum left out|add left out": "out of bag",
    "looked|looked at": "listed features, candidate features",
}
# Terms that have several meanings elsewhere, each with its one meaning in this project.
ONE_MEANING = {
    "score": "value of a criterion for one candidate split, not yet per unit of the target",
    "gain": "score of the split that is taken, per unit of the target",
    "impurity_decrease": "gain of a finished split, per weight of the root",
    "capacity": "how many nodes, pieces or arrays there is memory for",
    "partition": "rows of a node moved to its children, in their order",
    "frontier": "open nodes of one level of all trees that grow together",
    "objective": "what judges a tree of AdaBoost",
    "offset": "where something begins; of boosting, the user's raw prediction of each row",
    "criterion": "what splits are chosen by; in the engine its number",
    "plane": "one of two parts of a wide sum; of a histogram in shared memory, one of its fields",
}


@cache
def identifiers_of(path: Path) -> frozenset[str]:
    """Names that a file defines or uses, without those in comments and strings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return frozenset(_IDENTIFIER.findall(_NO_CODE.sub(" ", text)))
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        for field in ("id", "attr", "name", "arg", "asname"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                found.update(name.split("."))
    return frozenset(found)


def words_of(identifier: str) -> str:
    """Split an identifier into words: ``_max_rows`` and ``MaxRows`` give "max rows"."""
    return " ".join(_WORDS.findall(identifier)).lower()


def sources() -> Iterator[Path]:
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*")):
            if path.suffix in (".py", ".cu", ".cuh") and "stand_in" not in path.parts:
                yield path


@pytest.mark.parametrize("pattern", STRUCK)
def test_struck_names_do_not_come_back(pattern: str) -> None:
    """Names of test functions are exempt: they are sentences and may use any English word."""
    struck = re.compile(rf"(?:^| )(?:{pattern})(?: |$)")
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources()
        for name in identifiers_of(path)
        if not name.startswith("test_") and struck.search(words_of(name))
    }
    assert not found, f"say {STRUCK[pattern]}: {sorted(found)}"


def glossary() -> list[str]:
    """The terms of ARCHITECTURE.md's glossary."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Glossary")[2]
    rows = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)[1:]
    return [term.strip() for row in rows if not row.startswith("-") for term in row.split(",")]


@cache
def all_texts() -> str:
    return "\n".join(path.read_text(encoding="utf-8").lower() for path in sources())


@pytest.mark.parametrize("term", [*glossary(), *ONE_MEANING])
def test_terms_of_the_glossary_occur(term: str) -> None:
    text = all_texts()
    spellings = {term.lower(), term.lower().replace(" ", "_"), term.lower().replace(" ", "-")}
    assert any(spelling in text for spelling in spellings), term


def test_words_of_finds_names_in_every_spelling() -> None:
    """`words_of` handles every spelling of a name, and `glossary` finds the terms."""
    assert words_of("_HostParcel") == "host parcel" and words_of("MAX_ROWS2") == "max rows 2"
    assert len(glossary()) > 20 and "frontier" in glossary()


# ---- constants and classes -----------------------------------------------------------------------

_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")


def constants_and_classes_of(text: str) -> Iterator[str]:
    """Names of the constants and classes that a module defines, without those that it imports."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [part for target in targets for part in ast.walk(target)]
            found = [part.id for part in names if isinstance(part, ast.Name)]
            yield from filter(_CONSTANT.fullmatch, found)


def test_a_constant_or_class_has_one_definition() -> None:
    """Private constants, such as masks, may be repeated with the same value."""
    modules: dict[str, list[str]] = defaultdict(list)
    for path in SOURCES:
        for name in constants_and_classes_of(path.read_text(encoding="utf-8")):
            modules[name].append(module_of(path))
    repeated = {name: own for name, own in modules.items() if len(own) > 1}
    offenders = {
        name: own
        for name, own in repeated.items()
        if not name.startswith("_")
        or len({repr(getattr(import_module(module), name)) for module in own}) > 1
    }
    assert not offenders, "\n".join(f"{name}: {own}" for name, own in offenders.items())


def test_definitions_are_found() -> None:
    text = "from a import B\nC, _D = 1, 2\nE: int = 3\nf = 4\nclass G: H = 5"
    assert list(constants_and_classes_of(text)) == ["C", "_D", "E", "G"]


# ---- names in prose ------------------------------------------------------------------------------

_QUOTED = re.compile(r"`+([A-Za-z_][\w.]*)(?:\(\))?`+")
_LOOKS_LIKE_A_NAME = re.compile(r"\w_\w|[a-z][A-Z]")
# Names that are defined outside the sources: in other libraries, tools and the environment.
OUTSIDE = frozenset({"cat_smooth", "nvrtcProgram", "PinnedMemoryPointer", "MaxRows"})


def prose_of(path: Path) -> str:
    """Docstrings and comments of a source file, or a Markdown file without its code blocks."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    if path.suffix != ".py":
        return "\n".join(re.findall(r"//[^\n]*|/\*.*?\*/", text, flags=re.DOTALL))
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, _DOCUMENTED))
    docstrings = [ast.get_docstring(node) or "" for node in nodes]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join([*docstrings, *(t.string for t in tokens if t.type == tokenize.COMMENT)])


@cache
def all_names() -> frozenset[str]:
    """Identifiers, module names, and string constants without spaces, of all sources."""
    found: set[str] = set()
    for path in sources():
        found |= identifiers_of(path) | {path.stem, *path.parent.parts}
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.update(_IDENTIFIER.findall(node.value) if " " not in node.value else ())
    return frozenset(found)


def texts() -> list[Path]:
    """All sources and documents, except the change log, which may mention removed names."""
    documents = [p for p in ROOT.rglob("*.md") if p.name != "CHANGELOG.md"]
    return [*sources(), *sorted(documents)]


def test_names_in_prose_exist() -> None:
    unknown = {
        f"{path.relative_to(ROOT)}: {part}"
        for path in texts()
        for quoted in _QUOTED.findall(prose_of(path))
        for part in quoted.split(".")
        if _LOOKS_LIKE_A_NAME.search(part) and part not in all_names() | OUTSIDE
    }
    assert not unknown, "\n".join(sorted(unknown))
