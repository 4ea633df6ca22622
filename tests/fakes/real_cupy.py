"""Compares gpuboost and the tests' stand-in for CuPy with the real CuPy, without a device.

Run it as a script in an environment that only has gpuboost with the extra ``cuda12`` or ``cuda13``.
It prints all errors and all names that cannot be compared, and exits with 1 if there are errors.
"""

from __future__ import annotations

import ast
import ctypes
import importlib
import pkgutil
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.append(str(REPOSITORY))  # last, so that the installed gpuboost is imported

from tests.fakes.signatures import (  # noqa: E402
    compare_class,
    compare_names,
    missing,
    signature_of,
)

PRIVATE = frozenset({"machine", "waits_for", "end_by_error"})  # the stand-in's own names
KERNELS = ("histogram/histogram_values.cu", "boosting/gradients.cu")
NEEDS_OPTIONAL = {"gpuboost.explain.shap_explainer": "shap"}  # imported once the user has shap
CAPABILITY = 90
unknown: list[str] = []


def import_everything() -> Iterator[str]:
    """Check that every module of the package can be imported."""
    import gpuboost

    if Path(gpuboost.__file__).is_relative_to(REPOSITORY):
        yield "gpuboost is the one of the checkout: run this as a script, after pip install"
    for found in pkgutil.walk_packages(gpuboost.__path__, "gpuboost."):
        if found.name != "gpuboost.__main__":
            try:
                importlib.import_module(found.name)
            except ModuleNotFoundError as error:
                if NEEDS_OPTIONAL.get(found.name) != error.name:
                    yield f"{found.name} cannot be imported: {error!r}"
            except Exception as error:
                yield f"{found.name} cannot be imported: {error!r}"


def load_libraries() -> Iterator[str]:
    """Check that CuPy's sparse matrices find their libraries in this environment."""
    from cupyx import cusparse
    from cupyx.scipy.sparse import csr_matrix

    if not (callable(csr_matrix) and cusparse.check_availability("spmv")):
        yield "cupyx.cusparse has no spmv"
    major = ctypes.c_int(-1)
    if _mapped("libcusparse").cusparseGetProperty(0, ctypes.byref(major)) or major.value < 12:
        yield f"libcusparse is of version {major.value}"
    linker_major, minor = ctypes.c_uint(), ctypes.c_uint()
    pair = (ctypes.byref(linker_major), ctypes.byref(minor))
    if _mapped("libnvJitLink").nvJitLinkVersion(*pair) or linker_major.value < 12:
        yield f"libnvJitLink is of version {linker_major.value}.{minor.value}"


def _mapped(name: str) -> ctypes.CDLL:
    """Path of a library that this process has loaded."""
    maps = Path("/proc/self/maps").read_text().split()
    paths = {path for path in maps if Path(path).name.startswith(f"{name}.so")}
    if len(paths) != 1 or not Path(*paths).is_relative_to(sys.prefix):
        raise ImportError(f"{name} should be loaded from {sys.prefix}, found: {sorted(paths)}")
    return ctypes.CDLL(paths.pop())


def compile_kernels() -> Iterator[str]:
    """Check that NVRTC compiles kernels with the backend's options, and caches the code."""
    import cupy

    from gpuboost.backends.cuda.runtime.compile import CubinStore
    from gpuboost.backends.cuda.runtime.source import kernel_source

    with tempfile.TemporaryDirectory() as folder:
        store = CubinStore(cupy.cuda.nvrtc, CAPABILITY, Path(folder))
        for name in KERNELS:
            code = store.machine_code(kernel_source(name, {}), name)
            if not code.startswith(b"\x7fELF"):
                yield f"{name}: no machine code"
        if len(list(Path(folder).glob("*.cubin"))) != len(KERNELS):
            yield "machine code was not kept"


