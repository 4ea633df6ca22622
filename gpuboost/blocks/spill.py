"""Codes in blocks of rows: the first blocks in memory, the others in a temporary file.

A block holds its rows feature by feature, so that neighbouring features are read at once:

    file     block 3                     block 4
             feature 0 | feature 1 | ... feature 0 | feature 1 | ...
             row 0 1 2 ...

The file has no name (it is unlinked as soon as it is open), so nothing is left behind if the
process ends in any way. It is read by ``pread`` into buffers, not mapped, so a lost or damaged disk
raises an error instead of a signal. Each read checks a checksum for every feature of a block.
"""

from __future__ import annotations

import errno
import os
import tempfile
import threading
import weakref
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuboost.backends.compiling import worker_threads
from gpuboost.engine.code_blocks import CodeBlocks, CodeChunk

SPILLED_ROWS = 1 << 18  # so many that each feature's histograms are loaded into the cache rarely
SPILLED_BYTES = 64 << 20  # of a block with fewer rows than that
READ_BYTES = 16 << 20  # of codes that are read at once, at most a sixteenth of the memory limit
FEW_ROWS_OF_BLOCK = 1 << 15  # a block that is read at once has at least so many rows
PAGE_WORDS = 512  # 64-bit words that are added up before the CRC-32 of these sums is taken


class SpillError(OSError):
    """The temporary file with the codes of a Dataset cannot be written, or was damaged."""


