"""Imports go one way, only backends import optional libraries, and files stay small."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sizes import (
    PACKAGE,
    SOURCES,
    code_lines,
    largest_files,
    largest_functions,
    largest_kernel_functions,
    methods_of_classes,
    module_of,
)

# The folders (and single files) of the package, the lowest first. A file may import from its own
# entry and from earlier ones; imports for type checking count too. The folders in `RESERVED` have
# no files yet.
_FLOORS = """
    backends.compiling
    engine  engine.losses  engine.growth  engine.ensembles  engine.explanations
    data
    backends  backends.host
    backends.numpy
    backends.numba.intrinsics  backends.numba.codegen  backends.numba.array_access
    backends.numba.lowering  backends.numba.pipeline  backends.numba.references
    backends.numba.background  backends.numba.compiler
    backends.numba.threads  backends.numba.common  backends.numba.splits
    backends.numba.depth_first  backends.numba.level_wise
    backends.numba.boosting  backends.numba.predict  backends.numba.explain  backends.numba
    backends.cuda.runtime  backends.cuda.data  backends.cuda.sampling  backends.cuda.level
    backends.cuda.growth  backends.cuda.predict  backends.cuda.boosting  backends.cuda.adaboost
    backends.cuda.explain  backends.cuda.blocks  backends.cuda
    blocks  distributed
    backends.select  backends.device_arrays
    io  ranking
    estimators.docstrings  estimators.model  estimators.inputs  estimators.fitting
    estimators.trees  estimators.forest  estimators.adaboost  estimators.boosting
    estimators.memory  estimators.imported  estimators  estimators.files
    interchange  callbacks
    explain  plots  model_selection
    cli
"""
FLOORS = _FLOORS.split()
RESERVED = {
    "distributed": "fits by several processes and machines",
    "ranking": "queries, and losses over them",
    "model_selection": "folds and searches over shared bins",
}


def floor(module: str) -> int:
    """Index in `FLOORS` of the longest entry that ``gpuboost.x.y`` begins with."""
    parts = module.split(".")[1:]
    for end in range(len(parts), 0, -1):
        if ".".join(parts[:end]) in FLOORS:
            return FLOORS.index(".".join(parts[:end]))
    return len(FLOORS)  # the package's own files


def absolute(path: Path, node: ast.ImportFrom) -> str:
    """Full name of the module that a ``from`` statement imports from."""
    if not node.level:
        return node.module or ""
    package = path.relative_to(PACKAGE.parent).parts[: -node.level]
    return ".".join((*package, *([node.module] if node.module else [])))


def imports_of(path: Path) -> Iterator[tuple[str, bool]]:
    """The modules that a file imports, each with whether it is only for type checking."""
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
            modules = [n.name for n in node.names if is_module(folder / n.name)]
            if len(modules) < len(node.names):
                yield module, node in typing_only
            for name in modules:
                yield f"{module}.{name}", node in typing_only


def is_module(path: Path) -> bool:
    """Whether a path without suffix is that of a module or of a folder of modules."""
    return path.is_dir() or path.with_suffix(".py").exists()


def test_public_names_import_without_docstrings() -> None:
    program = "import gpuboost; [getattr(gpuboost, name) for name in gpuboost.__all__]"
    subprocess.run([sys.executable, "-OO", "-c", program], check=True)


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_imports_go_down(path: Path) -> None:
    """Only the command line imports the package itself, with its public names."""
    own = module_of(path)
    for module, _ in imports_of(path):
        is_public = module == "gpuboost" and own.startswith("gpuboost.cli")
        if module.split(".")[0] == "gpuboost" and not is_public:
            assert floor(module) <= floor(own), f"{own} imports {module}, which lies above it"


def test_every_folder_is_listed_in_floors() -> None:
    """The root has no modules of its own, and every entry has files unless it is reserved."""
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py"}
    modules = [module_of(path).removeprefix("gpuboost.") for path in SOURCES]
    for entry in FLOORS:
        has_files = any(module == entry or module.startswith(f"{entry}.") for module in modules)
        assert has_files != (entry in RESERVED), entry
    assert set(RESERVED) < set(FLOORS)


def test_folders_are_small() -> None:
    """No folder has more than 16 files, and `kernels` has no Python files."""
    root = PACKAGE.parent
    kernels = root / "kernels"
    for top in (PACKAGE, kernels, root / "tests", root / "benchmarks"):
        folders = [top, *(path for path in top.rglob("*") if path.is_dir())]
        for folder in folders:
            if folder.name != "__pycache__":
                files = [path.name for path in folder.iterdir() if path.is_file()]
                assert len(files) <= 16, f"{folder} has {len(files)} files: {sorted(files)}"
    assert not list(kernels.rglob("*.py"))
    names = [path.name for path in kernels.rglob("*.cu*")]
    assert len(set(names)) == len(names), "line numbers in machine code name files without folders"


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_only_backends_import_cupy_and_numba(path: Path) -> None:
    for module, typing_only in imports_of(path):
        if module.split(".")[0] in ("cupy", "numba") and not typing_only:
            assert module_of(path).startswith("gpuboost.backends."), f"{path} imports {module}"


# The results of these functions differ in the last bit between libraries; `engine.numerics` has
# exact versions of exp and log.
OF_THE_LIBRARY = """
    acosh arctan arctan2 asinh atanh average cbrt cos cosh dot einsum exp exp2 expm1 inner log log10
    log1p logaddexp logaddexp2 matmul pow power sin sinh tan tanh tensordot vdot
"""


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_no_functions_whose_last_bit_depends_on_the_library(path: Path) -> None:
    modules, names = ("cupy", "math", "np", "numpy", "xp"), OF_THE_LIBRARY.split()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in names:
            owner = ast.unparse(node.value).split(".")[-1]
            is_call = owner in modules or "array_module" in owner or "runtime.xp" in owner
            assert not is_call, f"{module_of(path)}, line {node.lineno}: {ast.unparse(node)}"


def test_no_import_cycles() -> None:
    graph = {module_of(path): {module for module, _ in imports_of(path)} for path in SOURCES}
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


def test_kernel_lines_have_at_most_100_columns() -> None:
    sources = sorted((Path(__file__).parents[1] / "kernels").rglob("*.cu*"))
    assert len(sources) > 20
    for path in sources:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert not [number for number, line in enumerate(lines, 1) if len(line) > 100], path.name


def test_sizes() -> None:
    assert largest_files()[0][0] < 400, largest_files()[:5]
    assert largest_functions()[0][0] < 40, largest_functions()[:5]
    assert largest_kernel_functions()[0][0] < 40, largest_kernel_functions()[:5]
    lines = code_lines()
    assert lines["gpuboost"] + lines["kernels"] <= 45_850, lines


MAX_METHODS = 20


def test_classes_are_small() -> None:
    """No class has more than `MAX_METHODS` functions in its body, properties included."""
    offenders = {
        name: n_methods
        for path in SOURCES
        for name, n_methods in methods_of_classes(path)
        if n_methods > MAX_METHODS
    }
    assert not offenders, f"classes of more than {MAX_METHODS} methods: {offenders}"
