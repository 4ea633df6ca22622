"""How often growth reads the codes of a dataset in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gpuboost as gb
from gpuboost import Dataset
from gpuboost.backends.numpy.blocks import level_ops as block_ops
from gpuboost.blocks import spill

N_ROWS, N_FEATURES, DEPTH = 4000, 6, 4


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> Dataset:
    """Codes in blocks of 1,000 rows, which are read at once, and stay in blocks to the end."""
    monkeypatch.setattr(spill, "FEW_ROWS_OF_BLOCK", 1)
    monkeypatch.setattr(spill, "READ_BYTES", 1000 * N_FEATURES)
    monkeypatch.setattr(spill, "fits_memory", lambda n_codes, limit: False)
    monkeypatch.setattr(block_ops.BlockLevelOps, "_fit_memory", lambda ops, n_open: False)
    X = np.random.default_rng(0).standard_normal((N_ROWS, N_FEATURES))
    columns = {f"x{i}": column for i, column in enumerate(X.T)}
    table = pa.table({**columns, "y": X[:, 0] + X[:, 1] * X[:, 2]})
    return Dataset.from_batches([table], label="y", memory_limit=10**7)


@pytest.mark.parametrize("device", ["numpy", "numba"])
@pytest.mark.parametrize(
    ("model", "n_batches"),
    [
        (gb.GradientBoostingRegressor(n_estimators=3, max_depth=DEPTH), 3),
        (gb.RandomForestRegressor(n_estimators=10, max_depth=DEPTH), 1),
        (gb.ExtraTreesClassifier(n_estimators=10, max_depth=DEPTH), 1),
        (gb.DecisionTreeRegressor(max_depth=DEPTH), 1),
    ],
    ids=lambda given: type(given).__name__,
)
def test_a_batch_of_trees_reads_the_codes_once_a_level(
    model: Any, n_batches: int, device: str, blocks: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most depth + 1 times: in the last pass, only features of the last splits are read."""
    n_read, original = 0, spill.SpilledCodes._chunk

    def counted(codes: Any, block: int, first: int, last: int, *to: Any) -> Any:
        nonlocal n_read
        rows = codes.row_slices[block]
        n_read += (last - first) * (rows.stop - rows.start)
        return original(codes, block, first, last, *to)

    y = blocks.y > 0 if hasattr(model, "predict_proba") else blocks.y
    monkeypatch.setattr(spill.SpilledCodes, "_chunk", counted)
    model.set_params(device=device, random_state=0).fit(blocks, y)
    passes = n_read / (N_ROWS * N_FEATURES * n_batches)
    assert DEPTH < passes <= DEPTH + 1
