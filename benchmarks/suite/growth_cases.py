"""The cases of the growth benchmark: one size of boosting changes, the others stay as they are."""

from __future__ import annotations

from benchmarks.peers.boosting_peers import CATBOOST
from benchmarks.peers.peers import FASTEST_BOOSTING, OURS
from benchmarks.suite.cases import Case
from benchmarks.suite.settings import BOOSTING, BoostingOptions, Setting
from benchmarks.suite.tables import CLASSIFICATION

PEERS = (OURS, *FASTEST_BOOSTING, CATBOOST)
ROWS, COLUMNS, TREES, DEPTH, CLASSES = "rows", "columns", "trees", "depth", "classes"
SIZES = {
    ROWS: (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000),
    COLUMNS: (10, 30, 100, 300, 1_000, 3_000, 5_000),
    TREES: (10, 30, 100, 300, 1_000),
    DEPTH: (2, 4, 6, 8, 10, 12),
    CLASSES: (2, 3, 7, 20, 50, 100),
}
TABLES = {  # rows and columns, where they stay the same
    ROWS: (0, 28),
    COLUMNS: (5_000, 0),
    TREES: (10_000, 20),
    DEPTH: (100_000, 28),
    CLASSES: (10_000, 20),
}
FEW_TREES, FEW_ROUNDS, USUAL_DEPTH = 20, 10, 6  # rounds of many classes have many trees
EXPONENTS = {ROWS: 0.05, COLUMNS: 0.05}  # how much larger than the smallest peer's is allowed


def title(dimension: str) -> str:
    """What stays the same along a dimension, for a caption."""
    rows, columns = TABLES[dimension]
    table = " x ".join(
        f"{n:,}" if n else name for n, name in ((rows, "rows"), (columns, "columns"))
    )
    trees = {TREES: "trees", CLASSES: f"{FEW_ROUNDS} rounds"}.get(dimension, f"{FEW_TREES} trees")
    depth = "" if dimension == DEPTH else f" of depth {USUAL_DEPTH}"
    return f"{table}, {trees}{depth}"


def case_of(dimension: str, size: int) -> Case:
    """Gradient boosting with one size along a dimension."""
    rows, columns = TABLES[dimension]
    rounds = {TREES: size, CLASSES: FEW_ROUNDS}.get(dimension, FEW_TREES)
    depth = size if dimension == DEPTH else USUAL_DEPTH
    setting = Setting(BOOSTING, CLASSIFICATION, rounds, max_depth=depth, boosting=BoostingOptions())
    return Case(
        f"{dimension} {size:,}",
        f"{size} classes" if dimension == CLASSES else "binary",
        rows or size,
        columns or size,
        setting,
        peers=PEERS,
    )
