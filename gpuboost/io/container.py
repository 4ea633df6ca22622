"""A file of named arrays and a header, in the safetensors format.

    8 bytes         length of the JSON that follows
    JSON            type, shape and place of each array; in ``__metadata__`` the header, as JSON in
                    a string, which begins with the SHA-256 of the whole file
    arrays          one after another

The digest is that of the file with 64 zeros in place of the digest. A file is written beside its
path, synced to the disk and renamed, so that the path holds the old file or the new one, whole.
"""

from __future__ import annotations

import glob
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EINVAL, EISDIR
from pathlib import Path
from secrets import token_hex
from typing import IO, Any

import numpy as np
import safetensors
import safetensors.numpy

from gpuboost.io import json_values
from gpuboost.io.checks import Fields, require

# Python takes at most about 64 bytes for each value in JSON. Their sum may be twice the size of the
# file, and never needs to be less than 64 MiB.
_VALUE_BYTES, _FREE_BYTES = 64, 2**26
_TEMPORARY, _STALE_SECONDS = ".tmp", 3600
_ZEROS = b"0" * 64
_BEFORE_DIGEST = rb'"{\"sha256\":\"'  # as it stands in the file
# numpy's types of the file's types; others are refused.
_ARRAY_TYPES = {
    "U8": np.uint8,
    "U32": np.uint32,
    "I32": np.int32,
    "I64": np.int64,
    "F64": np.float64,
}


def to_bytes(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """The content of a file.

    Raises
    ------
    ValueError
        If the header is too large.
    """
    text = json_values.dumps({"sha256": _ZEROS.decode(), **header})
    columns = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    data = bytearray(safetensors.numpy.save(columns, {"gpuboost": text}))
    _check_size(bytes(data[8 : _end_of_json(data)]), len(data))
    return with_digest(data)


def with_digest(data: bytearray) -> bytes:
    """The content with its digest, wherever it has another one."""
    place = _place_of_digest(bytes(data[: _end_of_json(data)]))
    data[place : place + 64] = _ZEROS
    data[place : place + 64] = hashlib.sha256(data).hexdigest().encode()
    return bytes(data)


def from_bytes(data: bytes) -> tuple[Fields, dict[str, np.ndarray]]:
    """The header without the digest, and the arrays, of the content of a file.

    Raises
    ------
    ValueError
        If the content is damaged or is not that of such a file.
    """
    text = data[8 : _end_of_json(data)]
    is_json = text.startswith(b"{") and len(data) >= _end_of_json(data)
    if not is_json:  # the parser would refuse it, too, but not say so
        raise ValueError("it is not a model file of gpuboost, or is damaged")
    _check_size(text, len(data))
    metadata = Fields(json_values.loads(text), "its JSON").part("__metadata__")
    inner = metadata.text("gpuboost")
    metadata.end()
    _check_digest(data)
    fields = Fields(json_values.loads(inner), "the header")
    fields.text("sha256")
    return fields, _arrays_of(data)


def _arrays_of(data: bytes) -> dict[str, np.ndarray]:
    try:
        found = safetensors.deserialize(data)
    except safetensors.SafetensorError as error:
        raise ValueError(f"its arrays are damaged: {error}") from error
    arrays = {}
    for name, array in found:
        require(array["dtype"] in _ARRAY_TYPES, f"array {name!r} has the type {array['dtype']}")
        kind = np.dtype(_ARRAY_TYPES[array["dtype"]]).newbyteorder("<")
        values = np.frombuffer(array["data"], kind).astype(kind.newbyteorder("="), copy=False)
        arrays[name] = values.reshape(array["shape"])
    return arrays


def _end_of_json(data: bytes | bytearray) -> int:
    return 8 + int.from_bytes(data[:8], "little")


def _check_size(text: bytes, size: int) -> None:
    """Check that the values of some JSON, in a file of this size, need little memory."""
    n_values = sum(text.count(sign) for sign in (b",", b":", b"[", b"{"))
    limit = max(2 * size, _FREE_BYTES)
    require(n_values * _VALUE_BYTES <= limit, f"its header has too many values ({n_values})")


def _place_of_digest(text: bytes) -> int:
    """Where the digest is in the JSON of a file."""
    return text.index(_BEFORE_DIGEST) + len(_BEFORE_DIGEST)


def _check_digest(data: bytes) -> None:
    place = _place_of_digest(data[: _end_of_json(data)])
    sha = hashlib.sha256(data[:place])
    sha.update(_ZEROS)
    sha.update(memoryview(data)[place + 64 :])
    is_same = data[place : place + 64] == sha.hexdigest().encode()
    require(is_same, "it is damaged: its SHA-256 is not that of its content")


def write_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file as `replaced_file` does."""
    with replaced_file(path) as file:
        file.write(content)


@contextmanager
def replaced_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write, so that the path holds the old or the new content, whole, at every moment.

    A symbolic link stays one; the file that it names is replaced.
    """
    place = Path(os.path.realpath(path))
    written = _new_temporary(place, path)
    try:
        with written as file:
            with suppress(FileNotFoundError):
                os.chmod(file.name, place.stat().st_mode & 0o777)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, place)
    except BaseException:
        with suppress(OSError):
            os.unlink(written.name)
        raise
    _sync_folder(place.parent)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise the OSError that `write_file` would raise because of the path or its folder.

    Temporary files of this path that are older than an hour are deleted: a process that was killed
    while it wrote left them.
    """
    place = Path(os.path.realpath(path))
    file = _new_temporary(place, path)
    file.close()
    os.unlink(file.name)
    for old in place.parent.glob(f".{glob.escape(place.name)}.*{_TEMPORARY}"):
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > _STALE_SECONDS:
                old.unlink()


def _new_temporary(place: Path, given: str | os.PathLike[str]) -> IO[bytes]:
    """A new file in the folder of a path, to be written; errors name the given path.

    A folder, a device or a pipe is an OSError: renaming would replace it.
    """
    if place.is_dir():
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), os.fspath(given))
    if place.exists() and not place.is_file():
        raise OSError(EINVAL, "it is not a regular file", os.fspath(given))
    try:  # with the permissions that the umask leaves
        return open(place.with_name(f".{place.name}.{token_hex(4)}{_TEMPORARY}"), "xb")
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(given)) from error


def _sync_folder(folder: Path) -> None:
    """Sync the entry of a renamed file, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