def compare_stand_in() -> Iterator[str]:
    """Check that names and parameters of the stand-in exist in CuPy."""
    import cupy

    from tests.fakes import fake_cuda, fake_cupy

    fake: Any = fake_cupy.make(fake_cupy.Machine())
    yield from compare_names("cupy", vars(fake), cupy, unknown, PRIVATE)
    for stand_in, names in ((fake_cuda.Device, ("id",)), (fake_cuda.Function, ("ptr",))):
        real = getattr(cupy.cuda, stand_in.__name__)
        yield from compare_class(f"cupy.cuda.{stand_in.__name__}", stand_in, real, unknown, PRIVATE)
        yield from missing(f"cupy.cuda.{stand_in.__name__}", names, real)
    pool = vars(fake.get_default_memory_pool())
    yield from compare_names("cupy.cuda.MemoryPool", pool, cupy.cuda.MemoryPool, unknown)
    members = {*fake_cupy.METHODS, *fake_cupy.VIEWING, *fake_cupy.FACTS}
    yield from missing("cupy.ndarray", sorted(members), cupy.ndarray)
    attributes = (f"cudaDevAttr{name}" for name in fake_cuda.Device.attributes)
    yield from missing("cupy.cuda.runtime", attributes, cupy.cuda.runtime)
    yield from _compare_hook(fake, cupy.cuda.MemoryHook)


def _compare_hook(fake: Any, real: Any) -> Iterator[str]:
    """Check that memory hooks receive the arguments that CuPy documents."""
    given: dict[str, set[str]] = {}

    class Hook(fake.cuda.MemoryHook):
        def malloc_postprocess(self, **facts: Any) -> None:
            given["malloc_postprocess"] = set(facts)

        def free_postprocess(self, **facts: Any) -> None:
            given["free_postprocess"] = set(facts)

    with Hook():
        fake.zeros(3)
    for event, names in given.items():
        told = set(re.findall(r"(\w+)\s*\(", getattr(real, event).__doc__))
        yield from (f"{event}({name}=...): CuPy does not tell it" for name in names - told)
    if len(given) != 2:
        yield f"hooks of memory were called for {sorted(given)} alone"


def check_calls() -> Iterator[str]:
    """Check the package's calls of CuPy: arguments must exist, and be in NumPy's order."""
    import cupy

    import gpuboost

    places = {"xp": cupy, "cupy": cupy, "nvrtc": cupy.cuda.nvrtc, "driver": cupy.cuda.driver}
    checked = 0
    for path in sorted(Path(gpuboost.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            match = re.fullmatch(
                r"(?:[\w.]+\.)?(xp|cupy|nvrtc|driver)((?:\.\w+)+)", ast.unparse(node.func)
            )
            if match:
                checked += 1
                names = match[2].split(".")[1:]
                where = f"{path.name}:{node.lineno}: {ast.unparse(node)}"
                yield from (f"{where}: {why}" for why in _misfit(node, names, places[match[1]]))
    if checked < 150:
        yield f"only {checked} calls of CuPy were found in the package"


def _misfit(call: ast.Call, names: Sequence[str], place: Any) -> Iterator[str]:
    """The errors of one call."""
    try:
        real = reduce(getattr, names, place)
    except AttributeError as error:
        yield str(error)
        return
    signature = signature_of(real)
    if signature is None:
        unknown.append(".".join(names))
        return
    keywords = {keyword.arg: None for keyword in call.keywords if keyword.arg}
    try:
        signature.bind_partial(*call.args, **keywords)
    except TypeError as error:
        yield f"{error} in {signature}"
    of_numpy = signature_of(getattr(np, names[0], None))
    if of_numpy is not None:
        ours, theirs = (list(one.parameters)[1 : len(call.args)] for one in (signature, of_numpy))
        if ours != theirs:
            yield f"CuPy's arguments are {ours}, NumPy's {theirs}"


def main() -> int:
    """Run all checks, and return 1 if there are errors."""
    offenders = 0
    checks = (import_everything, load_libraries, compile_kernels, compare_stand_in, check_calls)
    for check in checks:
        try:
            found = list(check())
        except Exception as error:
            traceback.print_exc()
            found = [f"{type(error).__name__}: {error}"]
        offenders += len(found)
        print(f"{'FAILED' if found else 'ok':6s} {check.__doc__}")
        print("".join(f"       {one}\n" for one in found), end="")
    print("nothing tells the parameters of:", ", ".join(sorted(set(unknown))) or "none")
    return int(offenders > 0)


if __name__ == "__main__":
    sys.exit(main())
