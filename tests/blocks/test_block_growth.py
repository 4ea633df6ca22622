"""Fits on codes in blocks give the models of fits in memory, bit by bit."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone

import gpuboost as gb
from gpuboost import Dataset
from gpuboost.backends.numba.blocks import passes as compiled_passes
from gpuboost.backends.numpy.blocks import level_ops as block_ops
from gpuboost.backends.numpy.blocks import passes
from gpuboost.blocks import spill
from gpuboost.callbacks import Checkpoint, TimeBudget

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
# Gradients change from node to node, or trees are stumps, so nothing is subtracted.
WITHOUT_PAIRS = ("medians", "AdaBoost of classes")
CLASS_FITS = {
    "boosting of classes": gb.GradientBoostingClassifier(n_estimators=3),
    "hist": gb.HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=4),
    "forest of classes": gb.RandomForestClassifier(n_estimators=5, class_weight="balanced"),
    "entropy": gb.ExtraTreesClassifier(n_estimators=4, criterion="entropy", min_samples_leaf=2),
    "AdaBoost of classes": gb.AdaBoostClassifier(n_estimators=5),
}
# Rows of a block, and bytes of the memory limit: with few bytes, nodes are searched in slices and
# trees grow one by one; with many, siblings are subtracted and all trees grow together.
SIZES = [
    ("numba", 1, 1000),
    ("numba", 100, 10**8),
    ("numba", 10_000, 1000),
    ("numpy", 100, 1000),
    ("numpy", 150, 10**8),
]


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


def in_blocks(
    table: pa.Table, monkeypatch: pytest.MonkeyPatch, rows: int, limit: int = 1000
) -> Dataset:
    """The table in blocks of ``rows`` rows, from two batches."""
    monkeypatch.setattr(spill, "SPILLED_ROWS", rows)
    monkeypatch.setattr(spill, "SPILLED_BYTES", rows * table.num_columns)
    monkeypatch.setattr(spill, "READ_BYTES", 2 * min(rows, table.num_rows))
    monkeypatch.setattr(spill, "fits_memory", lambda n_codes, limit: False)

    def batches() -> Iterator[pa.Table]:
        yield from (table.slice(0, 123), table.slice(123))

    made = Dataset.from_batches(batches, memory_limit=limit)
    assert made.binned.is_blocked
    return made


@pytest.mark.parametrize(("device", "rows", "limit"), SIZES)
@pytest.mark.parametrize("name", [*FITS, *CLASS_FITS])
def test_fits_in_blocks(
    name: str, rows: int, limit: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows stay in blocks to the end; sums of words are full often, threads share features."""
    monkeypatch.setattr(block_ops.BlockLevelOps, "_fit_memory", lambda ops, n_open: False)
    choose = compiled_passes.choose_gradient_packing

    def few(*given: Any) -> Any:
        packing = choose(*given)
        return packing._replace(block=min(packing.block, 7))

    monkeypatch.setattr(compiled_passes, "choose_gradient_packing", few)
    for name_of_bound in ("FEW_ROWS", "MIN_SHARED", "MIN_SHARED_SUMS"):
        monkeypatch.setattr(compiled_passes, name_of_bound, 1)
    monkeypatch.setattr(block_ops, "MIN_SHARED_SEARCH", 1)
    monkeypatch.setattr(passes, "PRIVATE_BYTES", 0 if rows == 100 else 1 << 25)
    taken = dict.fromkeys(("_build_level", "sibling_pairs"), 0)
    for owner, step in zip((block_ops.BlockLevelOps, block_ops), taken, strict=True):
        original = getattr(owner, step)

        def counted(*given: Any, step: str = step, original: Any = original) -> Any:
            found = original(*given)
            taken[step] += 1 if step == "_build_level" else len(found[0])
            return found

        monkeypatch.setattr(owner, step, counted)
    assert_same_fit(name, rows, device, monkeypatch, limit)
    assert bool(taken["_build_level"]) == (limit > 1000)
    assert bool(taken["sibling_pairs"]) == (limit > 1000 and name not in WITHOUT_PAIRS)


