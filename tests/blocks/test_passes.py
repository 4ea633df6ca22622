"""How often growth reads the codes of a dataset in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gpuboost as gb
from gpuboost import Dataset
from gpuboost.backends.numba.blocks import passes as compiled
from gpuboost.backends.numba.blocks.rows import add_leaf_rows
from gpuboost.backends.numpy.blocks import level_ops as block_ops
from gpuboost.backends.numpy.blocks.sums import Pending
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
    n_read, original, pass_blocks = 0, spill.SpilledCodes._chunk, compiled.pass_blocks
    columns = Pending.columns

    def counted(codes: Any, block: int, first: int, last: int, *to: Any) -> Any:
        nonlocal n_read
        rows = codes.row_slices[block]
        n_read += (last - first) * (rows.stop - rows.start)
        return original(codes, block, first, last, *to)

    def counted_blocks(codes: Any, some: Any, *others: Any) -> None:
        nonlocal n_read
        n_read += codes[some].size
        pass_blocks(codes, some, *others)

    def counted_columns(splits: Pending, codes_of: Any, rows: slice) -> Any:
        nonlocal n_read
        codes, pending = columns(splits, codes_of, rows)
        used = np.unique(pending.feature[pending.feature >= 0])
        if np.may_share_memory(codes, codes_of.kept):  # `counted` does not count these
            n_read += len(used) * (rows.stop - rows.start)
        return codes, pending

    y = blocks.y > 0 if hasattr(model, "predict_proba") else blocks.y
    monkeypatch.setattr(spill.SpilledCodes, "_chunk", counted)
    monkeypatch.setattr(compiled, "pass_blocks", counted_blocks)
    monkeypatch.setattr(Pending, "columns", counted_columns)
    model.set_params(device=device, random_state=0).fit(blocks, y)
    passes = n_read / (N_ROWS * N_FEATURES * n_batches)
    assert DEPTH < passes <= DEPTH + 1


def test_boosting_sends_rows_to_the_last_leaves_in_one_pass(
    blocks: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for the tree of a round, or the trees of all classes; not if some rows are left out."""
    n_passes, last_pass = 0, compiled.CompiledPasses.last_pass

    def counted(*given: Any) -> Any:
        nonlocal n_passes
        n_passes += 1
        return last_pass(*given)

    monkeypatch.setattr(compiled.CompiledPasses, "last_pass", counted)
    given: dict[str, Any] = {"n_estimators": 3, "max_depth": DEPTH, "device": "numba"}
    gb.GradientBoostingRegressor(**given).fit(blocks, blocks.y)
    assert n_passes == 3
    gb.GradientBoostingClassifier(**given).fit(blocks, np.digitize(blocks.y, [-1.0, 1.0]))
    assert n_passes == 6
    gb.GradientBoostingRegressor(**given, subsample=0.5).fit(blocks, blocks.y)
    assert n_passes == 6


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [1, 3])
def test_compiled_leaf_sums_are_sums_over_the_rows_of_leaves(
    n_classes: int, weighted: bool
) -> None:
    """Rows that are in no leaf, or not in the tree, are not added."""
    rng, n, leaf = np.random.default_rng(0), 500, np.array([-1, 3, 0, -1, 6])
    node = rng.integers(-1, 5, n)
    row = np.concatenate([np.flatnonzero(node == own) for own in range(5)]).astype(np.uint32)
    ends = np.cumsum(np.bincount(node[node >= 0]))
    bounds = np.column_stack([np.append(0, ends[:-1]), ends])
    classes = rng.integers(0, n_classes, n if n_classes > 1 else 0).astype(np.int32)
    weight = rng.integers(1, 9, n if weighted else 0).astype(np.int32)
    wide, sums = rng.integers(-(2**40), 2**40, (n, 2)), np.zeros((9, 2), np.int64)
    add_leaf_rows(row, bounds, leaf, classes, weight, wide, sums)
    expected = np.zeros_like(sums)
    at = np.flatnonzero((node >= 0) & (leaf[node] >= 0))
    of_class = classes[at] if n_classes > 1 else 0
    by = weight[at, None] if weighted else 1
    np.add.at(expected, leaf[node[at]] + of_class, wide[at] * by)
    np.testing.assert_array_equal(sums, expected)
