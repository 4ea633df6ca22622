"""A table of rows over two features of X, of the same type as X, for pictures of predictions.

An axis consists of cells. Numbers have many narrow ones, each category has one of width 1, and so
have missing values, before the others and behind a gap, if X has some::

    numbers      | missing |     | | | | | | | | |
    categories   | missing |     |  a  |  b  |  c  |
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np

from gpuboost.data.arrays import as_host_array, copied_to_host, is_missing_label, is_sparse
from gpuboost.data.tables import FrameTable, Table, read_table
from gpuboost.estimators.inputs.dataset import Dataset

MISSING_CELL, MISSING_GAP = 0.07, 0.03  # fractions of the width of the other cells
MARGIN_OF_NUMBERS = 0.04  # fraction of their range
MAX_CATEGORY_CELLS = 30  # the most frequent categories


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """Values of a column of a table, as numbers or as rows of X that have them.

    Attributes
    ----------
    values : float64 (n,) or int64 (n,)
        Numbers, NaN if missing; or rows, so that values keep the type that they have in X.
    are_rows : bool
    """

    values: np.ndarray
    are_rows: bool

    def at(self, index: Any) -> ColumnValues:
        """The values at some indices."""
        return ColumnValues(self.values[index], self.are_rows)


@dataclass(frozen=True, eq=False)
class GridAxis:
    """An axis of the picture.

    Attributes
    ----------
    edges : float64 (n_cells + 1,)
    values : ColumnValues
        The values of the cells; of the gap, any.
    has_missing : bool
        Whether the first cell is of missing values and the second one the gap.
    places : float64 (n_rows,)
        Where the rows of X are on the axis.
    labels : dict of float to str
        Texts of categories and of missing values, by their places.
    """

    edges: np.ndarray
    values: ColumnValues
    has_missing: bool
    places: np.ndarray
    labels: dict[float, str]


class SourceTable:
    """X, read column by column, and tables of the same type made of its values, on the host.

    Raises
    ------
    TypeError, ValueError
        If X is a `Dataset`, or no table.
    """

    def __init__(self, X: Any, is_categorical: np.ndarray | None) -> None:
        if isinstance(X, Dataset):
            raise TypeError("a Dataset has codes in place of values; pass the table itself")
        (X,) = copied_to_host(X)
        X = X.toarray() if is_sparse(X) else X
        self.table: Table = read_table(X)
        self._native = X
        of_types = np.broadcast_to(self.table.category_types, self.table.n_features)
        self.is_categorical = of_types if is_categorical is None else of_types | is_categorical

    def axis(self, feature: int, resolution: int) -> GridAxis:
        """The axis of a feature."""
        if self.is_categorical[feature]:
            codes, names = self._categories(feature)
            counts = np.bincount(codes[codes >= 0], minlength=len(names))
            shown = np.sort(np.argsort(-counts, kind="stable")[:MAX_CATEGORY_CELLS])
            place = np.full(len(names) + 1, np.nan)
            place[shown] = np.arange(len(shown))
            rows = np.array([np.argmax(codes == code) for code in shown], dtype=np.int64)
            texts = {float(k): names[code] for k, code in enumerate(shown.tolist())}
            edges, missing = np.arange(len(shown) + 1) - 0.5, codes < 0
            values = ColumnValues(rows, are_rows=True)
            return _with_missing(edges, values, place[codes], missing, texts)
        x = self._numbers(feature)
        missing = np.isnan(x)
        low, high = (x[~missing].min(), x[~missing].max()) if not missing.all() else (0.0, 1.0)
        margin = MARGIN_OF_NUMBERS * (high - low) or 0.5
        edges = np.linspace(low - margin, high + margin, resolution + 1)
        values = ColumnValues(0.5 * (edges[1:] + edges[:-1]), are_rows=False)
        return _with_missing(edges, values, x, missing, {})

    def usual(self, feature: int) -> ColumnValues:
        """The median or the most frequent category; missing if all values are."""
        if self.is_categorical[feature]:
            codes, names = self._categories(feature)
            counts = np.bincount(codes[codes >= 0], minlength=len(names) or 1)
            row = np.argmax(codes == counts.argmax())  # row 0 if all are missing
            return ColumnValues(np.array([row]), are_rows=True)
        x = self._numbers(feature)
        middle = np.nan if np.isnan(x).all() else np.nanmedian(x)
        return ColumnValues(np.array([middle]), are_rows=False)

    def fixed(self, feature: int, value: Any) -> ColumnValues:
        """A value that the user gives.

        Raises
        ------
        ValueError
            If it is not a number, or a category that X does not have.
        """
        if not self.is_categorical[feature]:
            try:
                number = np.nan if value is None else float(value)
            except (TypeError, ValueError):
                raise ValueError(
                    f"fixed[{feature}] must be a number, or None for a missing value, got {value!r}"
                ) from None
            return ColumnValues(np.array([number]), are_rows=False)
        codes, names = self._categories(feature)
        known = dict(zip(names, range(len(names)), strict=True))
        code = -1 if value is None else known.get(str(value), -2)
        if not (codes == code).any():
            raise ValueError(
                f"fixed[{feature}] must be a category in X, of {names!r:.200}, or None if X has "
                f"missing values there, got {value!r}"
            )
        return ColumnValues(np.array([np.argmax(codes == code)]), are_rows=True)

    def grid(
        self, columns: list[ColumnValues], pair: list[int], axes: tuple[GridAxis, GridAxis]
    ) -> Any:
        """The rows of all cells of the axes of two features, those of one line of y together.

        ``columns`` has one value for each of the other features.
        """
        n_x, n_y = (len(axis.values.values) for axis in axes)
        y, x = np.divmod(np.arange(n_x * n_y), n_x)
        table = [own.at(np.zeros(len(x), dtype=np.int64)) for own in columns]
        for feature, axis, place in zip(pair, axes, (x, y), strict=True):
            table[feature] = axis.values.at(place)
        return self.of(table)

    def of(self, columns: list[ColumnValues]) -> Any:
        """A table of the type of X with the given columns."""
        if not isinstance(self.table, FrameTable):
            X = as_host_array(self._native, "X")
            made = [
                X[own.values, k] if own.are_rows else own.values for k, own in enumerate(columns)
            ]
            return np.stack(made, axis=1)
        pairs = zip(self.table.columns, columns, strict=True)
        parts = [_series(series, own).to_frame() for series, own in pairs]
        return nw.concat(parts, how="horizontal").to_native()

    def _numbers(self, feature: int) -> np.ndarray:
        return np.asarray(self.table.numbers(feature), dtype=np.float64)

    def _categories(self, feature: int) -> tuple[np.ndarray, list[str]]:
        """Codes of the rows, -1 where the category is missing, and the categories as texts."""
        codes, values = self.table.categories(feature)
        order = list(range(len(values)))
        is_enum = (
            isinstance(self.table, FrameTable) and self.table.columns[feature].dtype == nw.Enum
        )
        if not is_enum:  # others have no order of their own
            order.sort(key=lambda code: _sort_key(values[code]))
        place = np.full(len(values) + 1, -1)  # stays -1 for code -1, which is the last entry
        place[order] = np.arange(len(values))
        is_missing = np.array([*map(is_missing_label, values), True])
        return np.where(is_missing[codes], -1, place[codes]), [str(values[code]) for code in order]


def _sort_key(category: Any) -> tuple[bool, Any]:
    """Numbers come first, by value, then texts."""
    return (False, category) if isinstance(category, Real) else (True, str(category))


def _series(series: Any, own: ColumnValues) -> Any:
    """Values as a column of the type of another one; numbers are floats."""
    if own.are_rows:
        return nw.maybe_reset_index(series[own.values])
    return nw.new_series(series.name, own.values, nw.Float64, backend=series.implementation)


def _with_missing(
    edges: np.ndarray,
    values: ColumnValues,
    places: np.ndarray,
    missing: np.ndarray,
    labels: dict[float, str],
) -> GridAxis:
    """The axis with a cell of missing values before the others, if there are some."""
    if not missing.any():
        return GridAxis(edges, values, False, places, labels)
    width, gap = 1.0, 0.2
    if not values.are_rows:
        width, gap = ((edges[-1] - edges[0]) * share for share in (MISSING_CELL, MISSING_GAP))
    start = edges[0] - gap - width
    middle = float(start + 0.5 * width)
    first = np.full(2, np.argmax(missing) if values.are_rows else np.nan)
    cells = np.concatenate([first.astype(values.values.dtype), values.values])
    edges = np.concatenate([[start, start + width], edges])
    places = np.where(missing, middle, places)
    labels = {middle: "missing", **labels}
    return GridAxis(edges, ColumnValues(cells, values.are_rows), True, places, labels)