@pytest.mark.parametrize(("limit", "n_jobs"), [(10**8, 2), (10**8, 1), (1000, 1)])
@pytest.mark.parametrize("name", ["boosting", "best first", "quantile", "forest", "bagging"])
def test_blocks_in_memory_are_passed_together(
    name: str, limit: int, n_jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All blocks are in memory, or one of three; each call passes one, and sums are full often."""
    monkeypatch.setattr(block_ops.BlockLevelOps, "_fit_memory", lambda ops, n_open: False)
    choose, n_blocks = compiled_passes.choose_gradient_packing, 0
    few = lambda *given: choose(*given)._replace(block=7)  # noqa: E731
    original = compiled_passes.pass_blocks

    def counted(codes: Any, blocks: Any, *others: Any) -> None:
        nonlocal n_blocks
        n_blocks += len(blocks)
        assert len(blocks) == 1 and len(codes) == (3 if limit > 1000 else 1)
        original(codes, blocks, *others)

    monkeypatch.setattr(compiled_passes, "choose_gradient_packing", few)
    monkeypatch.setattr(compiled_passes, "FEW_ROWS", 1)
    monkeypatch.setattr(compiled_passes, "BYTES_OF_A_CALL", 1)
    monkeypatch.setattr(compiled_passes, "pass_blocks", counted)
    assert_same_fit(name, 100, "numba", monkeypatch, limit, n_jobs)
    assert n_blocks > 0


@pytest.mark.parametrize("criterion", ["squared_error", "poisson", "absolute_error"])
@pytest.mark.parametrize("device", ["numpy", "numba"])
@pytest.mark.filterwarnings("ignore:the weights of rows")
def test_rows_whose_weight_is_rounded_to_zero(
    device: str, criterion: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are counted in leaves, together with the rows of weight of the next bin."""
    monkeypatch.setattr(block_ops.BlockLevelOps, "_fit_memory", lambda ops, n_open: False)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = np.round(rng.standard_normal((120, 2)), 1)
        y, weight = np.abs(X[:, 0]) + 0.1, np.where(rng.random(120) < 0.5, 1e-12, 1.0)
        table = pa.table({"a": X[:, 0], "b": X[:, 1]})
        model = gb.DecisionTreeRegressor(
            criterion=criterion, min_samples_leaf=2, max_depth=4, device=device, random_state=0
        )
        expected = clone(model).fit(Dataset(table), y, weight).fingerprint()
        blocks = in_blocks(table, monkeypatch, 50, 10**6)
        assert model.fit(blocks, y, weight).fingerprint() == expected


@pytest.mark.parametrize("name", [*FITS, *CLASS_FITS])
def test_rows_that_do_not_fit_words(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are added as summands or classes."""
    monkeypatch.setattr(block_ops.BlockLevelOps, "_fit_memory", lambda ops, n_open: False)
    monkeypatch.setattr(compiled_passes, "FEW_ROWS", 1 << 40)
    assert_same_fit(name, 100, "numba", monkeypatch, 10**8)


@pytest.mark.parametrize("name", [*FITS, *CLASS_FITS])
def test_gathered_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of open nodes are gathered as soon as half of them are open."""
    limit = 250 if "boosting" in name else 2000
    fits = lambda ops, n_open: n_open <= limit and ops._depth + 1 < ops.task.options.deepest  # noqa: E731
    monkeypatch.setattr(block_ops.BlockLevelOps, "_fit_memory", fits)
    assert_same_fit(name, 100, "numpy", monkeypatch)


def assert_same_fit(
    name: str, rows: int, device: str, monkeypatch: Any, limit: int = 1000, n_jobs: int = -1
) -> None:
    table, y = make_table(40 if rows == 1 else 250)
    if name in CLASS_FITS:
        y = np.digitize(y, [0.0, 2.0, 3.0])
    model = (FITS | CLASS_FITS)[name].set_params(random_state=0, device=device)
    model.set_params(n_jobs=n_jobs)
    whole, blocks = Dataset(table), in_blocks(table, monkeypatch, rows, limit)
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


def test_weights_and_several_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    table, y = make_table(300)
    several, weights = np.stack([y, y**2, -y], axis=1), np.abs(y) * (y > -1)
    model = gb.GradientBoostingRegressor(n_estimators=3, random_state=0, device="numba")
    whole, blocks = Dataset(table), in_blocks(table, monkeypatch, 70, 10**8)
    for targets in (y, several):
        expected = clone(model).fit(whole, targets, weights).fingerprint()
        assert model.fit(blocks, targets, weights).fingerprint() == expected


def test_a_callback_ends_a_forest_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees are grown a few at a time if callbacks watch them."""
    table, y = make_table(100)
    grown: list[int] = []
    original = block_ops.BlockLevelOps.end_batch

    def end_batch(ops: Any) -> Any:
        grown.append(len(ops.trees))
        return original(ops)

    monkeypatch.setattr(block_ops.BlockLevelOps, "end_batch", end_batch)
    forest = gb.RandomForestRegressor(
        n_estimators=50, max_depth=3, callbacks=[TimeBudget(1e-9)], device="numba"
    )
    forest.fit(in_blocks(table, monkeypatch, 40, 10**8), y)
    assert sum(grown) < 20


@pytest.mark.parametrize("is_forest", [False, True])
def test_checkpoints(is_forest: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit in memory is resumed in blocks."""
    table, y = make_table(100)
    whole, blocks = Dataset(table), in_blocks(table, monkeypatch, 40)
    kind = gb.RandomForestRegressor if is_forest else gb.GradientBoostingRegressor
    path = tmp_path / "run.gpuboost"
    model = kind(n_estimators=3, max_depth=3, random_state=0, device="numpy")
    model.set_params(callbacks=[Checkpoint(path)]).fit(whole, y)
    resumed = kind(n_estimators=6, max_depth=3, random_state=0, device="numpy")
    resumed.set_params(callbacks=[Checkpoint(path)]).fit(blocks, y)
    expected = kind(n_estimators=6, max_depth=3, random_state=0, device="numpy").fit(whole, y)
    assert resumed.fingerprint() == expected.fingerprint()


def test_a_dataset_in_blocks_is_not_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = in_blocks(make_table(50)[0], monkeypatch, 20)
    with pytest.raises(TypeError, match="cannot be pickled or sent to other processes; use n_jobs"):
        pickle.dumps(blocks)
    assert copy.deepcopy(blocks).binned.stored is blocks.binned.stored
