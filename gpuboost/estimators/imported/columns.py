"""What another library does with X before it compares values: types, missing values, categories.

The trees of an imported model split on columns made from those of X. Each has one rule for missing
values and, if it holds categories, one list of them::

    X                    columns of the trees
    0: numbers      ->   0: numbers, NaN is missing
    1: numbers      ->   1: 0 and NaN are missing        two rules, if nodes of the source differ
                    ->   2: NaN counts as 0
    2: categories   ->   3: codes of the categories that splits name; all others have one code
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.engine.array_modules import array_module, working_on

NAN_IS_MISSING, ZERO_IS_MISSING, NAN_IS_ZERO = "nan", "zero", "none"
MISSING_RULES = (NAN_IS_MISSING, ZERO_IS_MISSING, NAN_IS_ZERO)
# LightGBM's kZeroThreshold, a float32: values up to it count as zero.
ZERO_THRESHOLD = float(np.float32(1e-35))
# Rules of categories. All of them drop the fraction of a number.
#   set       negative numbers are no category; NaN is missing (XGBoost, treelite)
#   rounded   numbers of at most -1 are no category; nor is NaN (LightGBM)
#   known     numbers that training did not have are missing, as is NaN (scikit-learn)
SET, ROUNDED, KNOWN = "set", "rounded", "known"
CATEGORY_RULES = (SET, ROUNDED, KNOWN)
MAX_CATEGORIES = 255  # that the splits of a column name; all others have one more code
# So that a damaged number in a file does not take all memory.
MAX_SOURCE_FEATURES = 2**22
LARGEST_CATEGORY = 2**53  # numbers from here on are no category


@dataclass(frozen=True, eq=False)
class SplitColumn:
    """A column that trees split on.

    Attributes
    ----------
    source : int
        Column of X.
    missing : {NAN_IS_MISSING, ZERO_IS_MISSING, NAN_IS_ZERO}
        Which numbers are missing.
    categories : int64 (k,), ascending, or None
        The categories that splits name (with the rule `KNOWN`: all of training); any other has one
        code more than these. None for numbers.
    codes : uint8 (k,), or None
        Code of each category; None means 0 to k - 1. Categories that the splits of the column do
        not tell apart can share a code.
    """

    source: int
    missing: str = NAN_IS_MISSING
    categories: np.ndarray | None = None
    codes: np.ndarray | None = None

    @property
    def code_of_others(self) -> int:
        """Code of the categories that no split names; also the number of other codes."""
        if self.codes is not None:
            return int(self.codes.max()) + 1 if len(self.codes) else 0
        return 0 if self.categories is None else len(self.categories)


@dataclass(frozen=True, eq=False)
class SplitColumns:
    """The columns that the trees of an imported model split on.

    Attributes
    ----------
    columns : tuple of SplitColumn
    n_features : int
        Number of columns of X.
    float32 : bool
        Whether values are rounded to float32 first.
    category_rule : {SET, ROUNDED, KNOWN}
        Which numbers are categories.
    tiny_is_zero : bool
        Whether values up to `ZERO_THRESHOLD` count as zero, as in the predictions of LightGBM.
    missing_value : float or None
        A number that is missing in all columns, as NaN is: the ``missing`` of XGBoost's wrappers.
    """

    columns: tuple[SplitColumn, ...]
    n_features: int
    float32: bool
    category_rule: str = SET
    tiny_is_zero: bool = False
    missing_value: float | None = None

    @property
    def is_categorical(self) -> np.ndarray:
        """Mask of the columns of categories: bool (n_columns,)."""
        return np.array([column.categories is not None for column in self.columns], dtype=bool)

    @property
    def _is_all_of_x(self) -> bool:
        """Whether the columns are those of X, and nothing but their type changes."""
        in_order = [c.source for c in self.columns] == list(range(self.n_features))
        return (in_order and not self.tiny_is_zero) and all(
            c.missing == NAN_IS_MISSING and c.categories is None for c in self.columns
        )

    def of(self, X: Any) -> Any:
        """The columns for rows of X, on its device: (n, n_columns)."""
        dtype = np.float32 if self.float32 else np.float64
        with working_on(X):
            xp = array_module(X)
            with np.errstate(over="ignore"):
                X = X.astype(dtype, copy=False)
                if self.missing_value is not None:
                    X = xp.where(dtype(self.missing_value) == X, np.nan, X)
            if self._is_all_of_x:
                return X
            found = xp.empty((len(X), len(self.columns)), dtype)
            for index, column in enumerate(self.columns):
                found[:, index] = self._column(X[:, column.source], column, xp)
            return found

    def _column(self, x: Any, column: SplitColumn, xp: Any) -> Any:
        if column.categories is not None:
            return self._codes(x, column, xp)
        if self.tiny_is_zero:
            x = xp.where(xp.abs(x) <= ZERO_THRESHOLD, 0.0, x)
        if column.missing == NAN_IS_ZERO:
            return xp.where(xp.isnan(x), 0.0, x)
        return xp.where(x == 0.0, np.nan, x) if column.missing == ZERO_IS_MISSING else x

    def _codes(self, x: Any, column: SplitColumn, xp: Any) -> Any:
        """Codes of the categories; NaN where a value is missing."""
        categories, others = xp.asarray(column.categories), column.code_of_others
        is_number = ~xp.isnan(x)
        lowest = x > -1 if self.category_rule == ROUNDED else x >= 0
        inside = is_number & lowest & (x < LARGEST_CATEGORY)
        category = xp.where(inside, x, -1.0).astype(np.int64)
        index = xp.searchsorted(categories, category)
        if len(categories):
            inside &= categories[xp.minimum(index, len(categories) - 1)] == category
        else:
            inside &= False
        if column.codes is not None:
            known = xp.asarray(column.codes)
            index = known[xp.minimum(index, len(known) - 1)]
        codes = xp.where(inside, index, others).astype(x.dtype)
        if self.category_rule == KNOWN:
            return xp.where(codes < others, codes, np.nan)
        return codes if self.category_rule == ROUNDED else xp.where(is_number, codes, np.nan)

    def update_hash(self, sha: Any) -> None:
        """Update a `hashlib` object with all rules."""
        rules = f"{self.n_features} {self.float32} {self.category_rule} {self.tiny_is_zero}"
        sha.update(rules.encode())
        if self.missing_value is not None:
            sha.update(f"missing {self.missing_value!r}".encode())
        for column in self.columns:
            sha.update(f"{column.source} {column.missing}".encode())
            if column.categories is not None:
                sha.update(column.categories.astype("<i8").tobytes())
            if column.codes is not None:
                sha.update(b"codes" + column.codes.tobytes())
