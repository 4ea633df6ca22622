"""Reading of the fields of other libraries' models, with errors that name them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from gpuboost.data.frames import FeatureSchema
from gpuboost.estimators.imported.columns import MAX_SOURCE_FEATURES


class Source:
    """The fields of a part of a model."""

    def __init__(self, fields: Any, name: str) -> None:
        if not isinstance(fields, dict):
            raise ValueError(f"{name} is not an object with fields; the model is damaged")
        self._fields, self._name = fields, name

    def __contains__(self, key: str) -> bool:
        return key in self._fields

    def get(self, key: str, default: Any = None) -> Any:
        """A field of any type, or the default."""
        return self._fields.get(key, default)

    def _of(self, key: str) -> Any:
        if key not in self._fields:
            raise ValueError(f"the model of {self._name} has no field {key!r}; it is damaged")
        return self._fields[key]

    def part(self, key: str) -> Source:
        """A field with fields."""
        return Source(self._of(key), f"{self._name}.{key}")

    def parts(self, key: str) -> list[Source]:
        """A field that is a list of parts."""
        given = self._of(key)
        if not isinstance(given, list):
            raise ValueError(f"{self._name}.{key} is not a list; the model is damaged")
        return [Source(own, f"{self._name}.{key}[{i}]") for i, own in enumerate(given)]

    def text(self, key: str) -> str:
        """A field that is a string."""
        return str(self._of(key))

    def integer(self, key: str, default: int | None = None, *, low: int, high: int) -> int:
        """A field that is an integer from ``low`` to ``high``, also as text."""
        if default is not None and key not in self._fields:
            return default
        value = self._of(key)
        try:
            found = int(value) if type(value) in (int, str) else low - 1
        except ValueError:
            found = low - 1
        if not low <= found <= high:
            raise ValueError(
                f"{self._name}.{key} is not an integer from {low} to {high}, but {value!r:.40}; "
                "the model is damaged"
            )
        return found

    def integers(
        self, key: str, length: int | None = None, *, low: int = 0, high: int = 2**31 - 1
    ) -> np.ndarray:
        """A field that is a list of integers from ``low`` to ``high``: int64 (length,)."""
        found = self.numbers(key, length)
        if not ((found >= low) & (found <= high) & (found == np.trunc(found))).all():
            raise ValueError(
                f"{self._name}.{key} has numbers that are not integers from {low} to {high}; the "
                "model is damaged"
            )
        return found.astype(np.int64)

    def float32_numbers(self, key: str, length: int | None = None) -> np.ndarray:
        """A field that is a list of finite float32."""
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.numbers(key, length).astype(np.float32)
        if not np.isfinite(found).all():
            raise ValueError(f"{self._name}.{key} has numbers that are not finite")
        return found

    def numbers(self, key: str, length: int | None = None) -> np.ndarray:
        """A field that is a list of numbers, of a given length unless this is None."""
        given = self._of(key)
        try:
            found = np.asarray(given)
            found = found.astype(np.float64) if found.dtype.kind not in "iufb" else found
        except (TypeError, ValueError, OverflowError):
            found = np.zeros((0, 0))
        if found.ndim != 1 or (length is not None and len(found) != length):
            wanted = "numbers" if length is None else f"{length} numbers"
            raise ValueError(f"{self._name}.{key} is not a list of {wanted}; the model is damaged")
        return found


def no_schema(n_features: int, names: Any = None) -> FeatureSchema:
    """The schema of numeric columns."""
    if not 1 <= n_features <= MAX_SOURCE_FEATURES:
        raise ValueError(
            f"the model has {n_features} features, where 1 to {MAX_SOURCE_FEATURES} are possible"
        )
    if names is not None and (len(names) != n_features or len(set(names)) != len(names)):
        raise ValueError(
            "feature names repeat, or their number differs from n_features; it is damaged"
        )
    known = None if names is None else np.array([str(name) for name in names], dtype=object)
    is_categorical = np.zeros(n_features, dtype=bool)
    return FeatureSchema(known, n_features, is_categorical, (None,) * n_features, True)


def numbered(categories: Iterable[Any]) -> dict[Any, int]:
    """The categories, each with its number in the given order."""
    return {category: code for code, category in enumerate(categories)}


def with_categories(schema: FeatureSchema, known: dict[int, dict[Any, int]]) -> FeatureSchema:
    """The schema with the categories of some features, and their codes."""
    codes, is_categorical = list(schema.codes), schema.is_categorical.copy()
    for feature, own in known.items():
        codes[feature], is_categorical[feature] = own, True
    return replace(schema, codes=tuple(codes), is_categorical=is_categorical)
