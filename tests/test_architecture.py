"""Imports go one way, optional libraries stay where they belong, files stay small."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sizes import PACKAGE, SOURCES, largest_files, largest_functions, module_of

LAYERS = ("engine", "data", "backends", "estimators")  # lowest first
ABOVE = len(LAYERS)  # the package's own files: cli, demo, __init__


def layer(module: str) -> int:
    """Height of ``gpuboost.x.y`` in the stack."""
    parts = module.split(".")
    return LAYERS.index(parts[1]) if len(parts) > 1 and parts[1] in LAYERS else ABOVE


def absolute(path: Path, node: ast.ImportFrom) -> str:
    """The module that an import names, relative ones resolved."""
    if not node.level:
        return node.module or ""
    package = path.relative_to(PACKAGE.parent).parts[: -node.level]
    return ".".join((*package, *([node.module] if node.module else [])))


def imports_of(path: Path) -> Iterator[tuple[str, bool]]:
    """Modules a file imports, and whether only for type checking."""
    tree = ast.parse(path.read_text())
    typing_only: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            typing_only.update(child for part in node.body for child in ast.walk(part))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name, node in typing_only
        elif isinstance(node, ast.ImportFrom):
            module = absolute(path, node)
            folder = PACKAGE.parent / module.replace(".", "/")
            files = [n.name for n in node.names if (folder / f"{n.name}.py").exists()]
            if len(files) < len(node.names):
                yield module, node in typing_only
            for name in files:
                yield f"{module}.{name}", node in typing_only


def test_everything_public_can_be_had_without_docstrings() -> None:
    program = "import gpuboost; [getattr(gpuboost, name) for name in gpuboost.__all__]"
    subprocess.run([sys.executable, "-OO", "-c", program], check=True)


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_imports_go_down(path: Path) -> None:
    own = module_of(path)
    for module, typing_only in imports_of(path):
        if module.split(".")[0] == "gpuboost" and module != "gpuboost" and not typing_only:
            assert layer(module) <= layer(own), f"{own} imports {module}, which lies above it"


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_device_libraries_stay_in_the_backends(path: Path) -> None:
    for module, typing_only in imports_of(path):
        if module.split(".")[0] in ("cupy", "numba") and not typing_only:
            assert module_of(path).startswith("gpuboost.backends."), f"{path} imports {module}"


# Their bits are not the same in every library; `engine.numerics` has exp and log.
OF_THE_LIBRARY = """
    acosh arctan arctan2 asinh atanh average cbrt cos cosh dot einsum exp exp2 expm1 inner log log10
    log1p logaddexp logaddexp2 matmul pow power sin sinh tan tanh tensordot vdot
"""


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_no_function_whose_bits_are_a_librarys(path: Path) -> None:
    modules, names = ("cupy", "math", "np", "numpy", "xp"), OF_THE_LIBRARY.split()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in names:
            owner = ast.unparse(node.value).split(".")[-1]
            is_call = owner in modules or "array_module" in owner or "runtime.xp" in owner
            assert not is_call, f"{module_of(path)}, line {node.lineno}: {ast.unparse(node)}"


def test_no_circles() -> None:
    graph = {
        module_of(path): {m for m, typing_only in imports_of(path) if not typing_only}
        for path in SOURCES
    }
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " > ".join((*trail, module))
        if module in done or module not in graph:
            return
        for other in graph[module] - {module}:
            visit(other, (*trail, module))
        done.add(module)

    for module in graph:
        visit(module, ())


def test_import_is_light() -> None:
    code = (
        "import sys, sklearn.ensemble; before = set(sys.modules); import gpuboost; "
        "from gpuboost import RandomForestClassifier; "
        "heavy = {'numba', 'cupy', 'pandas', 'polars', 'pyarrow', 'tqdm', 'matplotlib'} "
        "& (set(sys.modules) - before); print(sorted(heavy)); sys.exit(bool(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_lines_of_kernels() -> None:
    sources = sorted((Path(__file__).parents[1] / "kernels").rglob("*.cu*"))
    assert len(sources) > 20
    for path in sources:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert not [number for number, line in enumerate(lines, 1) if len(line) > 100], path.name


def test_sizes() -> None:
    assert largest_files()[0][0] <= 450, largest_files()[:5]
    assert largest_functions()[0][0] <= 60, largest_functions()[:5]
