"""The cases of the speed and memory benchmarks, with the bounds that they must keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.peers import INTELEX, LIGHTGBM, OURS, REFERENCE, XGBOOST
from benchmarks.peers.recent_boosting import BONSAI, HESSBOOST
from benchmarks.suite.settings import BOOSTING, EXTRA_TREES, FOREST, TREE, Setting
from benchmarks.suite.tables import (
    CLASSIFICATION,
    REGRESSION,
    SPEED_MAKERS,
    Table,
    load,
    source,
    split,
)

FOREST_PEERS = (OURS, REFERENCE, INTELEX, XGBOOST, LIGHTGBM)
TEST_ROWS = 20_000
SMALL_ROWS, SMALL_TREES = 10, 5  # --scale small divides the rows and trees by these


@dataclass(frozen=True)
class Bound:
    """The largest allowed ratio of gpuboost's time to that of the fastest of some peers.

    Attributes
    ----------
    ratio : float
    peers : tuple of str
    is_required : bool
        Whether the bound counts as missed if gpuboost or one of the peers has no time.
    """

    ratio: float
    peers: tuple[str, ...]
    is_required: bool = True

    def verdict(self, ratios: Mapping[str, float]) -> dict[str, Any]:
        """Compare the bound with the ratios of gpuboost's time to that of each peer.

        Returns
        -------
        dict
            ``peers`` and ``allowed``; ``reached`` and ``fastest``, if all of them have times; and
            ``missed``, a sentence, if the bound is missed.
        """
        found: dict[str, Any] = {"peers": list(self.peers), "allowed": self.ratio}
        without = [peer for peer in self.peers if peer not in ratios]
        if without:
            why = f"not compared with {_listed(without)}: one of the two sides has no time"
            return found | ({"missed": why} if self.is_required else {})
        fastest = max(self.peers, key=lambda peer: ratios[peer])
        found |= {"reached": ratios[fastest], "fastest": fastest}
        if ratios[fastest] <= self.ratio:
            return found
        among = f", the fastest of {_listed(self.peers)}" if len(self.peers) > 1 else ""
        missed = f"{ratios[fastest]:.3f} of {fastest}'s time{among}, {self.ratio} allowed"
        return found | {"missed": missed}


def _listed(names: Sequence[str]) -> str:
    """Join names as in a sentence."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


