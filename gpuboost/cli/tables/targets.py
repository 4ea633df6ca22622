"""The target of a table, classes or values; the weights of its rows, and rows held out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuboost.cli.output import counted
from gpuboost.cli.tables.data import DataTable

OF_CLASSES, OF_VALUES = "classification", "regression"
MAX_INFERRED_CLASSES = 20  # whole numbers with more distinct values are a regression
ROWS_PER_CLASS = 10  # on average; whole numbers with fewer rows for each value are a regression


@dataclass(frozen=True)
class TableTarget:
    """The values of a target.

    Attributes
    ----------
    values : ndarray of shape (n_rows,)
        Numbers, bools or strings.
    task : str
        "classification" or "regression".
    reason : str
        A sentence that says why.
    """

    values: np.ndarray
    task: str
    reason: str

    @property
    def is_classification(self) -> bool:
        """Whether the values are classes."""
        return self.task == OF_CLASSES


def target_of(table: DataTable, name: str, task: str | None = None) -> TableTarget:
    """The target in a column; without a ``task``, its values decide whether they are classes.

    Strings and bools are classes. Whole numbers are classes if there are few distinct values, each
    of many rows.

    Raises
    ------
    ValueError
        If there is no such column, values are missing, or a regression has strings.
    """
    values = table.values(name)
    found, what = _described(values)
    if task is not None and task != found:
        if task == OF_VALUES and values.dtype.kind == "U":
            raise ValueError(f"a regression needs numbers, but target {name!r} has strings")
        return TableTarget(values, task, f"target {name!r} has {what}: {task}, as --task says")
    advice = ""
    if task is None and values.dtype.kind in "iuf" and found == OF_CLASSES:
        advice = f" (--task {OF_VALUES} for values)"
    return TableTarget(values, found, f"target {name!r} has {what}: {found}{advice}")


def _described(values: np.ndarray) -> tuple[str, str]:
    """The task that values look like, and what they are."""
    distinct = np.unique(values)
    if values.dtype.kind in "Ub":
        what = "string" if values.dtype.kind == "U" else "bool"
        return OF_CLASSES, counted(len(distinct), f"distinct {what}")
    if values.dtype.kind == "f" and (distinct != np.floor(distinct)).any():
        return OF_VALUES, "numbers with fractions"
    is_few = len(distinct) <= MAX_INFERRED_CLASSES
    is_class = is_few and (len(distinct) <= 2 or len(distinct) * ROWS_PER_CLASS <= len(values))
    return OF_CLASSES if is_class else OF_VALUES, counted(len(distinct), "distinct whole number")


def weights_of(table: DataTable, name: str) -> np.ndarray:
    """The weights in a column: float64 (n_rows,).

    Raises
    ------
    ValueError
        If there is no such column, or it has other values than numbers from 0 that are not all 0.
    """
    values = table.values(name)
    if values.dtype.kind == "U":
        raise ValueError(f"column {name!r} has strings, but --weight needs numbers")
    weights = values.astype(np.float64)
    if not (np.isfinite(weights) & (weights >= 0.0)).all() or not weights.any():
        raise ValueError(
            f"column {name!r} has values from {weights.min():g} to {weights.max():g}, but --weight "
            "needs finite numbers from 0 that are not all 0"
        )
    return weights


def held_out_rows(target: TableTarget, fraction: float, seed: int) -> np.ndarray:
    """Mask of a random fraction of the rows: bool (n_rows,).

    For a classification, it is a fraction of each class, of which at least one row is not in it.

    Raises
    ------
    ValueError
        If no row would be in the mask, or all.
    """
    rng = np.random.default_rng(seed)
    n_rows = len(target.values)
    groups = [np.arange(n_rows)]
    if target.is_classification:
        _, numbers = np.unique(target.values, return_inverse=True)
        order = np.argsort(numbers, kind="stable")
        groups = np.split(order, np.cumsum(np.bincount(numbers))[:-1])
    mask = np.zeros(n_rows, dtype=bool)
    for rows in groups:
        count = min(round(fraction * len(rows)), len(rows) - 1)
        mask[rng.permutation(rows)[:count]] = True
    if not mask.any():
        whole = counted(n_rows, "row")
        raise ValueError(f"a share of {fraction} of {whole} holds out none; use more, or a table")
    return mask
