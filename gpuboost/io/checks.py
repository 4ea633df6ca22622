"""Checks of what a file holds, and readers of its JSON objects and arrays.

Every check calls `require`, so that a test can leave out one check at a time and see that some file
then gets through.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def require(holds: Any, problem: str) -> None:
    """Raise a ValueError that states the problem, unless the condition holds."""
    if not holds:
        raise ValueError(problem)


class Fields:
    """The fields of a JSON object; each can be read once, and `end` refuses those not read."""

    def __init__(self, value: Any, name: str) -> None:
        require(isinstance(value, dict), f"{name} is not a JSON object")
        self._left, self.name = dict(value), name

    def __contains__(self, key: str) -> bool:
        return key in self._left

    def __len__(self) -> int:
        return len(self._left)

    def take(self, key: str) -> Any:
        """The value of a field, of any type."""
        require(key in self._left, f"{self.name} has no field {key!r}")
        return self._left.pop(key)

    def part(self, key: str) -> Fields:
        """A field that is a JSON object."""
        return Fields(self.take(key), f"{self.name}.{key}")

    def text(self, key: str) -> str:
        """A field that is a string."""
        value = self.take(key)
        require(isinstance(value, str), f"{self.name}.{key} is not a string")
        return value

    def one_of(self, key: str, allowed: Sequence[str]) -> str:
        """A field that is one of several strings."""
        value = self.take(key)
        require(
            isinstance(value, str) and value in allowed,
            f"{self.name}.{key} is none of {', '.join(allowed)}",
        )
        return value

    def flag(self, key: str) -> bool:
        """A field that is true or false."""
        value = self.take(key)
        require(isinstance(value, bool), f"{self.name}.{key} is neither true nor false")
        return value

    def integer(self, key: str, low: int, high: int) -> int:
        """A field that is an integer from ``low`` to ``high``."""
        value = self.take(key)
        require(
            type(value) is int and low <= value <= high,
            f"{self.name}.{key} is not an integer from {low} to {high}",
        )
        return value

    def items(self, key: str, length: int | None = None) -> list[Any]:
        """A field that is a list, of a given length unless this is None."""
        value = self.take(key)
        require(isinstance(value, list), f"{self.name}.{key} is not a list")
        require(
            length is None or len(value) == length,
            f"{self.name}.{key} does not have {length} items",
        )
        return value

    def end(self) -> None:
        """Check that all fields were read."""
        require(not self._left, f"{self.name} has the unknown fields {sorted(self._left)!r:.200}")


class Arrays:
    """The arrays of a file, or those whose names begin with a prefix; each can be read once."""

    def __init__(self, arrays: dict[str, np.ndarray], prefix: str = "") -> None:
        self._left, self._prefix = arrays, prefix

    def part(self, name: str) -> Arrays:
        """The arrays whose names begin with ``name`` and a slash."""
        return Arrays(self._left, f"{self._prefix}{name}/")

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._left

    def take(self, name: str, types: Any, shape: tuple[int | None, ...]) -> np.ndarray:
        """An array of one of the given types; None in the shape stands for any length."""
        name = self._prefix + name
        require(name in self._left, f"there is no array {name!r}")
        array, allowed = self._left.pop(name), np.atleast_1d(np.array(types, dtype=object))
        require(
            any(array.dtype == kind for kind in allowed),
            f"array {name!r} has type {array.dtype}, not {[np.dtype(t).name for t in allowed]}",
        )
        fits = array.ndim == len(shape) and all(
            wanted in (None, given) for wanted, given in zip(shape, array.shape, strict=True)
        )
        require(fits, f"array {name!r} has shape {array.shape}, not {shape}")
        return array

    def take_any_shape(self, name: str, kind: Any) -> np.ndarray:
        """An array of a type, of any shape."""
        full = self._prefix + name
        return self.take(name, kind, (None,) * getattr(self._left.get(full), "ndim", 0))

    def finite(self, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
        """An array of finite float64."""
        array = self.take(name, np.float64, shape)
        require(np.isfinite(array).all(), f"array {name!r} has values that are not finite")
        return array

    def end(self) -> None:
        """Check that all arrays of the file were read."""
        require(not self._left, f"there are unknown arrays {sorted(self._left)!r:.200}")