@dataclass(frozen=True)
class Case:
    """One comparison of gpuboost with its peers.

    Attributes
    ----------
    name : str
    data : str
        Key of `tables.SPEED_MAKERS`, or the name of a Parquet source.
    rows, features : int
        Number of training rows and columns (``features`` is 0 for Parquet sources).
    setting : Setting
    bounds : tuple of Bound
    predict_rows : int
        If positive, the prediction of this many rows is timed instead of the fit.
    device : str or None
        Device of gpuboost; None for the one that the command line names.
    peers : tuple of str
    min_repeat : int
        Minimal number of runs of each peer; larger for cases that take milliseconds.
    """

    name: str
    data: str
    rows: int
    features: int
    setting: Setting
    bounds: tuple[Bound, ...] = ()
    predict_rows: int = 0
    device: str | None = None
    peers: tuple[str, ...] = FOREST_PEERS
    min_repeat: int = 1

    @property
    def is_synthetic(self) -> bool:
        """Whether the data are generated rather than read from a folder."""
        return self.data in SPEED_MAKERS

    def sized(self, scale: str, rows: int | None) -> Case:
        """The case at another size, for which its bounds do not apply."""
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
            bounds=(),
            min_repeat=1,
        )

    def tables(self, folder: Path | None, seed: int) -> tuple[Table, Table]:
        """Make or load the training and test data."""
        if not self.is_synthetic:
            if folder is None:
                raise LookupError("needs --data, a folder of Parquet tables")
            table = load(source(self.data), folder)
            share = max(0.0, 1.0 - self.rows / len(table.y))
            return split(table, seed, max_train=self.rows, test_share=max(share, 0.1))
        n_test = self.predict_rows or min(TEST_ROWS, max(500, self.rows // 5))
        both = SPEED_MAKERS[self.data](self.rows + n_test, self.features, seed)
        rows = np.arange(self.rows + n_test)
        return both.take(rows[: self.rows]), both.take(rows[self.rows :])


SPEED = (
    Case(
        "RandomForestClassifier 100k x 28, 100 trees to purity",
        "binary",
        100_000,
        28,
        Setting(FOREST, CLASSIFICATION, 100),
        (
            Bound(0.1, (REFERENCE,)),
            Bound(0.2, (INTELEX,), is_required=False),
        ),
    ),
    Case(
        "RandomForestRegressor 100k x 28, 20 trees, all features",
        "continuous",
        100_000,
        28,
        Setting(FOREST, REGRESSION, 20),
        (
            Bound(0.1, (REFERENCE,)),
            Bound(0.2, (INTELEX,), is_required=False),
        ),
    ),
    Case(
        "RandomForestClassifier 10k x 20, 100 trees to purity",
        "binary",
        10_000,
        20,
        Setting(FOREST, CLASSIFICATION, 100),
        (Bound(0.1, (REFERENCE,)),),
    ),
    Case(
        "RandomForestClassifier covertype, 7 classes, 100 trees to purity",
        "covertype",
        86_000,
        0,
        Setting(FOREST, CLASSIFICATION, 100),
        (Bound(0.2, (REFERENCE,)),),
    ),
    Case(
        "ExtraTreesClassifier 100k x 28, 100 trees to purity",
        "binary",
        100_000,
        28,
        Setting(EXTRA_TREES, CLASSIFICATION, 100),
        (Bound(0.25, (REFERENCE,)),),
    ),
    Case(
        "RandomForestClassifier 3M x 28, 10 trees of depth 12",
        "binary",
        3_000_000,
        28,
        Setting(FOREST, CLASSIFICATION, 10, max_depth=12),
        (Bound(0.1, (REFERENCE,)),),
    ),
    Case(
        "ExtraTreesClassifier 3M x 28, 10 trees of depth 12",
        "binary",
        3_000_000,
        28,
        Setting(EXTRA_TREES, CLASSIFICATION, 10, max_depth=12),
        (Bound(0.25, (REFERENCE,)),),
    ),
    Case(
        "NumPy backend, RandomForestClassifier 10k x 20, 100 trees to purity",
        "binary",
        10_000,
        20,
        Setting(FOREST, CLASSIFICATION, 100),
        (Bound(2.5, (REFERENCE,)),),
        device="numpy",
        peers=(OURS, REFERENCE),
    ),
    Case(
        "DecisionTreeClassifier 1M x 28, depth 8",
        "binary",
        1_000_000,
        28,
        Setting(TREE, CLASSIFICATION, 1, max_depth=8),
        (Bound(0.25, (REFERENCE,)),),
    ),
    Case(
        "DecisionTreeRegressor 1M x 28, depth 8",
        "continuous",
        1_000_000,
        28,
        Setting(TREE, REGRESSION, 1, max_depth=8),
        (Bound(0.25, (REFERENCE,)),),
    ),
    Case(
        "Prediction of 1M rows x 28 by 100 deep trees",
        "binary",
        100_000,
        28,
        Setting(FOREST, CLASSIFICATION, 100),
        (Bound(0.2, (REFERENCE,)),),
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
    Case(
        "GradientBoostingClassifier 3M x 28 float32, 20 trees of depth 6",
        "binary",
        3_000_000,
        28,
        Setting(BOOSTING, CLASSIFICATION, 20, max_depth=6),
        (Bound(1.0, (LIGHTGBM,)),),
        peers=(OURS, XGBOOST, LIGHTGBM, HESSBOOST, BONSAI),
    ),
)


def choose_cases(cases: tuple[Case, ...], only: str | None) -> list[Case]:
    """The cases whose names contain ``only``, ignoring case."""
    chosen = [case for case in cases if only is None or only.lower() in case.name.lower()]
    if not chosen:
        names = "\n  ".join(case.name for case in cases)
        raise ValueError(f"no case contains {only!r}; there are:\n  {names}")
    return chosen
