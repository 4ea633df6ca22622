"""The caches of all steps of a first run, and an archive of them."""

from __future__ import annotations

import tarfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

# Three levels deep, so that tools that copy only the upper levels take the archive instead.
CACHES = Path("scratch", "caches")
OTHER_RESULTS = CACHES / "results"  # result files of other machines
DAMAGE = (OSError, zlib.error, tarfile.TarError, EOFError)
FILTER: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


class KernelArchive:
    """The machine code of kernels, in cache folders of all steps and in an archive beside them.

    The archive also contains the result files of other machines.
    """

    def __init__(self, folder: Path) -> None:
        self._caches = folder / CACHES
        self._archive = folder / "kernels.tar.gz"
        self._kept = [
            self._caches / "gpuboost",
            self._caches / "cupy",
            folder / OTHER_RESULTS,
        ]
        self._packed: dict[Path, int] = {}
        kernels = self._caches / "gpuboost" / "kernels"
        for cache in (*self._kept, kernels, self._caches / "numba"):
            cache.mkdir(mode=0o700, parents=True, exist_ok=True)  # for any umask, see check_folder

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that name the folders."""
        ours, cupy = map(str, self._kept[:2])
        names = {"GPUBOOST_TEST_CACHE_DIR": ours, "GPUBOOST_CACHE_DIR": ours}
        return names | {"CUPY_CACHE_DIR": cupy, "NUMBA_CACHE_DIR": str(self._caches / "numba")}

    def _sizes(self) -> dict[Path, int]:
        files = [path for cache in self._kept for path in cache.rglob("*") if path.is_file()]
        return {path: path.stat().st_size for path in files}

    def pack(self) -> None:
        """Write the archive, if there are new files."""
        with suppress(OSError):  # a process that is ending may still remove files
            sizes = self._sizes()
            if sizes == self._packed:
                return
            unfinished = self._archive.with_suffix(".tmp")
            with tarfile.open(unfinished, "w:gz", compresslevel=3) as tar:
                for path in sizes:
                    tar.add(path, path.relative_to(self._caches))
            unfinished.replace(self._archive)
            self._packed = sizes

    def unpack(self) -> None:
        """Unpack the archive if the folders are empty; of a damaged one, only its intact files."""
        if self._archive.exists() and not self._sizes():
            with suppress(*DAMAGE), tarfile.open(self._archive) as tar:
                for member in tar:
                    try:
                        tar.extract(member, self._caches, **FILTER)
                    except DAMAGE:
                        (self._caches / member.name).unlink(missing_ok=True)  # it is incomplete
                        raise
            self._packed = self._sizes()
