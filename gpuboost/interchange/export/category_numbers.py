"""The numbers that stand for categories in formats that have no other categories."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuboost.data.column_types import is_number
from gpuboost.data.frames import FeatureSchema
from gpuboost.engine.ensembles.ensemble import Ensemble

LARGEST_INTEGER = 2**24  # up to which float32 has all integers


@dataclass(frozen=True, eq=False)
class CategoryNumbers:
    """The categories of a feature, and the number of each in the input of an exported model.

    Attributes
    ----------
    categories : list
        The categories.
    numbers : float64 (n_categories,)
        The categories themselves if all of them are numbers, else 0, 1, 2 and so on.
    codes : int64 (n_categories,)
        The code of each in gpuboost's trees.
    """

    categories: list[Any]
    numbers: np.ndarray
    codes: np.ndarray

    @classmethod
    def of(cls, known: dict[Any, int] | None) -> CategoryNumbers:
        """The numbers of the categories of a feature, given their codes."""
        categories, codes = list(known or {}), np.array([*(known or {}).values()], dtype=np.int64)
        if all(map(is_number, categories)):
            numbers = np.array([float(each) for each in categories])
            if len(set(numbers.tolist())) == len(numbers):  # integers can be equal as floats
                return cls(categories, numbers, codes)
        return cls(categories, np.arange(len(categories), dtype=np.float64), codes)

    @property
    def are_small_integers(self) -> bool:
        """Whether all numbers are integers from 0 to `LARGEST_INTEGER`."""
        numbers = self.numbers
        inside = (numbers >= 0) & (numbers <= LARGEST_INTEGER)
        return bool(np.all(inside & (numbers == np.floor(numbers))))

    @property
    def as_ordinal_codes(self) -> CategoryNumbers:
        """The same with the numbers 0, 1, 2 and so on."""
        return replace(self, numbers=np.arange(len(self.categories), dtype=np.float64))

    def pairs(self) -> list[list[Any]]:
        """Pairs of a category and its number, for JSON; other types than JSON's become text."""
        shown = [getattr(each, "item", lambda own=each: own)() for each in self.categories]
        texts = [each if isinstance(each, str | int | float) else str(each) for each in shown]
        return [list(pair) for pair in zip(texts, self.numbers.tolist(), strict=True)]


def numbers_of_categories(schema: FeatureSchema) -> dict[int, CategoryNumbers]:
    """The numbers of the categories of each categorical feature."""
    features = np.flatnonzero(schema.is_categorical).tolist()
    return {feature: CategoryNumbers.of(schema.codes[feature]) for feature in features}


def bits_of_masks(masks: np.ndarray) -> np.ndarray:
    """Whether each code goes left, for the ``masks`` of categorical splits: bool (c, 256)."""
    return np.unpackbits(masks.view(np.uint8), axis=1, bitorder="little").astype(bool)


def mask_rows(trees: Ensemble) -> np.ndarray:
    """Row of ``masks`` of each node, counted over all trees; -1 if it splits on no category."""
    start = np.repeat(trees.mask_offset[:-1], np.diff(trees.offset))
    return np.where(trees.category >= 0, trees.category + start, -1)
