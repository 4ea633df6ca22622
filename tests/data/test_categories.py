"""Categories from table to prediction: a category has one code everywhere. Rows of a `Dataset`."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.tree
from sklearn.inspection import partial_dependence
from sklearn.model_selection import cross_val_score, train_test_split

from gpuboost import Dataset, DecisionTreeRegressor, RandomForestRegressor
from tests.estimators.estimator_cases import frame_of, make

pd = pytest.importorskip("pandas")

COLORS = ["amber", "blue", "cyan", "dun", "ebony", "fawn"]
PLACE = np.random.default_rng(0).integers(0, len(COLORS), size=400)
SIZE = np.random.default_rng(1).normal(size=400)
FRAME = pd.DataFrame({"color": pd.Categorical(np.array(COLORS)[PLACE]), "size": SIZE})
Y = np.array([3.0, -1.0, 7.0, 0.0, 2.0, 11.0])[PLACE] + SIZE


def tree(**params) -> DecisionTreeRegressor:
    return DecisionTreeRegressor(device="numpy", n_jobs=1, random_state=0, **params)


# ---- the fingerprint ---------------------------------------------------------------------------


def test_the_fingerprint_covers_the_values_of_categories():
    model = tree().fit(FRAME, Y)
    renamed = FRAME.assign(color=FRAME["color"].cat.rename_categories({"fawn": "gold"}))
    other = tree().fit(renamed, Y)
    mapper = model._model.mapper
    assert model._ensemble.fingerprint(mapper) == other._ensemble.fingerprint(other._model.mapper)
    assert model.fingerprint() != other.fingerprint()
    numbers = tree().fit(FRAME[["size"]], Y)
    assert numbers.fingerprint() == numbers._ensemble.fingerprint(numbers._model.mapper)


def test_the_fingerprint_covers_rare_categories_that_share_a_code():
    level = np.append(np.repeat(np.arange(254), 3), [1000, 2000])
    prints = set()
    for last in (1000, 3000):
        X = np.where(level == 1000, last, level)[:, None].astype(float)
        model = tree(categorical_features=[0], max_depth=3).fit(X, level % 7)
        assert list(model._model.schema.codes[0].values()).count(254) == 2
        prints.add(model.fingerprint())
    assert len(prints) == 2


@pytest.mark.parametrize("kind", [int, float, np.float32, bool])
def test_equal_numeric_categories_have_equal_fingerprints(kind):
    column = (np.arange(40) % 2).astype(kind)[:, None]
    first = tree(categorical_features=[0]).fit((np.arange(40) % 2)[:, None], np.arange(40.0))
    other = tree(categorical_features=[0]).fit(column, np.arange(40.0))
    assert other.fingerprint() == first.fingerprint()


def test_float32_categories_match_float64_values():
    X = np.array([0.1, 0.2, 0.7])[np.arange(60) % 3][:, None]
    y = np.arange(60) % 3 * 1.0
    model = tree(categorical_features=[0]).fit(X.astype(np.float32), y)
    np.testing.assert_array_equal(model.predict(X), y)
    np.testing.assert_array_equal(model.predict(X.astype(np.float32)), y)
    model = tree(categorical_features=[0]).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), y)
    np.testing.assert_array_equal(model.predict(X.astype(np.float32)), y)


def test_float32_values_between_two_categories_are_unknown():
    near = np.nextafter(0.1, 1.0)  # the nearest float32 of 0.1 and of this is the same
    X = np.array([0.1, near, 0.7])[np.arange(60) % 3][:, None]
    model = tree(categorical_features=[0]).fit(X, np.arange(60) % 3 * 1.0)
    missing = model.predict([[np.nan]])
    assert model.predict(np.array([[0.1]], dtype=np.float32)) == missing
    assert model.predict(np.array([[0.7]], dtype=np.float32)) == 2.0


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_large_integers_are_categories_of_their_own(kind):
    pd = pytest.importorskip("pandas")
    column = (2**53 + np.arange(40) % 4).astype(kind)
    y = np.arange(40) % 4 * 1.0
    tables = {
        "categories": pd.DataFrame({"id": pd.Categorical(column)}),
        "integers": pd.DataFrame({"id": column}),
        "nullable": pd.DataFrame({"id": column}).astype(pd.Int64Dtype()),
    }
    for fitted in tables.values():
        model = tree(categorical_features=["id"]).fit(fitted, y)
        for table in tables.values():
            np.testing.assert_array_equal(model.predict(table), y)
    model = tree(categorical_features=[0]).fit(column[:, None], y)
    np.testing.assert_array_equal(model.predict(column[:, None]), y)


# ---- tree_ takes raw values --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_methods_of_the_tree_view_take_raw_values(kind):
    frame, y = frame_of(kind)
    model = tree().fit(frame, y)
    leaves = model.apply(frame)
    for X in (frame, np.asarray(frame)):
        np.testing.assert_array_equal(model.tree_.apply(X), leaves)
        np.testing.assert_array_equal(model.tree_.predict(X)[:, 0, 0], model.predict(frame))
    path = model.tree_.decision_path(frame)
    assert (path != model.decision_path(frame)).nnz == 0


@pytest.mark.parametrize("method", ["predict", "apply", "decision_path"])
@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.zeros((5, 1)), ValueError, "X has 1 features, but tree_ is expecting 3"),
        (np.zeros((5, 9)), ValueError, "X has 9 features"),
        (np.zeros(3), ValueError, "Expected 2D array"),
        (np.zeros((0, 3)), ValueError, "0 sample"),
        (np.full((2, 3), np.inf), ValueError, "infinity"),
        (np.full((2, 3), "a"), ValueError, "does not convert to numbers"),
        ("abc", TypeError, "Expected array-like"),
    ],
)
def test_methods_of_the_tree_view_check_their_input(method, X, error, message):
    model = tree().fit(np.random.default_rng(0).normal(size=(50, 3)), np.arange(50.0))
    with pytest.raises(error, match=message):
        getattr(model.tree_, method)(X)
    whole = np.arange(6).reshape(2, 3)  # any numeric type
    np.testing.assert_array_equal(model.tree_.apply(whole), model.apply(whole))


@pytest.mark.parametrize("model", [tree(), RandomForestRegressor(9, device="numpy")])
def test_partial_dependence_on_categories(model):
    """If only one feature matters, the dependence is the prediction of each category."""
    model.fit(FRAME[["color", "size"]].assign(size=0.0), Y - SIZE)
    X = FRAME.assign(size=0.0)
    found = partial_dependence(
        model, X, ["color"], method="recursion", kind="average", categorical_features=["color"]
    )
    assert list(found["grid_values"][0]) == COLORS
    each = pd.DataFrame({"color": pd.Categorical(COLORS), "size": 0.0})
    np.testing.assert_allclose(found["average"][0], model.predict(each), rtol=1e-12)
    brute = partial_dependence(
        model, X, ["color"], method="brute", kind="average", categorical_features=["color"]
    )
    np.testing.assert_allclose(found["average"], brute["average"], rtol=1e-12)


def test_text_of_categorical_splits_is_an_error():
    model = tree(max_depth=1).fit(FRAME, Y)
    with pytest.raises(TypeError, match="node 0 splits on categories and has no threshold"):
        sklearn.tree.export_text(model)
    assert "categories_left" in type(model).__doc__ and model.tree_.categories_left(0).size


# ---- rows of a Dataset -------------------------------------------------------------------------


def test_rows_of_a_dataset_are_a_dataset():
    data = Dataset(FRAME, n_jobs=1)
    mask = np.arange(400) % 3 == 0
    for rows in (slice(5, 90, 2), mask, np.flatnonzero(mask), [3, 3, -1], np.int8([1, 2])):
        part = data[rows]
        np.testing.assert_array_equal(part.binned.codes, data.binned.codes[:, rows])
        assert part.mapper is data.mapper and part.shape[1] == 2
        assert part.binned.codes.flags.c_contiguous
        np.testing.assert_array_equal(
            part.binned.n_missing, (part.binned.codes == part.mapper.missing_code).sum(axis=1)
        )
    model = tree().fit(data, Y)
    np.testing.assert_array_equal(model.predict(data[mask]), model.predict(data)[mask])


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (3, TypeError, "are selected by a slice"),
        ("color", TypeError, "are selected by a slice"),
        ([0.5], TypeError, "are selected by a slice"),
        ((slice(None), 1), TypeError, "features cannot be selected"),
        (slice(0, 0), ValueError, r"0 sample\(s\)"),
        ([], ValueError, r"0 sample\(s\)"),
        ([400], IndexError, "400 is out of bounds"),
    ],
)
def test_invalid_selections_of_rows_are_refused(rows, error, message):
    with pytest.raises(error, match=message):
        Dataset(FRAME, n_jobs=1)[rows]


def test_model_selection_takes_a_dataset():
    data = Dataset(FRAME, n_jobs=1)
    assert cross_val_score(make("RandomForestRegressor"), data, Y, cv=3).min() > 0.8
    train, test, y_train, y_test = train_test_split(data, Y, random_state=0)
    assert tree().fit(train, y_train).score(test, y_test) > 0.8
