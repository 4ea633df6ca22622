"""Learning curves by number of trees beside fits of as many trees, for all ensembles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, get_scorer

import gpuboost
from gpuboost.explain import learning_curve
from tests.estimators.estimator_cases import NAMES, data_for, make

ENSEMBLES = [name for name in NAMES if not name.endswith(("TreeClassifier", "TreeRegressor"))]
HAS_OUT_OF_BAG = ("RandomForest", "Bagging")


def with_rounds(name: str, n: int, **params: Any) -> Any:
    """An estimator of n trees or rounds."""
    return make(name, **{"max_iter" if name.startswith("Hist") else "n_estimators": n}, **params)


@pytest.mark.parametrize("name", ENSEMBLES)
def test_each_point_is_the_score_of_a_fit(name: str) -> None:
    X, y = data_for(name)
    X, y, X_val, y_val = X[::2], y[::2], X[1::2], y[1::2]
    curve = learning_curve(with_rounds(name, 4).fit(X, y), X, y, X_val=X_val, y_val=y_val)
    assert curve.n_estimators.tolist() == [1, 2, 3, 4]
    assert curve.metric == ("accuracy" if name.endswith("Classifier") else "R2")
    few = learning_curve(with_rounds(name, 4).fit(X, y), X, y, n_estimators=[3, 2, 3])
    assert few.n_estimators.tolist() == [2, 3]
    np.testing.assert_array_equal(few.train, curve.train[1:3])
    for n, train, validation in zip(*list(vars(curve).values())[:3], strict=True):
        model = with_rounds(name, n).fit(X, y)
        assert [train, validation] == [model.score(X, y), model.score(X_val, y_val)]
    assert (curve.out_of_bag is not None) == name.startswith(HAS_OUT_OF_BAG)


@pytest.mark.parametrize("name", [name for name in ENSEMBLES if name.endswith("Classifier")])
def test_any_scorer(name: str) -> None:
    X, y = data_for(name)
    model = with_rounds(name, 3).fit(X, y)
    weights = np.random.default_rng(0).random(len(y))
    for scoring in ("neg_log_loss", "roc_auc_ovr"):
        given = {"scoring": scoring, "sample_weight": weights}
        curve = learning_curve(model, X, y, n_estimators=[3, 1], **given)
        assert curve.n_estimators.tolist() == [1, 3] and curve.validation is None
        assert curve.metric == scoring
        expected = get_scorer(scoring)(model, X, y, sample_weight=weights)
        assert curve.train[1] == pytest.approx(expected, abs=1e-12)

    def own(estimator: Any, X: Any, y: np.ndarray) -> float:
        assert len(X) == len(y)
        return -float((estimator.predict(X) != y).sum())

    curve = learning_curve(model, X, y, scoring=own)
    assert curve.train[-1] == -(model.predict(X) != y).sum() and curve.metric == "own"


@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_out_of_bag_scores(voting: str) -> None:
    X, y = data_for("RandomForestClassifier")
    X, y = X[::3], y[::3]
    params = {"oob_score": True, "voting": voting, "warm_start": True}
    with pytest.warns(UserWarning, match="do not have OOB scores"):
        model = with_rounds("RandomForestClassifier", 3, **params).fit(X, y)
    curve = learning_curve(model, X, y)
    assert curve.out_of_bag[-1] == model.oob_score_
    model.set_params(n_estimators=20).fit(X, y)
    curve = learning_curve(model, X, y)
    assert curve.out_of_bag[-1] == model.oob_score_
    # Beside votes of the trees that did not draw each row.
    votes, classes = np.zeros((len(y), 3)), model.classes_
    for number, (tree, rows) in enumerate(
        zip(model.estimators_, model.estimators_samples_, strict=True)
    ):
        out = np.setdiff1d(np.arange(len(y)), rows)
        own = tree.predict_proba(X[out])
        votes[out] += np.eye(3)[own.argmax(axis=1)] if voting == "hard" else own
        seen = votes.any(axis=1)
        found = accuracy_score(y[seen], classes[votes[seen].argmax(axis=1)])
        assert curve.out_of_bag[number] == found


def test_kinds_of_draws_and_data() -> None:
    X, y = data_for("BaggingRegressor")
    pasting = {"bootstrap": False, "max_samples": 0.5}
    model = with_rounds("BaggingRegressor", 12, **pasting).fit(gpuboost.Dataset(X), y)
    curve = learning_curve(model, gpuboost.Dataset(X), y)
    assert 0.2 < curve.out_of_bag[-1] < curve.train[-1] < 1.0
    several = np.stack([y, -y], axis=1)
    forest = with_rounds("RandomForestRegressor", 3).fit(X, several)
    assert learning_curve(forest, X, several).train[-1] == forest.score(X, several)
    with_one_row = with_rounds("BaggingRegressor", 1, bootstrap=False, max_samples=len(y) - 1)
    few = learning_curve(with_one_row.fit(X, y), X, y)
    assert np.isnan(few.out_of_bag).all()  # R2 of one row is not defined


def test_tables_whose_rows_cannot_be_selected() -> None:
    X, y = data_for("RandomForestRegressor")
    expected = learning_curve(make("RandomForestRegressor").fit(X, y), X, y)
    pl = pytest.importorskip("polars")
    names = [f"x{feature}" for feature in range(X.shape[1])]
    for given in (coo_matrix(X), pl.DataFrame(X, schema=names).lazy()):
        found = learning_curve(make("RandomForestRegressor").fit(given, y), given, y)
        np.testing.assert_array_equal(found.out_of_bag, expected.out_of_bag)
        np.testing.assert_array_equal(found.train, expected.train)


@pytest.mark.parametrize("scoring", ["neg_log_loss", "roc_auc_ovr"])
def test_out_of_bag_rows_without_a_class_have_no_score(scoring: str) -> None:
    X, y = data_for("RandomForestClassifier")
    X, y = X[:101], y[:101]  # two classes, and one row of the third
    assert np.bincount(y).tolist() == [50, 50, 1]
    forest = with_rounds("RandomForestClassifier", 12).fit(X, y)
    curve = learning_curve(forest, X, y, scoring=scoring)
    first = [100 not in rows for rows in forest.estimators_samples_].index(True)
    assert first > 0 and np.isnan(curve.out_of_bag[:first]).all()
    assert np.isfinite(curve.out_of_bag[first:]).all() and np.isfinite(curve.train).all()


def test_only_the_wanted_medians_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data_for("AdaBoostRegressor")
    model = with_rounds("AdaBoostRegressor", 6).fit(X, y)
    median, log = gpuboost.AdaBoostRegressor._median, []

    def counted(self: Any, leaves: np.ndarray, n_trees: int) -> np.ndarray:
        log.append(n_trees)
        return median(self, leaves, n_trees)

    monkeypatch.setattr(gpuboost.AdaBoostRegressor, "_median", counted)
    learning_curve(model, X, y, n_estimators=[5, 2])
    assert log == [2, 5]


def test_forms_of_arguments() -> None:
    X, y = data_for("RandomForestRegressor")
    model = make("RandomForestRegressor").fit(X, y)
    curve = learning_curve(model, X, y)
    last = learning_curve(model, X, y, n_estimators=4, sample_weight=2.0)
    assert last.n_estimators.tolist() == [4]
    assert last.train == pytest.approx(curve.train[3:4])
    assert last.out_of_bag == pytest.approx(curve.out_of_bag[3:4])


@pytest.mark.parametrize("name", ["RandomForestRegressor", "GradientBoostingRegressor"])
def test_arguments_that_do_not_fit_each_other(name: str) -> None:
    X, y = data_for(name)
    model = make(name).fit(X, y)
    for rows in ({"X_val": X}, {"y_val": y}, {"sample_weight_val": y}):
        with pytest.raises(ValueError, match="X_val and y_val belong together"):
            learning_curve(model, X, y, **rows)
    for own, rows in ((y[:50], {}), (y, {"X_val": X, "y_val": y[:50]})):
        with pytest.raises(ValueError, match="X has 442 rows and y has 50"):
            learning_curve(model, X, own, **rows)
    with pytest.raises(ValueError, match=r"sample_weight.shape == \(20,\), expected \(442,\)"):
        learning_curve(model, X, y, sample_weight=np.ones(20))
    with pytest.raises(ValueError, match="n_estimators is empty"):
        learning_curve(model, X, y, n_estimators=[])
    for given in (2.0, [1, 2.5], True):
        with pytest.raises(TypeError, match="n_estimators must be an integer from 1 to 5"):
            learning_curve(model, X, y, n_estimators=given)


def test_errors() -> None:
    X, y = data_for("RandomForestRegressor")
    model = make("RandomForestRegressor")
    with pytest.raises(NotFittedError):
        learning_curve(model, X, y)
    model.fit(X, y)
    with pytest.raises(ValueError, match="X has 9 rows, but trees were grown on 442"):
        learning_curve(model, X[:9], y[:9])
    with pytest.raises(ValueError, match="n_estimators must be an integer from 1 to 5"):
        learning_curve(model, X, y, n_estimators=[6])
    with pytest.raises(TypeError, match="takes an ensemble of gpuboost's trees"):
        learning_curve(make("DecisionTreeRegressor").fit(X, y), X, y)
    from sklearn.neighbors import KNeighborsRegressor

    bagging = gpuboost.BaggingRegressor(KNeighborsRegressor()).fit(X, y)
    with pytest.raises(TypeError, match="takes an ensemble of gpuboost's trees"):
        learning_curve(bagging, X, y)
