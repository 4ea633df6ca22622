"""Sizes of the files and functions of package and kernels; every test run prints the largest."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "gpuboost"
SOURCES = sorted(PACKAGE.rglob("*.py"))
KERNELS = sorted((PACKAGE.parent / "kernels").rglob("*.cu*"))
_NO_CODE = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    tokenize.ENDMARKER,
)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_SIGNATURE = re.compile(r"(\w+)\s*\([^{};]*\)\s*(const)?\s*$")  # before the brace of a body
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def functions_of(path: Path) -> Iterator[tuple[int, str]]:
    """Length in lines, without the docstring, and qualified name of every function."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            doc = ast.get_docstring(node, clean=False)
            length = (node.end_lineno or 0) - node.lineno + 1
            yield length - (doc.count("\n") + 1 if doc else 0), f"{module_of(path)}.{node.name}"


def methods_of_classes(path: Path) -> Iterator[tuple[str, int]]:
    """Name of every class and number of functions in its body."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            yield node.name, sum(isinstance(each, ast.FunctionDef) for each in node.body)


def largest_files() -> list[tuple[int, str]]:
    """Lines and paths of all modules and kernel files, the largest first."""
    root, paths = PACKAGE.parent, (*SOURCES, *KERNELS)
    lengths = {str(path.relative_to(root)): len(path.read_text().splitlines()) for path in paths}
    return sorted(((length, name) for name, length in lengths.items()), reverse=True)


def largest_functions() -> list[tuple[int, str]]:
    """Lines and names of all functions, the largest first."""
    return sorted((f for path in SOURCES for f in functions_of(path)), reverse=True)


def largest_kernel_functions() -> list[tuple[int, str]]:
    """Lines and names of the functions of all kernels, the largest first."""
    return sorted(f for path in KERNELS for f in functions_of_kernels(path.read_text()))[::-1]


def lines_of_docstrings(text: str) -> set[int]:
    """Line numbers of all docstrings of a module."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            lines.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return lines


def code_lines_of_python(text: str) -> int:
    """Lines of a module without blank lines, comments and docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - lines_of_docstrings(text))


def code_lines_of_kernels(text: str) -> int:
    """Lines of a CUDA file without blank lines and comments."""
    return _n_lines(_COMMENT.sub("", text))


def functions_of_kernels(text: str) -> Iterator[tuple[int, str]]:
    """Lines of the body, braces included, and name of every function of a CUDA file."""
    text = re.sub(r"^#.*$", "", _COMMENT.sub("", text), flags=re.MULTILINE)
    text = re.sub(r"__launch_bounds__\([^)]*\)", "", text)
    opened: list[tuple[int, str | None]] = []
    since = 0  # the end of the last statement or block
    for place, letter in enumerate(text):
        if letter == "{":
            found = _SIGNATURE.search(text[since:place])
            inside = any(name for _, name in opened)
            opened.append((place, found[1] if found and not inside else None))
        elif letter == "}":
            start, name = opened.pop()
            if name:
                yield _n_lines(text[start : place + 1]), name
        since = place + 1 if letter in "{};" else since


def _n_lines(text: str) -> int:
    return sum(1 for line in text.splitlines() if line.strip())


def code_lines() -> dict[str, int]:
    """Numbers of lines of code in the package and the kernels, and of docstring lines."""
    texts = [path.read_text() for path in SOURCES]
    return {
        "gpuboost": sum(map(code_lines_of_python, texts)),
        "kernels": sum(code_lines_of_kernels(path.read_text()) for path in KERNELS),
        "docstrings": sum(len(lines_of_docstrings(text)) for text in texts),
    }


if __name__ == "__main__":
    print(code_lines(), largest_files()[:5], largest_functions()[:5])
