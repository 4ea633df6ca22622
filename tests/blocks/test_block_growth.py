"""Fits on codes in blocks give the models of fits in memory, bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone

import gpuboost as gb
from gpuboost import Dataset
from gpuboost.backends.numpy.blocks import level_ops as block_ops
from gpuboost.blocks import coding, spill

FITS = {
    "boosting": gb.GradientBoostingRegressor(n_estimators=4, max_depth=4),
    "best first": gb.GradientBoostingRegressor(
        n_estimators=4, max_depth=None, max_leaf_nodes=9, subsample=0.7
    ),
    "quantile": gb.GradientBoostingRegressor(n_estimators=4, loss="quantile", alpha=0.8),
    "absolute error": gb.GradientBoostingRegressor(
        n_estimators=4, loss="absolute_error", min_samples_leaf=5
    ),
    "early stopping": gb.GradientBoostingRegressor(n_estimators=30, n_iter_no_change=2),
    "few features": gb.GradientBoostingRegressor(n_estimators=4, max_features=2),
    "forest": gb.RandomForestRegressor(
        n_estimators=20, max_depth=6, max_features=3, oob_score=True
    ),
    "medians": gb.RandomForestRegressor(
        n_estimators=3, criterion="absolute_error", max_depth=5, bootstrap=False
    ),
    "random thresholds": gb.ExtraTreesRegressor(n_estimators=5),
    "tree": gb.DecisionTreeRegressor(min_samples_leaf=3, ccp_alpha=0.01),
    "AdaBoost": gb.AdaBoostRegressor(n_estimators=5),
    "bagging": gb.BaggingRegressor(n_estimators=4, max_features=0.5),
}
CLASS_FITS = {
    "boosting of classes": gb.GradientBoostingClassifier(n_estimators=3),
    "hist": gb.HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=4),
    "forest of classes": gb.RandomForestClassifier(n_estimators=5, class_weight="balanced"),
    "entropy": gb.ExtraTreesClassifier(n_estimators=4, criterion="entropy", min_samples_leaf=2),
    "AdaBoost of classes": gb.AdaBoostClassifier(n_estimators=5),
}
SIZES = [("numba", 1), ("numba", 100), ("numba", 10_000), ("numpy", 100)]  # rows of a block


def make_table(n: int = 500) -> tuple[pa.Table, np.ndarray]:
    """Numbers with missing values, a column of few values, and categories."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    X[rng.random(X.shape) < 0.1] = np.nan
    columns: dict[str, Any] = {f"number {i}": column for i, column in enumerate(X.T)}
    columns["few"] = rng.integers(0, 5, n)
    columns["city"] = rng.choice(list("abcdefghijklmnop"), n)
    y = np.nan_to_num(X[:, 0]) + columns["few"] + rng.standard_normal(n)
    return pa.table(columns), y


def in_blocks(table: pa.Table, monkeypatch: pytest.MonkeyPatch, rows: int) -> Dataset:
    """The table in blocks of ``rows`` rows, from two batches; a quarter of the rows fits."""
    monkeypatch.setattr(spill, "SPILLED_ROWS", rows)
    monkeypatch.setattr(spill, "SPILLED_BYTES", rows * table.num_columns)
    monkeypatch.setattr(spill, "READ_BYTES", 2 * min(rows, table.num_rows))
    monkeypatch.setattr(coding, "fits_memory", lambda n_codes, limit: False)

    def batches() -> Iterator[pa.Table]:
        yield from (table.slice(0, 123), table.slice(123))

    made = Dataset.from_batches(batches, memory_limit=table.num_rows * table.num_columns // 2)
    assert made.binned.is_blocked
    return made


@pytest.mark.parametrize(("device", "rows"), SIZES)
@pytest.mark.parametrize("name", [*FITS, *CLASS_FITS])
def test_fits_in_blocks(name: str, rows: int, device: str, monkeypatch: Any) -> None:
    """Rows stay in blocks to the end: no node's rows are gathered."""
    monkeypatch.setattr(block_ops.BlockLevelOps, "_fit_memory", lambda ops, n_open: False)
    assert_same_fit(name, rows, device, monkeypatch)


@pytest.mark.parametrize("name", [*FITS, *CLASS_FITS])
def test_gathered_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of open nodes are gathered as soon as half of them are open."""
    limit = 250 if "boosting" in name else 2000
    fits = lambda ops, n_open: n_open <= limit and ops._depth + 1 < ops.task.options.deepest  # noqa: E731
    monkeypatch.setattr(block_ops.BlockLevelOps, "_fit_memory", fits)
    assert_same_fit(name, 100, "numpy", monkeypatch)


def assert_same_fit(name: str, rows: int, device: str, monkeypatch: Any) -> None:
    table, y = make_table(50 if rows == 1 else 400)
    if name in CLASS_FITS:
        y = np.digitize(y, [0.0, 2.0, 3.0])
    model = (FITS | CLASS_FITS)[name].set_params(random_state=0, device=device)
    whole, blocks = Dataset(table), in_blocks(table, monkeypatch, rows)
    expected, found = clone(model).fit(whole, y), model.fit(blocks, y)
    assert found.fingerprint() == expected.fingerprint()
    assert np.array_equal(found.predict(blocks), expected.predict(whole))
    assert getattr(found, "oob_score_", None) == getattr(expected, "oob_score_", None)


@pytest.mark.parametrize("max_bins", [255, 20])
def test_codes_and_bins_are_those_of_a_dataset(max_bins: int, monkeypatch: Any) -> None:
    table, y = make_table()
    table = table.append_column("weight", [np.abs(y)])
    whole = Dataset(table.drop_columns("weight"), max_bins=max_bins, sample_weight=np.abs(y))
    monkeypatch.setattr(spill, "SPILLED_ROWS", 64)
    blocks = Dataset.from_batches([table], weight="weight", max_bins=max_bins, memory_limit=1)
    assert np.array_equal(blocks.sample_weight, np.abs(y))
    assert blocks.schema.codes == whole.schema.codes
    for field in ("n_bins", "lowest", "highest", "is_categorical"):
        assert np.array_equal(getattr(blocks.mapper, field), getattr(whole.mapper, field))
    codes = np.zeros_like(whole.binned.codes)
    for chunk in blocks.binned.stored.chunks():
        codes[chunk.first : chunk.first + len(chunk.codes), chunk.rows] = chunk.codes
    assert np.array_equal(codes, whole.binned.codes)
    assert np.array_equal(blocks.binned.n_missing, whole.binned.n_missing)
    rows = np.flatnonzero(y > 1)
    part, of_whole = blocks[rows], whole[rows]
    assert np.array_equal(part.binned.n_missing, of_whole.binned.n_missing)
    assert np.array_equal(part.sample_weight, np.abs(y)[rows])


def test_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test data has the bins and categories of the training data."""
    table, y = make_table()
    train, test = table.slice(0, 400), table.slice(400)
    monkeypatch.setattr(spill, "SPILLED_ROWS", 64)
    first = Dataset.from_batches([train], memory_limit=1)
    model = gb.RandomForestRegressor(n_estimators=3, random_state=0).fit(first, y[:400])
    blocks = Dataset.from_batches([test], memory_limit=1, reference=first)
    expected = model.predict(Dataset(test, reference=Dataset(train)))
    assert np.array_equal(model.predict(blocks), expected)


def test_a_gpu_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    table, y = make_table(50)
    blocks = in_blocks(table, monkeypatch, 20)
    with pytest.raises(ValueError, match=r"device='cuda' was given together with a Dataset whose"):
        gb.RandomForestRegressor(device="cuda").fit(blocks, y)
