"""The rows of the benchmark: synthetic, or of a table of the user, as files for all processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SYNTHETIC_FEATURES = 16
HELD_OUT_SHARE, MAX_TEST_ROWS = 0.25, 100_000
PARTS = ("X", "y", "X_test", "y_test")


@dataclass(frozen=True)
class BenchRows:
    """Where rows come from.

    Attributes
    ----------
    X, y : ndarray or None
        Features in float32 and target of a table of the user; None for synthetic rows.
    is_classification : bool
        Whether the target is of classes.
    seed : int
        Seed of the rows.
    """

    X: np.ndarray | None
    y: np.ndarray | None
    is_classification: bool
    seed: int

    def sizes(self, wanted: tuple[int, ...]) -> tuple[int, ...]:
        """The numbers of training rows that there are; of a smaller table, all of its rows."""
        if self.X is None:
            return wanted
        n_train = len(self.X) - _n_test(len(self.X))
        return tuple(sorted({min(rows, n_train) for rows in wanted}))

    def write(self, n_train: int, folder: Path) -> None:
        """Write training and test rows to files that `read_rows` reads."""
        X, y = self._draw(n_train)
        parts = X[:n_train], y[:n_train], X[n_train:], y[n_train:]
        for name, part in zip(PARTS, parts, strict=True):
            np.save(folder / f"{n_train}-{name}.npy", part)

    def _draw(self, n_train: int) -> tuple[np.ndarray, np.ndarray]:
        """Training rows, and the test rows after them."""
        if self.X is None or self.y is None:
            X, _, classes = synthetic_rows(n_train + max(1000, _n_test(n_train)), self.seed)
            return X, classes
        order = np.random.default_rng(self.seed).permutation(len(self.X))
        n_test = _n_test(len(self.X))
        chosen = np.concatenate([order[n_test : n_test + n_train], order[:n_test]])
        return self.X[chosen], self.y[chosen]


def _n_test(n_rows: int) -> int:
    return max(1, min(MAX_TEST_ROWS, int(n_rows * HELD_OUT_SHARE)))


def synthetic_rows(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Friedman's first problem with noise: X in float32, values, and two classes of them."""
    from sklearn.datasets import make_friedman1

    X, y = make_friedman1(n_rows, SYNTHETIC_FEATURES, noise=2.0, random_state=seed)
    return X.astype(np.float32), y, (y > np.median(y)).astype(np.int64)


def read_rows(n_train: int, folder: Path) -> tuple[np.ndarray, ...]:
    """X, y, X_test and y_test of a size."""
    return tuple(np.load(folder / f"{n_train}-{name}.npy") for name in PARTS)


def rows_of_table(path: str, target: str, seed: int) -> BenchRows:
    """The rows of a table; categories become numbers, so that every library can read them.

    Raises
    ------
    ValueError
        If the table or its target cannot be used.
    """
    from gpuboost.cli.tables.data import without
    from gpuboost.cli.tables.read import read_data
    from gpuboost.cli.tables.targets import target_of
    from gpuboost.data.frames import fit_schema

    table = read_data(path)
    found = target_of(table, target)
    features, _ = fit_schema(table.features(without(table.names, [target])))
    y: Any = found.values
    if found.is_classification:
        y = np.unique(y, return_inverse=True)[1]
    return BenchRows(np.asarray(features, np.float32), y, found.is_classification, seed)
