"""`estimate_memory` of data in blocks is near the memory that a fit takes."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import gpuboost as gb
from gpuboost import Dataset, estimate_memory

N_ROWS, N_FEATURES, LIMIT = 100_000, 8, 200_000


@pytest.mark.parametrize(
    ("model", "n_classes"),
    [
        (gb.GradientBoostingRegressor(n_estimators=2, max_depth=4), 1),
        (gb.GradientBoostingClassifier(n_estimators=2, max_depth=4), 5),
        (gb.RandomForestRegressor(n_estimators=3, max_depth=4), 1),
        (gb.RandomForestClassifier(n_estimators=3, max_depth=4), 5),
        (gb.AdaBoostRegressor(n_estimators=2), 1),
    ],
    ids=lambda given: type(given).__name__,
)
def test_an_estimate_is_near_the_peak(model: Any, n_classes: int, tmp_path: Path) -> None:
    """Arrays are counted; the process with its compiled code is not."""
    X = np.random.default_rng(0).standard_normal((N_ROWS, N_FEATURES))
    y = np.digitize(X[:, 0], [-1.0, 0.0, 0.5, 1.0]) if n_classes > 1 else X[:, 0] + X[:, 1]
    columns = {f"x{i}": column for i, column in enumerate(X.T)}
    parquet.write_table(pa.table({**columns, "y": y.astype(np.float64)}), tmp_path / "t.parquet")
    model.set_params(device="numba", random_state=0, n_jobs=2)

    def fit() -> None:
        data = Dataset.from_batches(tmp_path / "t.parquet", label="y", memory_limit=LIMIT)
        model.fit(data, data.y)

    fit()  # compiles
    tracemalloc.start()
    try:
        fit()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    words: dict[str, Any] = {"n_classes": n_classes} if n_classes > 1 else {}
    estimated = estimate_memory(model, N_ROWS, N_FEATURES, memory_limit=LIMIT, **words)
    assert 0.85 < estimated / peak < 1.5, (estimated, peak)


def test_estimates_of_large_data() -> None:
    """Tables that no machine holds are estimated at once."""
    model = gb.GradientBoostingRegressor(max_depth=6)
    sizes = [estimate_memory(model, n, 100, memory_limit=2**30) for n in (10**6, 10**8, 10**9)]
    assert sizes[0] < 2**30 < 90 * 10**9 < sizes[2] < 130 * 10**9 and sizes[0] < sizes[1]
    with pytest.raises(ValueError, match="memory_limit must be"):
        estimate_memory(model, 10, 10, memory_limit=0)
