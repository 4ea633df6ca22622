"""How large files and functions of the package are; every test run ends with the largest."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "gpuboost"
SOURCES = sorted(PACKAGE.rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def functions_of(path: Path) -> Iterator[tuple[int, str]]:
    """Length of every function without its docstring."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            doc = ast.get_docstring(node, clean=False)
            length = (node.end_lineno or 0) - node.lineno + 1
            yield length - (doc.count("\n") + 1 if doc else 0), f"{module_of(path)}.{node.name}"


def methods_of_classes(path: Path) -> Iterator[tuple[str, int]]:
    """Every class and the number of functions in its body."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            yield node.name, sum(isinstance(each, ast.FunctionDef) for each in node.body)


def largest_files() -> list[tuple[int, str]]:
    """Lines and names of all modules, the largest first."""
    return sorted(((len(p.read_text().splitlines()), module_of(p)) for p in SOURCES), reverse=True)


def largest_functions() -> list[tuple[int, str]]:
    """Lines and names of all functions, the largest first."""
    return sorted((f for path in SOURCES for f in functions_of(path)), reverse=True)
