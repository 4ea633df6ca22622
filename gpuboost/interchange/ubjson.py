"""Reader of UBJSON, the binary JSON in which XGBoost saves models.

References
----------
.. [1] Universal Binary JSON specification, draft 12: types and optimised containers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Types of numbers, all big-endian.
_NUMBER_TYPES = {
    b"i": ">i1",
    b"U": ">u1",
    b"I": ">i2",
    b"l": ">i4",
    b"L": ">i8",
    b"d": ">f4",
    b"D": ">f8",
}
_CONSTANTS = {b"T": True, b"F": False, b"Z": None}
MAX_NESTING = 64  # of containers in containers


class UbjsonReader:
    """Reads one value from bytes."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        self._n_left = len(data)  # values: constants of a container with a type take no bytes

    def read(self) -> Any:
        """The value; arrays of numbers of one type become ndarrays.

        Raises
        ------
        ValueError
            If the data is damaged.
        """
        value = self._value(self._marker(), 0)
        if any(byte != ord("N") for byte in self._data[self._at :]):
            raise ValueError("there is more after the end of the UBJSON")
        return value

    def _take(self, size: int) -> bytes:
        start, self._at = self._at, self._at + size
        if size < 0 or self._at > len(self._data):
            raise ValueError("the UBJSON is cut short or damaged")
        return self._data[start : self._at]

    def _marker(self) -> bytes:
        marker = self._take(1)
        while marker == b"N":
            marker = self._take(1)
        return marker

    def _value(self, marker: bytes, depth: int) -> Any:
        if depth > MAX_NESTING:
            raise ValueError("the UBJSON is nested too deeply")
        if marker in _NUMBER_TYPES:
            return self._number(marker)
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        if marker == b"S":
            return self._text()
        if marker == b"C":
            return self._take(1).decode("latin-1")
        if marker == b"[":
            return self._array(depth)
        if marker == b"{":
            return self._object(depth)
        raise ValueError(f"the UBJSON has the unknown type {marker!r}")

    def _number(self, marker: bytes) -> Any:
        kind = np.dtype(_NUMBER_TYPES[marker])
        return np.frombuffer(self._take(kind.itemsize), kind)[0].item()

    def _length(self) -> int:
        marker = self._take(1)
        if marker not in _NUMBER_TYPES or marker in (b"d", b"D"):
            raise ValueError("a length in the UBJSON is not an integer")
        length = self._number(marker)
        if not 0 <= length <= len(self._data):
            raise ValueError("a length in the UBJSON is out of range")
        return length

    def _text(self) -> str:
        return self._take(self._length()).decode("utf-8", "surrogateescape")

    def _container(self) -> tuple[bytes | None, int | None]:
        """The type and the number of the values of a container; None if they are not given."""
        kind = length = None
        if self._data[self._at : self._at + 1] == b"$":
            kind = self._take(2)[1:]
        if self._data[self._at : self._at + 1] == b"#":
            self._take(1)
            length = self._length()
        if kind is not None and length is None:
            raise ValueError("a container in the UBJSON has a type, but no length")
        return kind, length

    def _array(self, depth: int) -> Any:
        kind, length = self._container()
        if kind in _NUMBER_TYPES and length is not None:
            dtype = np.dtype(_NUMBER_TYPES[kind])
            values = np.frombuffer(self._take(dtype.itemsize * length), dtype)
            return values.astype(dtype.newbyteorder("="))
        found: list[Any] = []
        while length is None or len(found) < length:
            marker = kind or self._marker()
            if length is None and marker == b"]":
                return found
            found.append(self._value(marker, depth + 1))
        return found

    def _object(self, depth: int) -> dict[str, Any]:
        kind, length = self._container()
        found: dict[str, Any] = {}
        n_read = 0
        while length is None or n_read < length:
            if length is None and self._data[self._at : self._at + 1] == b"}":
                self._take(1)
                return found
            key = self._text()
            found[key] = self._value(kind or self._marker(), depth + 1)
            n_read += 1
        return found
