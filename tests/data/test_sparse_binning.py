"""Sparse features have the bins, the codes and the predictions of the dense matrix."""

from __future__ import annotations

import pickle
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuboost
from gpuboost import RandomForestRegressor
from gpuboost.backends.host import binned
from gpuboost.backends.numba.backend import NumbaBackend
from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.data import sparse_binning, sparse_features
from gpuboost.data.frames import fit_schema
from gpuboost.data.sparse_binning import _block_count, _column_blocks
from gpuboost.data.sparse_features import SparseFeatures
from gpuboost.data.validation import check_features
from gpuboost.engine.bins import BinnedMatrix, BinRule, SparseCodes

BACKENDS = (NumpyBackend(), NumbaBackend())


@st.composite
def sparse_matrices(draw: Any) -> scipy.sparse.sparray:
    """Matrices with few or many values in a column, missing values, and stored zeros."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = draw(st.integers(1, 60)), draw(st.integers(1, 6))
    density = draw(st.sampled_from([0.0, 0.05, 0.4, 1.0]))
    dtype = draw(st.sampled_from([np.float32, np.float64, np.int8, bool]))
    values = np.where(rng.random(shape) < density, rng.normal(size=shape) * 40.0, 0.0)
    if draw(st.booleans()):
        values = np.round(values / 20.0)
    if np.dtype(dtype).kind == "f":
        values[rng.random(shape) < draw(st.sampled_from([0.0, 0.2]))] = np.nan
    matrix = scipy.sparse.coo_array(values.astype(dtype))
    if matrix.nnz and draw(st.booleans()):
        matrix.data[0] = 0
    return matrix.asformat(draw(st.sampled_from(["csr", "csc", "coo", "lil"])))


def assert_same_binned(sparse: BinnedMatrix, dense: BinnedMatrix) -> None:
    """Bins, codes and numbers of missing values are equal."""
    for name in ("n_bins", "lowest", "highest", "all_edges", "is_categorical"):
        found, expected = getattr(sparse.mapper, name), getattr(dense.mapper, name)
        np.testing.assert_array_equal(found, expected, name)
    assert isinstance(sparse.stored, SparseCodes)
    np.testing.assert_array_equal(sparse.codes, dense.codes)
    np.testing.assert_array_equal(sparse.n_missing, dense.n_missing)


@settings(deadline=None)
@given(sparse_matrices(), st.integers(2, 20), st.booleans(), st.data())
def test_bins_and_codes_are_those_of_the_dense_matrix(
    matrix: Any, max_bins: int, weighted: bool, data: Any
) -> None:
    features = fit_schema(matrix)[0]
    assert isinstance(features, SparseFeatures)
    weights = None
    if weighted:
        sizes = {"min_size": len(features), "max_size": len(features)}
        some = st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.7]), **sizes)
        weights = np.array(data.draw(some.filter(any)))
    rule = BinRule(np.zeros(features.shape[1], dtype=bool), max_bins, weights)
    for backend in BACKENDS:
        own = backend.fit_bins(features, rule, 1)
        expected = backend.fit_bins(features.dense(), rule, 1)
        assert_same_binned(own, expected)
        other = features.dense() * 1.25  # values that the bins have not seen
        again = SparseFeatures.of(scipy.sparse.csr_array(other), other.dtype)
        assert_same_binned(backend.bin(again, own.mapper, 1), backend.bin(other, own.mapper, 1))


def test_columns_of_many_values_are_binned_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuboost.data.sparse_binning._DENSE_COLUMNS_BYTES", 2 * 8 * 3000)
    rng = np.random.default_rng(0)
    values = np.where(rng.random((3000, 7)) < 0.5, rng.normal(size=(3000, 7)), 0.0)
    values[:, 3] = values[:, 3] > 1.0
    features = fit_schema(scipy.sparse.csc_array(values))[0]
    rule = BinRule(np.zeros(7, dtype=bool), 50)
    found = NumpyBackend().fit_bins(features, rule, 2)
    assert_same_binned(found, NumpyBackend().fit_bins(values, rule, 2))


def test_entries_of_one_place_are_added_and_the_given_matrix_stays() -> None:
    twice = scipy.sparse.csr_array((np.array([1.0, 2.0, 4.0]), [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    features = fit_schema(twice)[0]
    assert features.dense().tolist() == [[0.0, 3.0], [4.0, 0.0]]
    assert twice.nnz == 3


def test_a_part_of_the_rows_is_dense_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = scipy.sparse.random(500, 40, density=0.1, random_state=rng, format="csr")
    model = RandomForestRegressor(5, random_state=0).fit(X, rng.normal(size=500))
    expected = model.predict(X.toarray())
    monkeypatch.setattr(sparse_features, "_DENSE_BLOCK_BYTES", 40 * 8 * 64)
    sizes = [len(block) for block in fit_schema(X)[0].row_blocks()]
    assert sizes == [64] * 7 + [52]
    np.testing.assert_array_equal(model.predict(X), expected)
    np.testing.assert_array_equal(model.apply(X), model.apply(X.toarray()))


def test_an_infinite_entry_is_named() -> None:
    X = scipy.sparse.csc_array(np.array([[0.0, 1.0], [0.0, np.inf]]))
    with pytest.raises(ValueError, match="contains infinity: feature 1 is inf in row 1"):
        check_features(fit_schema(X)[0])


@pytest.mark.parametrize("dtype", [bool, np.int8, np.float32])
@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_entries_of_one_place_are_added_in_their_type(kind: str, dtype: type) -> None:
    """Two bools are a bool, and integers of 8 bits overflow, as in the dense matrix."""
    given = np.full(4, 100).astype(dtype), ([0, 0, 1, 3], [2, 2, 0, 1])
    X = scipy.sparse.coo_array(given, shape=(4, 3))
    if kind == "csr":
        X = scipy.sparse.csr_array((given[0], [2, 2, 0, 1], [0, 2, 3, 3, 4]), shape=(4, 3))
    elif kind == "csc":
        X = scipy.sparse.csc_array((given[0], [1, 3, 0, 0], [0, 1, 2, 4]), shape=(4, 3))
    assert X.nnz == 4
    np.testing.assert_array_equal(fit_schema(X)[0].dense(), X.toarray().astype(float))


def test_no_block_of_columns_has_more_values_than_32_bits_number() -> None:
    assert _block_count(1000, 50, 10_000, 2) == 2
    entries, rows = 40 * 2**30, 2**30
    blocks = _block_count(rows, 10_000, entries, 2)
    assert entries / blocks + rows + 10_000 <= 2**32 < entries / (blocks - 1) + rows + 10_000


def test_blocks_of_columns_keep_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_binning, "_MAX_BLOCK_VALUES", 200)
    rng = np.random.default_rng(0)
    density = rng.choice([0.0, 0.1, 1.0], size=30)
    X = scipy.sparse.csc_array((rng.random((60, 30)) < density).astype(float))
    blocks = list(_column_blocks(X, _block_count(60, 30, X.nnz, 1)))
    assert max(own.nnz + own.shape[1] for _, own in blocks) <= 200 < X.nnz
    assert [first for first, _ in blocks] == [0, *np.cumsum([b.shape[1] for _, b in blocks])[:-1]]


def sparse_dataset() -> tuple[gpuboost.Dataset, Any, np.ndarray]:
    """A sparse Dataset, its matrix and a target."""
    rng = np.random.default_rng(0)
    X = scipy.sparse.csr_array(np.where(rng.random((300, 200)) < 0.02, rng.normal(), 0.0))
    X.data[::7] = np.nan
    return gpuboost.Dataset(X), X, np.asarray(np.nan_to_num(X.toarray()).sum(axis=1))


@pytest.mark.parametrize("device", ["numpy", "numba"])
def test_a_fit_and_a_prediction_leave_no_caches_in_a_dataset_or_a_pickle(device: str) -> None:
    data, X, y = sparse_dataset()
    before = len(pickle.dumps(data))
    model = RandomForestRegressor(30, oob_score=True, device=device, random_state=0).fit(data, y)
    size = len(pickle.dumps(model))
    np.testing.assert_array_equal(model.predict(data), model.predict(X))
    assert len(pickle.dumps(data)) == before and "codes" not in vars(data.binned)
    assert len(pickle.dumps(model)) == size
    stored = model._model.mapper
    kept = sum(own.nbytes for own in vars(pickle.loads(pickle.dumps(stored))).values())
    assert kept == sum(getattr(stored, f.name).nbytes for f in fields(stored))


@pytest.mark.parametrize(
    "rows",
    [slice(20, 250, 3), np.arange(300)[::-1] // 2, np.arange(300) % 5 < 3, np.array([4])],
    ids=["slice", "indices", "mask", "one"],
)
def test_rows_of_a_sparse_dataset_stay_sparse(rows: Any) -> None:
    data, X, y = sparse_dataset()
    part, dense = data[rows], gpuboost.Dataset(X.toarray())[rows]
    assert isinstance(part.binned.stored, SparseCodes) and part.binned.grows_sparse
    np.testing.assert_array_equal(part.binned.codes, dense.binned.codes)
    np.testing.assert_array_equal(part.binned.n_missing, dense.binned.n_missing)
    for device in ("numpy", "numba"):
        fits = [
            RandomForestRegressor(3, device=device, random_state=0).fit(own, y[rows])
            for own in (part, dense)
        ]
        assert fits[0].fingerprint() == fits[1].fingerprint()


@pytest.mark.parametrize("n_codes", [1, 5000, 10**6])
def test_a_part_of_a_sparse_dataset_is_dense_at_a_time(
    n_codes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binned, "_HOST_BLOCK_CODES", n_codes)
    data, X, y = sparse_dataset()
    found = list(binned.code_blocks(data.binned))
    assert [len(block) for _, block in found[:-1]] == [max(8, n_codes // 200 // 8 * 8)] * (
        len(found) - 1
    )
    expected = [block for _, block in binned.code_blocks(gpuboost.Dataset(X.toarray()).binned)]
    parts = [block for _, block in found]
    np.testing.assert_array_equal(np.concatenate(parts), np.concatenate(expected))
    models = [
        RandomForestRegressor(30, oob_score=True, device="numpy", random_state=0).fit(own, y)
        for own in (data, X.toarray())
    ]
    np.testing.assert_array_equal(*(model.oob_prediction_ for model in models))
    np.testing.assert_array_equal(models[0].predict(data), models[1].predict(X.toarray()))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_staged_predictions_make_only_used_features_dense(
    n_classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, X, y = sparse_dataset()
    classes = np.argsort(np.argsort(y)) * n_classes // len(y)
    model = gpuboost.GradientBoostingClassifier(  # such large leaves that some trees do not split
        n_estimators=9, max_depth=2, subsample=0.3, min_samples_leaf=6, random_state=0
    ).fit(X, classes)
    counts = [tree.node_count for tree in model._model.ensemble.trees]
    assert min(counts) == 1 < max(counts)
    expected = list(model.staged_predict_proba(X.toarray()))
    sizes: list[int] = []
    row_blocks = SparseFeatures.row_blocks
    monkeypatch.setattr(
        SparseFeatures,
        "row_blocks",
        lambda self: sizes.append(self.shape[1]) or row_blocks(self),
    )
    monkeypatch.setattr(SparseCodes, "row_blocks", None)
    for own in (X, X.tocsc(), data):
        np.testing.assert_array_equal(list(model.staged_predict_proba(own)), expected)
    assert len(sizes) == 18 and max(sizes) <= 1 + 3 * n_classes


def test_a_sparse_matrix_with_a_categorical_feature_becomes_dense_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[Any] = []
    columns = SparseFeatures.columns
    monkeypatch.setattr(
        SparseFeatures, "columns", lambda self, own: read.append(own) or columns(self, own)
    )
    rng = np.random.default_rng(0)
    X = scipy.sparse.random(50, 400, density=0.1, random_state=rng, format="csr")
    dense = fit_schema(X.toarray(), [3])
    features, schema = fit_schema(X, [3])
    np.testing.assert_array_equal(features, dense[0])
    assert schema.codes == dense[1].codes and {tuple(own) for own in read} == {(3,)}
