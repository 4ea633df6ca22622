"""Which programs of the Numba backend lie on disk as machine code, told without importing Numba.

Beside what Numba keeps, the backend leaves an empty file for each program that is compiled. Its
name holds everything that makes machine code stale: the versions of Python and Numba, the kind of
processor, and a digest of the sources.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

GROW_ONE, GROW_MANY, PREDICT = "grow-one-channel", "grow-many-channels", "predict"
PROGRAMS = (GROW_ONE, GROW_MANY, PREDICT)
SUFFIX = ".compiled"

_NUMBA_SOURCES = Path(__file__).parent / "numba"
_ENGINE = Path(__file__).parents[1] / "engine"
# Modules of the engine whose functions are compiled, or whose constants are compiled in.
ENGINE_MODULES = (
    *("numerics", "randomness", "criteria", "task", "fixed_point", "targets", "order_statistics"),
    *("losses/formulas", "losses/base", "losses/table", "ensembles/boosting"),
)


def sources() -> list[Path]:
    """All files that compiled code is made from."""
    numba = sorted(_NUMBA_SOURCES.rglob("*.py"))
    return [*numba, *(_ENGINE / f"{name}.py" for name in ENGINE_MODULES)]


@cache
def source_stamp() -> str:
    """Digest of all files that compiled code is made from."""
    digest = hashlib.sha256()
    for source in sources():
        digest.update(source.read_bytes())
    return digest.hexdigest()


def installation() -> str:
    """Versions and processor that machine code is for."""
    python = f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
    return f"{python}-{metadata.version('numba')}-{platform.machine()}"


def marker(program: str) -> str:
    """Name of the file that says that a program is compiled."""
    return f"{program}.{installation()}-{source_stamp()[:16]}{SUFFIX}"


def cache_folders() -> list[Path]:
    """Where Numba keeps the machine code of the backend, in the order in which it looks.

    For each folder of sources: the folder the user chose; else beside the sources; else, where
    these cannot be written, the user's cache. In the first and the last, a folder by the digest of
    the sources' path.
    """
    folders = sorted({path.parent for path in _NUMBA_SOURCES.rglob("*.py")})
    return [cache for folder in folders for cache in _caches_of(folder)]


def _caches_of(folder: Path) -> list[Path]:
    """Where Numba keeps the machine code of the sources in one folder."""
    path = os.path.abspath(folder)
    own = f"{os.path.basename(path)}_{hashlib.sha1(path.encode()).hexdigest()}"
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return [Path(chosen) / own]
    return [folder / "__pycache__", _user_cache() / own]


def _user_cache() -> Path:
    """Numba's folder in the user's cache."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")
        return Path(local) / "numba" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "numba"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "numba"


def compiled_programs() -> dict[str, Path]:
    """Programs that need no compiler here, and the folder that each is in."""
    try:
        markers = {program: marker(program) for program in PROGRAMS}
    except metadata.PackageNotFoundError:  # there is no Numba
        return {}
    return {
        program: folder
        for program, name in markers.items()
        for folder in reversed(cache_folders())
        if (folder / name).is_file()
    }


def mark_compiled(folder: Path, program: str) -> None:
    """Say that a program lies in the folder; forget what other sources made of it."""
    name = marker(program)
    for old in folder.glob(f"{program}.{installation()}-*{SUFFIX}"):
        if old.name != name:
            old.unlink(missing_ok=True)
    (folder / name).touch()
