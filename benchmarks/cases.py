"""What the speed and memory benchmarks measure: each case by name, with the bound it must keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from benchmarks.peers import EXTRA_TREES, FOREST, OURS, PEER_NAMES, REFERENCE, TREE, Setting
from benchmarks.tables import CLASSIFICATION, MAKERS, REGRESSION, Table, load, source, split

INTELEX = "scikit-learn-intelex"
TEST_ROWS = 20_000
SMALL_ROWS, SMALL_TREES = 10, 5  # what --scale small divides rows and trees by


@dataclass(frozen=True)
class Case:
    """One comparison.

    Attributes
    ----------
    name : str
    data : str
        A maker of `tables.MAKERS`, or the name of a Parquet source.
    rows, features : int
        Training rows and columns (``features`` is 0 for Parquet sources).
    setting : Setting
    bounds : mapping of str to float
        The largest ratio of our time to that of the peer of this name.
    predict_rows : int
        If positive, what is timed is the prediction of so many rows instead of the fit.
    device : str or None
        Device of gpuboost in place of the one asked for.
    peers : tuple of str
    """

    name: str
    data: str
    rows: int
    features: int
    setting: Setting
    bounds: Mapping[str, float] = field(default_factory=dict)
    predict_rows: int = 0
    device: str | None = None
    peers: tuple[str, ...] = PEER_NAMES

    @property
    def is_synthetic(self) -> bool:
        """Whether the data are made here rather than read from a folder."""
        return self.data in MAKERS

    def sized(self, scale: str, rows: int | None) -> Case:
        """The case at another size; its bounds then no longer apply."""
        if scale == "full" and rows is None:
            return self
        by_rows, by_trees = (SMALL_ROWS, SMALL_TREES) if scale == "small" else (1, 1)
        trees = self.setting.n_estimators
        trees = trees if self.setting.family == TREE else max(2, trees // by_trees)
        return replace(
            self,
            rows=rows if rows is not None else self.rows // by_rows,
            predict_rows=self.predict_rows // by_rows,
            setting=replace(self.setting, n_estimators=trees),
            bounds={},
        )

    def tables(self, folder: Path | None, seed: int) -> tuple[Table, Table]:
        """Training and test data."""
        if not self.is_synthetic:
            if folder is None:
                raise LookupError("needs --data, a folder of Parquet tables")
            table = load(source(self.data), folder)
            share = max(0.0, 1.0 - self.rows / len(table.y))
            return split(table, seed, max_train=self.rows, test_share=max(share, 0.1))
        n_test = self.predict_rows or min(TEST_ROWS, max(500, self.rows // 5))
        both = MAKERS[self.data](self.rows + n_test, self.features, seed)
        rows = np.arange(self.rows + n_test)
        return both.take(rows[: self.rows]), both.take(rows[self.rows :])


SPEED = (
    Case(
        "RandomForestClassifier 100k x 28, 100 trees to purity",
        "binary",
        100_000,
        28,
        Setting(FOREST, CLASSIFICATION, 100),
        {REFERENCE: 0.1, INTELEX: 0.5},
    ),
    Case(
        "RandomForestRegressor 100k x 28, 20 trees, all features",
        "continuous",
        100_000,
        28,
        Setting(FOREST, REGRESSION, 20),
        {REFERENCE: 0.1, INTELEX: 0.5},
    ),
    Case(
        "RandomForestClassifier 10k x 20, 100 trees to purity",
        "binary",
        10_000,
        20,
        Setting(FOREST, CLASSIFICATION, 100),
        {REFERENCE: 0.1},
    ),
    Case(
        "RandomForestClassifier covertype, 7 classes, 100 trees to purity",
        "covertype",
        86_000,
        0,
        Setting(FOREST, CLASSIFICATION, 100),
        {REFERENCE: 0.3},
    ),
    Case(
        "ExtraTreesClassifier 100k x 28, 100 trees to purity",
        "binary",
        100_000,
        28,
        Setting(EXTRA_TREES, CLASSIFICATION, 100),
        {REFERENCE: 0.4},
    ),
    Case(
        "NumPy backend, RandomForestClassifier 10k x 20, 100 trees to purity",
        "binary",
        10_000,
        20,
        Setting(FOREST, CLASSIFICATION, 100),
        {REFERENCE: 2.5},
        device="numpy",
        peers=(OURS, REFERENCE),
    ),
    Case(
        "DecisionTreeClassifier 1M x 28, depth 8",
        "binary",
        1_000_000,
        28,
        Setting(TREE, CLASSIFICATION, 1, max_depth=8),
        {REFERENCE: 0.25},
    ),
    Case(
        "DecisionTreeRegressor 1M x 28, depth 8",
        "continuous",
        1_000_000,
        28,
        Setting(TREE, REGRESSION, 1, max_depth=8),
        {REFERENCE: 0.25},
    ),
    Case(
        "Prediction of 1M rows x 28 by 100 deep trees",
        "binary",
        100_000,
        28,
        Setting(FOREST, CLASSIFICATION, 100),
        {REFERENCE: 0.3},
        predict_rows=1_000_000,
        peers=(OURS, REFERENCE, INTELEX),
    ),
)

MEMORY = (
    Case(
        "RandomForestClassifier 1M x 28, 20 trees of depth 16",
        "binary",
        1_000_000,
        28,
        Setting(FOREST, CLASSIFICATION, 20, max_depth=16),
    ),
    Case(
        "RandomForestRegressor 1M x 28, 20 trees of depth 16",
        "continuous",
        1_000_000,
        28,
        Setting(FOREST, REGRESSION, 20, max_depth=16, max_features=0.3),
    ),
)


def choose_cases(cases: tuple[Case, ...], only: str | None) -> list[Case]:
    """The cases whose name contains ``only``, in any case of letters."""
    chosen = [case for case in cases if only is None or only.lower() in case.name.lower()]
    if not chosen:
        names = "\n  ".join(case.name for case in cases)
        raise ValueError(f"no case contains {only!r}; there are:\n  {names}")
    return chosen
