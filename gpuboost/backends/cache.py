"""The user's cache folder: compiled kernels, measured speeds, and markers of Numba programs.

The cache is optional: if its folder cannot be written or a file is damaged, kernels are compiled
again, and ``device="auto"`` uses default speeds and assumes that no Numba program is compiled.
Kernels are machine code, so a folder that other users can write to is not used (`check_folder`).
Numba stores its machine code itself. For each program (one of `PROGRAMS`), a marker file in the
cache names the folder of the machine code, so that ``device="auto"`` finds compiled programs
without importing Numba. A marker is for one installation and state of its sources, one version of
Python and of Numba, one processor architecture and one ``NUMBA_CACHE_DIR``.
"""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import sys
import tempfile
import warnings
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

GROW_ONE, GROW_MANY, PREDICT = "grow-one-channel", "grow-many-channels", "predict"
BIN, EXPLAIN = "bin", "explain"
PROGRAMS = (GROW_ONE, GROW_MANY, PREDICT, BIN, EXPLAIN)
SUFFIX = ".compiled"

_DIGEST_BYTES = hashlib.sha256().digest_size
_NUMBA_SOURCES = Path(__file__).parent / "numba"
_ENGINE = Path(__file__).parents[1] / "engine"
# Modules of the engine whose functions or constants are part of the compiled code.
ENGINE_MODULES = (
    *("numerics", "randomness", "criteria", "task", "fixed_point", "targets", "order_statistics"),
    *("losses/formulas", "losses/base", "losses/table", "losses/links", "ensembles/boosting"),
    *("newton", "quantise"),
)


def cache_folder() -> Path:
    """The cache folder: ``GPUBOOST_CACHE_DIR``, else gpuboost's folder in the user's cache."""
    chosen = os.environ.get("GPUBOOST_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")
        return Path(local) / "gpuboost" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gpuboost"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuboost"


class UnsafeFolderError(PermissionError):
    """Other users can write to a folder, so its files may be theirs."""


def check_folder(folder: Path) -> None:
    """Check that only this user and root can write to a folder of the cache.

    Windows has neither owners by number nor modes, so nothing is checked there: the folder has the
    access control list of the one that it was created in.

    Raises
    ------
    UnsafeFolderError
        Its owner is another user, or its mode lets a group or all users write.
    OSError
        It is missing, or cannot be read.
    """
    if not hasattr(os, "geteuid"):
        return
    found = folder.stat()
    if found.st_uid not in (os.geteuid(), 0):
        reason, remedy = f"belongs to another user (uid {found.st_uid})", ""
    elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.filemode(found.st_mode)
        reason, remedy = f"can be written by other users ({mode})", f"chmod go-w '{folder}', or "
    else:
        return
    raise UnsafeFolderError(
        f"the cache folder {folder} {reason}, who could replace compiled code: it is not used, and "
        f"code is compiled again in each process; {remedy}set GPUBOOST_CACHE_DIR to a folder of "
        "your own"
    )


def _check_folders(path: Path) -> None:
    """Check the folder of a file and, if it lies in the cache, the cache folder."""
    for folder in {path.parent, cache_folder()}.intersection(path.parents):
        check_folder(folder)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically: concurrent readers see the old or the new content.

    Missing folders of its path are created, and only this user can open them.

    Raises
    ------
    OSError
        The file cannot be written, or other users can write to its folder.
    """
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    _check_folders(path)
    handle, written = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(written, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(written)
        raise


@cache
def _warn_once(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=3)


def keep(path: Path, content: bytes) -> None:
    """Write a file that `recall` can check; do nothing if it cannot be written."""
    with suppress(OSError):
        replace_file(path, hashlib.sha256(content).digest() + content)


def recall(path: Path) -> bytes | None:
    """The content that `keep` wrote, or None if the file is missing, unreadable or damaged.

    If other users can write to its folder, the file is not read, and the first such call warns.
    The digest in the file detects damage, not a file of another author.
    """
    try:
        _check_folders(path)
        found = path.read_bytes()
    except UnsafeFolderError as error:
        _warn_once(str(error))
        return None
    except OSError:
        return None
    digest, content = found[:_DIGEST_BYTES], found[_DIGEST_BYTES:]
    return content if hashlib.sha256(content).digest() == digest else None


# ---- programs that Numba has compiled ------------------------------------------------------------


def sources() -> list[Path]:
    """All source files of the compiled code."""
    numba = sorted(_NUMBA_SOURCES.rglob("*.py"))
    return [*numba, *(_ENGINE / f"{name}.py" for name in ENGINE_MODULES)]


@cache
def source_stamp() -> str:
    """SHA-256 digest of all source files of the compiled code, in hexadecimal."""
    return hashlib.sha256(b"".join(map(Path.read_bytes, sources()))).hexdigest()


def marker(program: str) -> Path:
    """The path of a program's marker file.

    It depends on the installation, the versions, the architecture and ``NUMBA_CACHE_DIR``; a digest
    of the sources is in the file.

    Raises
    ------
    importlib.metadata.PackageNotFoundError
        Numba is not installed.
    """
    python = f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
    place = f"{_NUMBA_SOURCES} {os.environ.get('NUMBA_CACHE_DIR', '')}"
    own = hashlib.sha256(place.encode()).hexdigest()[:16]
    name = f"{program}.{python}-{metadata.version('numba')}-{platform.machine()}-{own}{SUFFIX}"
    return cache_folder() / name


def compiled_programs(programs: Iterable[str] = PROGRAMS) -> dict[str, Path]:
    """Those programs that are compiled from the current sources, and the folders of their code.

    Programs whose folders no longer have machine code are left out; without Numba, all are.
    """
    try:
        kept = {program: recall(marker(program)) or b"" for program in programs}
    except metadata.PackageNotFoundError:  # Numba is not installed
        return {}
    stamped = {program: each.decode().partition(" ") for program, each in kept.items()}
    folders = {p: Path(name) for p, (stamp, _, name) in stamped.items() if stamp == source_stamp()}
    return {p: folder for p, folder in folders.items() if any(folder.glob("*.nbc"))}


def mark_compiled(folder: Path, program: str) -> None:
    """Record that the folder has the machine code of a program, compiled from the current sources.

    If the cache cannot be written, or has this record already, nothing is written.
    """
    path, content = marker(program), f"{source_stamp()} {folder}".encode()
    if recall(path) != content:
        keep(path, content)
