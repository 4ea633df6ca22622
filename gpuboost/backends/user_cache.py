"""Files kept for the user between processes: compiled kernels, and how fast this machine is.

Nothing here may be needed: a folder that cannot be written, or a file that is damaged, costs time
and no more.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

_DIGEST_BYTES = hashlib.sha256().digest_size


def cache_folder() -> Path:
    """Where the files lie: ``GPUBOOST_CACHE_DIR``, else gpuboost's folder in the user's cache."""
    chosen = os.environ.get("GPUBOOST_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")
        return Path(local) / "gpuboost" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gpuboost"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuboost"


def replace_file(path: Path, content: bytes) -> None:
    """Write a file as a whole: whoever reads it meanwhile sees the old one or the new one.

    Raises
    ------
    OSError
        It cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, written = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(written, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(written)
        raise


def keep(path: Path, content: bytes) -> None:
    """Write a file that `recall` can check; not at all where that is not allowed."""
    with suppress(OSError):
        replace_file(path, hashlib.sha256(content).digest() + content)


def recall(path: Path) -> bytes | None:
    """What `keep` wrote, None if it is not there or damaged."""
    try:
        found = path.read_bytes()
    except OSError:
        return None
    digest, content = found[:_DIGEST_BYTES], found[_DIGEST_BYTES:]
    return content if hashlib.sha256(content).digest() == digest else None