class SpilledCodes(CodeBlocks):
    """Codes in blocks, of which those that exceed the memory are in a temporary file.

    Parameters
    ----------
    n_features, n_samples : int
        Size of the matrix.
    memory_limit : int
        Bytes that may be used; half of them hold the first blocks, the others are for growth.
    """

    def __init__(self, n_features: int, n_samples: int, memory_limit: int) -> None:
        super().__init__((n_features, n_samples), memory_limit)
        size = self._read_bytes // n_features
        if size < FEW_ROWS_OF_BLOCK:
            size = SPILLED_BYTES // n_features
        size = min(max(size, 1), SPILLED_ROWS)
        size = _whole_pages(size, n_samples)
        self.row_slices = [slice(s, min(s + size, n_samples)) for s in range(0, n_samples, size)]
        self._size, self._rows = size, self.row_slices
        fitting = min(memory_limit // 2 // (n_features * size), len(self._rows))
        self.kept = np.empty((fitting, n_features, size), np.uint8)
        self._sums = np.zeros((len(self._rows), n_features), np.uint32)
        self._lock = threading.Lock()
        self._file: Any = None
        spilled = sum(n_features * (own.stop - own.start) for own in self._rows[fitting:])
        if spilled:
            self._file = temporary_file(spilled)
            weakref.finalize(self, self._file.close)

    @property
    def _read_bytes(self) -> int:
        """Bytes of codes that are read at once."""
        return min(READ_BYTES, self.memory_limit // 16)

    def __reduce__(self) -> Any:
        raise TypeError(
            "a Dataset whose codes are in a temporary file cannot be pickled or sent to other "
            "processes; use n_jobs=1 or threads (joblib.parallel_config('threading')), or make it "
            "with a larger memory_limit"
        )

    def __deepcopy__(self, memo: Any) -> SpilledCodes:
        return self  # codes never change once the Dataset is made

    def write(self, feature: int, codes: NDArray[np.uint8]) -> None:
        """Store the codes of a feature, (n_samples,)."""
        for block, rows in enumerate(self._rows):
            self._write_block(block, feature, np.ascontiguousarray(codes[rows]))

    def _write_block(self, block: int, feature: int, codes: NDArray[np.uint8]) -> None:
        if block < len(self.kept):
            self.kept[block, feature, : len(codes)] = codes
            return
        self._sums[block, feature] = checksums(codes[None])[0]
        view, done = codes.data.cast("B"), 0
        with disk_errors(), self._lock:
            self._file.seek(self._place(block, feature))
            while done < len(view):
                done += self._file.write(view[done:])

    def replace(self, old: int, new: int) -> None:
        """Replace a code in all columns, in place."""
        for feature in range(self.shape[0]):
            for block, rows in enumerate(self._rows):
                codes = self.column(feature, rows)
                if (codes == old).any():
                    codes = np.where(codes == old, np.uint8(new), codes)
                    self._write_block(block, feature, codes)

    def chunks(
        self,
        features: NDArray[np.integer] | None = None,
        blocks: Sequence[int] | None = None,
        readers: ThreadPoolExecutor | None = None,
    ) -> Iterator[CodeChunk]:
        """Yield the codes chunk by chunk: of all or some ascending features and all or some blocks.

        A thread reads the next chunk from the file while the caller uses the last one.
        """
        parts = [
            (block, first, last)
            for block in (range(len(self._rows)) if blocks is None else blocks)
            for first, last in self._ranges(block, features)
        ]
        buffers = [np.empty(0, np.uint8), np.empty(0, np.uint8)]

        def read(number: int) -> CodeChunk:
            block, first, last = parts[number]
            if block < len(self.kept):
                return self._chunk(block, first, last)
            rows, own = self._rows[block], number % 2
            n_codes = (last - first) * (rows.stop - rows.start)
            if len(buffers[own]) < n_codes:
                buffers[own] = np.empty(n_codes, np.uint8)
            return self._chunk(block, first, last, buffers[own][:n_codes])

        with worker_threads(1) if readers is None else nullcontext(readers) as reader:
            coming = None
            for number in range(len(parts)):
                chunk = read(number) if coming is None else coming.result()
                coming = None
                if number + 1 < len(parts) and parts[number + 1][0] >= len(self.kept):
                    coming = reader.submit(read, number + 1)
                yield chunk

    def column(self, feature: int, rows: slice) -> NDArray[np.uint8]:
        """Codes of a feature for the rows of a block."""
        return self._chunk(rows.start // self._size, feature, feature + 1).codes[0]

    def take(self, rows: slice | NDArray[Any]) -> SpilledCodes | NDArray[np.uint8]:
        """Some rows, by a slice, a mask or indices: as an array if half of the limit holds it."""
        n_features, n_samples = self.shape
        places = np.arange(n_samples)[rows]
        part = make_codes(n_features, len(places), self.memory_limit)
        column = np.empty(n_samples, np.uint8)
        for feature in range(n_features):
            for chunk in self.chunks(np.array([feature])):
                column[chunk.rows] = chunk.codes[0]
            store(part, feature, column[places])
        return part

    def _ranges(
        self, block: int, features: NDArray[np.integer] | None
    ) -> Iterator[tuple[int, int]]:
        """First feature, and that after the last, of the chunks of a block."""
        n_rows = self._rows[block].stop - self._rows[block].start
        size = max(self._read_bytes // n_rows, 1)
        if features is None:
            for first in range(0, self.shape[0], size):
                yield first, min(first + size, self.shape[0])
            return
        wanted = np.asarray(features)
        for run in np.split(wanted, np.flatnonzero(np.diff(wanted) > 1) + 1):
            for at in range(0, len(run), size):
                own = run[at : at + size]
                yield int(own[0]), int(own[-1]) + 1

    def _chunk(
        self, block: int, first: int, last: int, to: NDArray[np.uint8] | None = None
    ) -> CodeChunk:
        """Some features of a block, read and checked; ``to`` is a buffer for their codes."""
        rows = self._rows[block]
        if block < len(self.kept):
            return CodeChunk(rows, first, self.kept[block, first:last, : rows.stop - rows.start])
        shape = last - first, rows.stop - rows.start
        codes = np.empty(shape, np.uint8) if to is None else to.reshape(shape)
        self._get(self._place(block, first), codes)
        damaged = np.flatnonzero(checksums(codes) != self._sums[block, first:last])
        if len(damaged):
            raise SpillError(
                f"the temporary file of this Dataset was damaged while in use: feature "
                f"{first + damaged[0]} of rows {rows.start} to {rows.stop - 1} has another "
                "checksum than when it was written; check the disk, and make the Dataset again"
            )
        return CodeChunk(rows, first, codes)

    def _place(self, block: int, feature: int) -> int:
        """Position in the file of a feature of a block."""
        first, rows = self._rows[len(self.kept)].start, self._rows[block]
        n_rows = rows.stop - rows.start
        return self.shape[0] * (rows.start - first) + feature * n_rows

    def _get(self, place: int, codes: NDArray[np.uint8]) -> None:
        view, done = codes.data.cast("B"), 0
        with disk_errors():
            while done < len(view):
                if hasattr(os, "preadv"):
                    n_read = os.preadv(self._file.fileno(), [view[done:]], place + done)
                else:
                    with self._lock:
                        self._file.seek(place + done)
                        n_read = self._file.readinto(view[done:])
                if not n_read:
                    raise SpillError(
                        "the temporary file of this Dataset was cut short while in use; make the "
                        "Dataset again"
                    )
                done += n_read


def _whole_pages(size: int, n_samples: int) -> int:
    """A number of rows, at most ``size``: whole pages, in blocks of about equal size.

    The number of blocks is even if rounding allows, so that two threads get as many: with 9 blocks
    and a small one, one of them would have a fifth more work.
    """
    page = 8 * PAGE_WORDS
    if size <= page:
        return size
    n_blocks = -(-n_samples // (size - size % page))
    n_blocks += n_blocks % 2 if n_blocks > 1 else 0
    return -(-n_samples // (n_blocks * page)) * page


def checksums(codes: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """A checksum of each row of contiguous codes, which takes a tenth of the time of its CRC-32.

    It is the CRC-32 of the sums of pages of words, followed by the codes after the last page, so
    that a changed code, or pages in another order, change it.
    """
    n_paged = codes.shape[1] // (8 * PAGE_WORDS) * (8 * PAGE_WORDS)
    words = codes[:, :n_paged].view(np.uint64)
    pages = words.reshape(len(codes), n_paged // (8 * PAGE_WORDS), PAGE_WORDS).sum(axis=2)
    rest = codes[:, n_paged:]
    found = [zlib.crc32(own, zlib.crc32(of)) for own, of in zip(rest, pages, strict=True)]
    return np.array(found, np.uint32)


def make_codes(
    n_features: int, n_samples: int, memory_limit: int
) -> SpilledCodes | NDArray[np.uint8]:
    """Codes that are not set yet: an array if half of the limit holds it, else blocks."""
    if fits_memory(n_features * n_samples, memory_limit):
        return np.empty((n_features, n_samples), np.uint8)
    return SpilledCodes(n_features, n_samples, memory_limit)


def fits_memory(n_codes: int, memory_limit: int) -> bool:
    """Whether all codes are kept in one array."""
    return n_codes <= memory_limit // 2


def store(codes: SpilledCodes | NDArray[np.uint8], feature: int, column: NDArray[np.uint8]) -> None:
    """Set the codes of a feature, (n_samples,), in the result of `make_codes`."""
    if isinstance(codes, SpilledCodes):
        codes.write(feature, column)
    else:
        codes[feature] = column


@contextmanager
def disk_errors() -> Iterator[None]:
    """Context in which errors of the disk say what to do."""
    try:
        yield
    except SpillError:
        raise
    except OSError as error:
        raise _advised(error) from error


def _advised(error: OSError) -> SpillError:
    folder = tempfile.gettempdir()
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SpillError(
            error.errno,
            f"the disk of {folder} is full; free some space, set TMPDIR to a folder on a larger "
            "disk, or raise memory_limit",
        )
    return SpillError(error.errno, f"the temporary file in {folder} failed: {error}")


def temporary_file(size: int = 0) -> Any:
    """A file without a name, for whose ``size`` in bytes the disk has space."""
    with disk_errors():
        file: Any = tempfile.TemporaryFile(prefix="gpuboost", buffering=0)  # noqa: SIM115, kept
        try:
            if size and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError:
            file.close()
            raise
        return file
