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
PACKAGE = ("gpuboost", "kernels")
PARTS = (*PACKAGE, "tests", "benchmarks")
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
# Struck in `gpuboost` and `kernels` only. Tests and benchmarks may use these words in their usual
# senses: a test plants a fault, a benchmark compares families of estimators.
STRUCK_IN_PACKAGE = {
    "family|families": "sibling pair",
    "told|tell|tells": "packed tree",
    "asks|asked": "needs size readback",
    "left out": "out of bag",
    "judge|judges|judged": "objective",
    "variant|variants": "compile flags",
    "pick|picks": "select split",
    "walk|walks|walked": "next feature",
    "aim|aims": "set median gradients",
    "listing|listings": "row list",
    "beside": "offset",
    "meet|meets|go on": "barrier, overlap",
    "plant|plants|planted": "make roots",
    "settle|settles": "accept splits",
    "gather|gathers": "collect tree",
    "(?<!for )reading|readings": "inputs, value rule",
    "powers": "float exponent",
    "(?<!order )statistics": "fixed point, sums",
    "word scores of|squares of": "criteria",
    r"(?<!at )most(?! probable)|(?<!at )least": "max, min",
}
# Terms that have several meanings elsewhere, and words that are struck in one sense only: the one
# meaning that each has in `gpuboost` and `kernels`.
ONE_MEANING = {
    "score": "how good something is, by one function: a candidate split by its criterion, "
    "predictions by a metric",
    "gain": "score of the split that is taken, per unit of the target",
    "impurity_decrease": "gain of a finished split, per weight of the root",
    "capacity": "how many nodes, pieces or arrays there is memory for",
    "partition": "rows of a node moved to its children, in their order",
    "frontier": "open nodes of one level of all trees that grow together",
    "objective": "what judges a tree of AdaBoost",
    "offset": "start that is added to a relative value: to an index, or to the sum of the trees",
    "criterion": "what splits are chosen by; in the engine its number",
    "plane": "array of one part of items with several parts, such as the leading bits of wide sums",
    "order": "sequence of items, such as rows, features or values",
    "order_statistics": "quantiles of the values in a group of rows",
    "cell": "entry of a histogram, or of another array, that is addressed by its index",
    "place": "where an item is or goes: an index or an address",
    "table": "rows of the same columns: X, the losses, edges by feature, trees of a batch",
    "label": "what names a class or a feature",
    "level": "nodes of one depth in a tree; the level of a quantile is a `quantile_level`",
    "kind": "which of several alternatives something is",
    "view": "something that shows the data of another object without a copy",
    "stored": "written to the node buffer",
    "narrow": "in fewer bits than the wide form of the same number",
    "power": "exponent",
    "choice": "selection among the allowed alternatives",
    "keep": "retain for later use",
    "field": "component of a record or of a packed word",
    "settled": "fixed by the digits that a radix selection has found",
    "gathered": "copied by index",
    "followed": "row set whose raw predictions are updated in each round",
    "refit": "replacement of the leaf values of a grown tree",
    "machine": "the computer",
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


def sources(parts: tuple[str, ...] = PARTS) -> Iterator[Path]:
    for part in parts:
        for path in sorted((ROOT / part).rglob("*")):
            if path.suffix in (".py", ".cu", ".cuh") and "stand_in" not in path.parts:
                yield path


def uses_of(pattern: str, parts: tuple[str, ...]) -> list[str]:
    """Files and identifiers that contain struck words.

    Names of test functions are exempt: they are sentences and may use any English word.
    """
    struck = re.compile(rf"(?:^| )(?:{pattern})(?: |$)")
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources(parts)
        for name in identifiers_of(path)
        if not name.startswith("test_") and struck.search(words_of(name))
    }
    return sorted(found)


@pytest.mark.parametrize("pattern", STRUCK)
def test_struck_names_do_not_come_back(pattern: str) -> None:
    assert not uses_of(pattern, PARTS), f"say {STRUCK[pattern]}: {uses_of(pattern, PARTS)}"


@pytest.mark.parametrize("pattern", STRUCK_IN_PACKAGE)
def test_struck_names_do_not_come_back_to_the_package(pattern: str) -> None:
    found = uses_of(pattern, PACKAGE)
    assert not found, f"say {STRUCK_IN_PACKAGE[pattern]}: {found}"


def glossary() -> list[str]:
    """The terms of ARCHITECTURE.md's glossary."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Glossary")[2]
    rows = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)[1:]
    return [term.strip() for row in rows if not row.startswith("-") for term in row.split(",")]


def occurs(term: str, words: str) -> bool:
    """Whether ``words`` contain the words of a term, also in the plural."""
    return re.search(rf" {words_of(term)}s? ", words) is not None


@cache
def words_of_identifiers() -> str:
    """The words of all identifiers of the package and its kernels."""
    names = sorted(set().union(*map(identifiers_of, sources(PACKAGE))))
    return f" {' | '.join(map(words_of, names))} "


@cache
def words_of_prose() -> str:
    """The words of all docstrings and comments of the package and its kernels."""
    return f" {' | '.join(words_of(prose_of(path)) for path in sources(PACKAGE))} "


@pytest.mark.parametrize("term", ONE_MEANING)
def test_names_with_one_meaning_are_used(term: str) -> None:
    assert occurs(term, words_of_identifiers())


@pytest.mark.parametrize("term", glossary())
def test_terms_of_the_glossary_occur(term: str) -> None:
    assert occurs(term, words_of_identifiers()) or occurs(term, words_of_prose())


def test_terms_are_found_as_whole_words() -> None:
    assert occurs("bin edges", " the bin edges of ") and occurs("code", " all codes are ")
    assert not occurs("gain", " once again ") and not occurs("phantom", words_of_identifiers())
    assert not occurs("grove", words_of_prose())


def test_words_of_finds_names_in_every_spelling() -> None:
    """`words_of` handles every spelling of a name, and `glossary` finds the terms."""
    assert words_of("_HostParcel") == "host parcel" and words_of("MAX_ROWS2") == "max rows 2"
    assert len(glossary()) > 20 and "frontier" in glossary()


# ---- constants, classes and types ----------------------------------------------------------------

_CONSTANT_OR_TYPE = re.compile(r"_?[A-Z][A-Za-z0-9_]*")


def constants_and_types_of(text: str) -> Iterator[str]:
    """Names of the constants, classes and type aliases that a module defines, not imports."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [part for target in targets for part in ast.walk(target)]
            found = [part.id for part in names if isinstance(part, ast.Name)]
            yield from filter(_CONSTANT_OR_TYPE.fullmatch, found)


def test_a_constant_or_type_has_one_definition() -> None:
    """Private constants, such as masks, may be repeated with the same value."""
    modules: dict[str, list[str]] = defaultdict(list)
    for path in SOURCES:
        for name in constants_and_types_of(path.read_text(encoding="utf-8")):
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
    text = "from a import B\nC, _D = 1, 2\nE: int = 3\nf = 4\nclass G: H = 5\nKind = int | str"
    assert list(constants_and_types_of(text)) == ["C", "_D", "E", "G", "Kind"]


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
