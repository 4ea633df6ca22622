"""Builds shared objects with g++: the runtime once per flavour, each kernel source once.

Results are cached in a user's folder, by the hash of all inputs.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuboost.backends.cuda.runtime.signatures import find_kernels
from tests.cuda_shim.source import splice_prelude

HERE = Path(__file__).resolve().parent
INCLUDE = HERE / "include"
RUNTIME = HERE / "runtime"
DAYS_KEPT = 14

# Products are not contracted into sums, and there is no -march with instructions for that. Without
# -fno-gnu-unique, two shared objects in one process would share their inline variables.
_BASE = ("-std=c++17", "-O2", "-g1", "-fPIC", "-ffp-contract=off", "-fno-gnu-unique")
# CUDA allows memory to be read as another type; g++ needs an option for it.
_KERNEL = (*_BASE, "-fno-strict-aliasing", "-fno-exceptions", "-w", "-Werror=return-type")
_UNDEFINED = (
    "bounds,shift-exponent,signed-integer-overflow,integer-divide-by-zero,float-cast-overflow"
)


class CompileError(RuntimeError):
    """g++ rejected a source; the message is the compiler's."""


@dataclass(frozen=True)
class Flavour:
    """How kernels are compiled and linked, and the features of their runtime."""

    defines: tuple[str, ...] = ()
    compile_flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    guards_arrays: bool = False


FLAVOURS = {
    "plain": Flavour(),
    "guard": Flavour(guards_arrays=True),
    "ucontext": Flavour(defines=("-DCUDA_SHIM_UCONTEXT",)),
    # Compiled for a sanitizer and linked without it: the shim's runtime implements its calls.
    "race": Flavour(defines=("-DCUDA_SHIM_RACE",), compile_flags=("-fsanitize=thread",)),
    "undefined": Flavour(compile_flags=(f"-fsanitize={_UNDEFINED}",)),
    "asan": Flavour(
        defines=("-DCUDA_SHIM_ASAN",),
        compile_flags=("-fsanitize=address",),
        link_flags=("-fsanitize=address",),
    ),
}


def why_not_available() -> str | None:
    """The reason why kernels cannot be compiled, or None if they can."""
    if not sys.platform.startswith("linux"):
        return f"the CUDA shim runs on Linux, this is {sys.platform}"
    if shutil.which(compiler()) is None:
        return f"the CUDA shim needs the C++ compiler {compiler()!r}: install g++, or set CXX"
    return None


def must_be_available() -> bool:
    """Whether tests that need a compiler fail without one, rather than being skipped."""
    return os.environ.get("GPUBOOST_REQUIRE_COMPILER") == "1"


def compiler() -> str:
    return os.environ.get("CXX", "g++")


@functools.cache
def _compiler_version() -> str:
    return run_tool([compiler(), "--version"]).splitlines()[0]


def run_tool(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompileError(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


@functools.cache
def cache_folder() -> Path:
    """The folder of built objects: GPUBOOST_SHIM_CACHE, or one in the user's cache folder.

    If this cannot be written to, the process uses a new temporary folder.
    """
    home_cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    default = Path(home_cache) / "gpuboost" / "cuda_shim"
    folder = Path(os.environ.get("GPUBOOST_SHIM_CACHE") or default)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _forget_old(folder)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="gpuboost_cuda_shim_"))
    return folder


def _forget_old(folder: Path) -> None:
    oldest = time.time() - DAYS_KEPT * 24 * 3600
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # removed by another process
            if path.suffix in {".so", ".o", ".tmp"} and path.stat().st_mtime < oldest:
                path.unlink()


@contextlib.contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Wait while another process builds this object; 256 lock files serve all objects."""
    import fcntl  # not available on Windows

    with target.with_name(f"{target.stem.rpartition('-')[2][:2]}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join((_compiler_version(), *parts)).encode()).hexdigest()[:24]


def _header_texts(folder: Path) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in sorted(folder.iterdir()))


def _build(target: Path, compile_flags: Sequence[str], source: Path, link: Sequence[str]) -> Path:
    """The shared object, which is built if it does not exist."""
    with _alone(target):
        if not target.exists():
            _compile_and_link(target, compile_flags, source, link)
    return target


def _compile_and_link(
    target: Path, compile_flags: Sequence[str], source: Path, link: Sequence[str]
) -> None:
    """Compile and link in two steps, so that the sanitizer is not linked."""
    unfinished = target.with_suffix(f".{os.getpid()}.o")
    finished = unfinished.with_suffix(".tmp")
    try:
        run_tool(
            [compiler(), *compile_flags, "-x", "c++", "-c", str(source), "-o", str(unfinished)]
        )
        shared = ("-shared", "-Wl,-Bsymbolic", str(unfinished), "-o", str(finished))
        run_tool([compiler(), *shared, *link])
        os.replace(finished, target)
    finally:
        unfinished.unlink(missing_ok=True)
        finished.unlink(missing_ok=True)


@functools.cache
def build_runtime(flavour_name: str) -> Path:
    """The shared object of the runtime, for one flavour."""
    flavour = FLAVOURS[flavour_name]
    flags = (*_BASE, *flavour.defines)
    digest = _digest(_header_texts(INCLUDE), _header_texts(RUNTIME), *flags)
    target = cache_folder() / f"runtime-{flavour_name}-{digest}.so"
    return _build(target, flags, RUNTIME / "runtime.cpp", ("-ldl", "-lrt"))


def build_kernels(source_text: str, file_name: str, flavour_name: str) -> Path:
    """The shared object of one source: shim headers, prelude, kernels and entry points."""
    reason = why_not_available()
    if reason is not None:
        raise CompileError(reason)
    flavour = FLAVOURS[flavour_name]
    runtime = build_runtime(flavour_name)
    text = _translation_unit(source_text, file_name)
    flags = (*_KERNEL, *flavour.defines, *flavour.compile_flags, f"-I{INCLUDE}")
    digest = _digest(_header_texts(INCLUDE), text, str(runtime), *flags)
    stem = Path(file_name).stem
    target = cache_folder() / f"{stem}-{flavour_name}-{digest}.so"
    if target.exists():
        return target
    # Debug information contains the name of the compiled file, so it has the name of the source.
    with tempfile.TemporaryDirectory(prefix="cuda_shim_") as folder:
        source = Path(folder) / Path(file_name).name
        source.write_text(text, encoding="utf-8")
        return _build(target, flags, source, (str(runtime), *flavour.link_flags, "-lm"))


def _translation_unit(source_text: str, file_name: str) -> str:
    entries = "".join(
        f"SHIM_KERNEL({kernel.name}, {kernel.bound})\n" for kernel in find_kernels(source_text)
    )
    return (
        '#include "cuda_device.h"\n'
        + splice_prelude(source_text, file_name)
        + f'#include "kernel_entry.h"\n{entries}'
    )


def library_path(name: str) -> str:
    """Full path of one of the compiler's libraries."""
    path = run_tool([compiler(), f"-print-file-name={name}"]).strip()
    if not Path(path).is_absolute():
        raise CompileError(f"{compiler()} has no {name}: install it, or use another flavour")
    return str(Path(path).resolve())
