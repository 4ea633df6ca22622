"""What the values of a feature must be for a row to pass splits: intervals and sets of categories.

The two sides of a split are a `Condition` each. The conditions of a path that are on the same
feature are merged by ``&``: intervals and sets are intersected::

    age <= 45 or missing   &   age > 30             age in (30, 45]
    city in {Rome, Oslo}   &   city in {Oslo, Bonn}     city in {Oslo}
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpuboost.data.column_types import is_number

MAX_SHOWN = 8  # categories in a text
_SYNTAX = set(",{}'\"")  # characters for which a category is put in quotes


@dataclass(frozen=True, eq=False)
class Categories:
    """The categories of a feature, and the code of each in the columns that conditions test.

    Attributes
    ----------
    names : tuple
        The categories, as in the training data.
    codes : int64 (n_categories,)
        Their codes; rare categories can share one.
    others : int or None
        Code of all categories that the model does not name; None if they are missing values.
    """

    names: tuple[Any, ...]
    codes: np.ndarray
    others: int | None = None

    def side(self, passes: np.ndarray, others: bool, missing: bool) -> dict[str, Any]:
        """The fields of a `Condition` that lets some categories pass: bool (n_categories,)."""
        inside = tuple(name for name, own in zip(self.names, passes, strict=True) if own)
        return {"categories": inside, "others": others, "missing": missing, "known": self}


@dataclass(frozen=True)
class Condition:
    """What the values of a feature must be.

    Attributes
    ----------
    feature : int
        Column of X.
    name : str
        Name of the feature.
    low, high : float or None
        ``low < x <= high``; None means that there is no bound.
    categories : tuple or None
        The categories that pass; None if the feature is numeric.
    others : bool
        Whether categories pass that the model does not name. False if these are missing values, as
        in all models that gpuboost has fitted.
    missing : bool
        Whether missing values pass.
    zero : bool or None
        Whether 0 passes, in models of LightGBM in which it is a missing value; otherwise None, and
        0 is a number as any other.
    """

    feature: int
    name: str
    low: float | None = None
    high: float | None = None
    categories: tuple[Any, ...] | None = None
    others: bool = False
    missing: bool = False
    zero: bool | None = None
    known: Categories | None = field(default=None, repr=False, compare=False)
    # The type whose next number is shown, as in ``x < 3``, in models that compare by ``<``.
    strict: type[np.floating[Any]] | None = field(default=None, repr=False, compare=False)

    def __and__(self, other: Condition) -> Condition:
        """The values that pass both conditions, which are on the same feature."""
        missing = self.missing and other.missing
        if self.categories is not None and other.categories is not None:
            second = set(other.categories)
            both = tuple(each for each in self.categories if each in second)
            others = self.others and other.others
            return replace(self, categories=both, others=others, missing=missing)
        lows = [own.low for own in (self, other) if own.low is not None]
        highs = [own.high for own in (self, other) if own.high is not None]
        zero = None
        if self.zero is not None or other.zero is not None:
            zero = self._zero_passes and other._zero_passes
        low, high = max(lows, default=None), min(highs, default=None)
        bounds: dict[str, Any] = {"low": low, "high": high, "missing": missing, "zero": zero}
        return Condition(self.feature, self.name, **bounds, strict=self.strict)

    def among(self, path: Path) -> Condition:
        """The condition for the rows that have passed those of a path, without what these exclude.

        The categories and missing values that cannot reach a split are not shown with it.
        """
        before = path.get(self.feature)
        if before is None:
            return self
        missing, known = self.missing and before.missing, before.known
        if before.categories is None or known is None:
            return replace(self, missing=missing)
        found = self & before
        inside = set(before.categories)
        mask = np.array([name in inside for name in known.names], dtype=bool)
        others = known.others if before.others else None
        return replace(found, known=Categories(before.categories, known.codes[mask], others))

    @property
    def _has_zero(self) -> bool:
        """Whether 0 lies between the bounds."""
        return (self.low is None or self.low < 0.0) and (self.high is None or self.high >= 0.0)

    @property
    def _zero_passes(self) -> bool:
        return self._has_zero if self.zero is None else self.zero

    def passes(self, x: np.ndarray) -> np.ndarray:
        """Whether values pass: bool (n,); categories are given as codes, NaN is missing."""
        missing = np.isnan(x)
        if self.categories is not None:
            code = np.where(missing, 0, x).astype(np.int64)
            return np.where(missing, self.missing, self._passing_codes()[code])
        inside = np.ones(len(x), dtype=bool)
        if self.low is not None:  # as float64, so that float32 values are compared exactly
            inside &= x > np.float64(self.low)
        if self.high is not None:
            inside &= x <= np.float64(self.high)
        if self.zero is not None:
            inside = np.where(x == 0.0, self.zero, inside)
        return np.where(missing, self.missing, inside)

    # ---- text ----------------------------------------------------------------------------------

    def __str__(self) -> str:
        return self.text(shortest)

    def text(
        self,
        number: Callable[[float], str],
        max_categories: int = MAX_SHOWN,
        show_missing: bool = True,
        aligned: bool = False,
        at_most: str = "<=",
    ) -> str:
        """The condition in words.

        Parameters
        ----------
        number : callable
            Formats a bound.
        max_categories : int
            Number of categories to list.
        show_missing : bool
            Whether "or missing" is written where missing values pass.
        aligned : bool
            Whether one sign is as wide as two, as in scikit-learn's text of a tree.
        at_most : str
            The sign for "less than or equal".
        """
        name = one_line(self.name)
        if self.is_empty:
            return f"{name} is missing" if self.missing else f"{name} in {{}}"
        if self.is_everything:
            return f"{name} is {'anything' if self.missing else 'not missing'}"
        if self.categories is None:
            found = f"{name} {self._interval(number, aligned, at_most)}"
        else:
            found = f"{name} {self._set(max_categories)}"
        return found + (" or missing" if self.missing and show_missing else "")

    @property
    def is_everything(self) -> bool:
        """Whether all values that are not missing pass."""
        if self.categories is not None:
            known = self.known
            complete = known is not None and len(self.categories) == len(known.names)
            return complete and (self.others or known is None or known.others is None)
        bounded = self.low is not None or (self.high is not None and self.high < np.inf)
        return not bounded and self.zero is not False

    @property
    def is_empty(self) -> bool:
        """Whether no value that is not missing passes."""
        if self.categories is not None:
            return not self.categories and not self.others
        return self._is_empty_interval and not self.zero

    @property
    def _is_empty_interval(self) -> bool:
        return self.low is not None and self.low >= (np.inf if self.high is None else self.high)

    def _interval(self, number: Callable[[float], str], aligned: bool, at_most: str) -> str:
        """The bounds, and whether 0 is an exception to them."""
        above, up_to, ends = (">", at_most, "(]") if self.strict is None else (">=", "<", "[)")
        high = None if self.high is None or self.high == np.inf else number(self._shown(self.high))
        low = None if self.low is None else number(self._shown(self.low))
        if self._is_empty_interval:
            return "= 0"
        if low is None and high is None:
            return "not 0"
        if aligned:
            above, up_to = above.ljust(2), up_to.ljust(2)
        if low is None:
            found = f"{up_to} {high}"
        elif high is None:
            found = f"{above} {low}"
        else:
            found = f"in {ends[0]}{low}, {high}{ends[1]}"
        if self.zero is None or self.zero == self._has_zero:
            return found
        return f"{found} or 0" if self.zero else f"{found} and not 0"

    def _shown(self, bound: float) -> float:
        """The bound of the comparison that is shown: t for ``x < t``."""
        if self.strict is None:
            return bound
        with np.errstate(over="ignore"):
            return float(np.nextafter(self.strict(bound), self.strict(np.inf))) + 0.0

    def _set(self, max_categories: int) -> str:
        """The categories that pass or, if others pass or these are many, those that do not."""
        inside = self.categories or ()
        names = () if self.known is None else self.known.names
        passing = set(inside)
        outside = tuple(name for name in names if name not in passing)
        negated = self.others or len(outside) <= max_categories < len(inside)
        if not negated or not outside:
            return f"in {in_braces(inside, max_categories)}"
        return f"not in {in_braces(outside, max_categories)}"

    def _passing_codes(self) -> np.ndarray:
        """Whether each code of a category passes: bool (n_codes,)."""
        assert self.known is not None
        codes, others, inside = self.known.codes, self.known.others, set(self.categories or ())
        found = np.zeros(1 + max(codes.max(initial=0), others or 0), dtype=bool)
        found[codes] = [name in inside for name in self.known.names]
        if others is not None:
            found[others] = self.others
        return found


Path = dict[int, Condition]  # the conditions of a path from the root, merged by feature


def extended(path: Path, condition: Condition) -> Path:
    """A path with one more condition."""
    before = path.get(condition.feature)
    return {**path, condition.feature: condition if before is None else before & condition}


def in_braces(categories: tuple[Any, ...], max_categories: int = MAX_SHOWN) -> str:
    """Some categories as a set; of many, the first ones and the number of the others."""
    shown = [category_text(each) for each in categories[:max_categories]]
    n_more = len(categories) - len(shown)
    return f"{{{', '.join([*shown, f'... {n_more} more'] if n_more else shown)}}}"


def category_text(category: Any) -> str:
    """A category as text; strings are in quotes only if they would be misread otherwise."""
    if isinstance(category, str):
        is_plain = category.isprintable() and category == category.strip() != ""
        return category if is_plain and not _SYNTAX & set(category) else repr(str(category))
    if is_number(category) and not isinstance(category, (bool, np.bool_)):
        value = float(category)
        return str(int(category)) if value.is_integer() else repr(value)
    return str(category)


def one_line(name: str) -> str:
    """A name without line breaks and other characters that cannot be printed, which are escaped."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in name)


def shortest(bound: float) -> str:
    """A number with up to six significant digits."""
    return f"{bound:.6g}"
