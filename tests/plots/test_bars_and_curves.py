"""Pictures of importances and of learning curves, and what holds for all pictures."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.inspection import permutation_importance

import gpuboost
import gpuboost.plots
from gpuboost.explain import learning_curve
from gpuboost.plots import plot_decision_surface, plot_importance, plot_learning_curve, plot_tree
from tests.plots.picture_cases import (
    CLASSES,
    ESTIMATORS,
    FAST,
    FRAME,
    NUMBERS,
    Y,
    axes_of_inches,
    extent,
    imported_model,
    model_of,
    overlapping,
)


def bars_of(ax: Any) -> dict[str, float]:
    """The lengths of the bars by the names beside them, from the top."""
    assert ax.yaxis_inverted()
    names = [label.get_text() for label in ax.get_yticklabels()]
    widths = [bar.get_width() for bar in ax.patches]
    middles = [bar.get_y() + bar.get_height() / 2 for bar in ax.patches]
    np.testing.assert_allclose(middles, ax.get_yticks())
    return dict(zip(names, widths, strict=True))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_gains_and_counts_of_each_estimator(name: str) -> None:
    model = model_of(name)
    gains = bars_of(plot_importance(model))
    own = getattr(model, "_boosting", model)
    expected = dict(zip(FRAME.columns, own.feature_importances_, strict=True))
    assert gains == pytest.approx(expected) and list(gains.values()) == sorted(gains.values())[::-1]
    counts = bars_of(plot_importance(model, kind="count"))
    splits = own._model.ensemble.feature
    n = (splits >= 0).sum()
    shares = {name: (splits == k).sum() / n for k, name in enumerate(FRAME.columns)}
    assert counts == pytest.approx(shares)


def test_gains_do_not_depend_on_importance_type() -> None:
    model = gpuboost.GradientBoostingRegressor(n_estimators=3, importance_type="count", **FAST)
    gains = bars_of(plot_importance(model.fit(FRAME, Y)))
    assert gains == pytest.approx(bars_of(plot_importance(model_of("GradientBoostingRegressor"))))


def test_importances_of_imported_models_are_of_the_columns_of_x() -> None:
    model = imported_model("RandomForestClassifier")
    gains = bars_of(plot_importance(model))
    assert gains == pytest.approx(
        dict(zip(["feature_0", "feature_1"], model.feature_importances_, strict=True))
    )
    assert set(bars_of(plot_importance(model, kind="count"))) == {"feature_0", "feature_1"}


def test_the_largest_of_many_values_are_shown() -> None:
    values = np.random.default_rng(0).normal(size=50)
    names = [f"in dollars $, a rather long name of feature ${k}" for k in range(50)]
    ax = axes_of_inches(3.0, 3.0, layout="constrained")
    plot_importance(values, max_features=8, feature_names=names, ax=ax)
    assert list(bars_of(ax).values()) == sorted(values)[::-1][:8]
    assert "(8 of 50 features)" in ax.get_xlabel()
    labels = ax.get_yticklabels()
    assert all("…" in label.get_text() and r"\$" in label.get_text() for label in labels)
    ax.figure.draw_without_rendering()
    assert not overlapping(ax, labels) and min(extent(ax, label).x0 for label in labels) > 0
    assert extent(ax, ax).width > 0.3 * ax.figure.bbox.width
    assert len(bars_of(plot_importance(values, max_features=None))) == 50


def test_permutation_importances_have_error_bars() -> None:
    model = gpuboost.RandomForestClassifier(5, **FAST).fit(NUMBERS, CLASSES)
    found = permutation_importance(model, NUMBERS, CLASSES, n_repeats=3, random_state=0)
    ax = plot_importance(found, feature_names=["size", "age"])
    expected = dict(zip(["size", "age"], found.importances_mean, strict=True))
    assert bars_of(ax) == pytest.approx(expected)
    (segments,) = (each.get_segments() for each in ax.collections)
    half = [0.5 * (ends[1, 0] - ends[0, 0]) for ends in segments]
    order = np.argsort(-found.importances_mean)
    np.testing.assert_allclose(half, found.importances_std[order], rtol=1e-9)
    ours = model.oob_permutation_importance(NUMBERS, CLASSES)
    drawn = plot_importance(ours)
    assert sorted(bars_of(drawn).values()) == pytest.approx(sorted(ours.importances_mean))
    for own in (ax, drawn):  # one is the decrease of a score, the other the increase of a loss
        assert own.get_xlabel() == "permutation importance, with standard deviation"


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (np.ones((2, 2)), ValueError, r"got an array of shape \(2, 2\)"),
        ([1.0, np.nan], ValueError, "one finite number"),
        ({"r2": 1, "mse": 2}, TypeError, r"several scorers \(r2, mse\)"),
        (gpuboost.RandomForestRegressor(), ValueError, "not fitted"),
    ],
)
def test_wrong_importances(given: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        plot_importance(given)
    with pytest.raises(ValueError, match="kind must be one of"):
        plot_importance([1.0], kind="cover")
    with pytest.raises(TypeError, match="feature_names must be a list of names, got 'ab'"):
        plot_importance([1.0, 2.0], feature_names="ab")


# ---- learning curves -----------------------------------------------------------------------------


def test_the_lines_of_a_learning_curve() -> None:
    n = np.array([1, 5, 10])
    curve = SimpleNamespace(n_estimators=n, train=1 / n, validation=None, out_of_bag=2 / n)
    ax = plot_learning_curve(curve, metric="log loss")
    drawn = {line.get_label(): line for line in ax.lines}
    assert list(drawn) == ["training rows", "out-of-bag rows"]
    np.testing.assert_array_equal(drawn["out-of-bag rows"].get_xydata(), np.stack([n, 2 / n], 1))
    assert ax.get_ylabel() == "log loss" and ax.get_xlabel() == "n_estimators"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(drawn)
    curve.metric = None
    assert plot_learning_curve(curve).get_ylabel() == "score"
    curve.metric = "R2"
    assert plot_learning_curve(curve).get_ylabel() == "R2"


def test_the_curve_of_a_forest_is_drawn() -> None:
    model = gpuboost.RandomForestClassifier(4, **FAST).fit(NUMBERS, CLASSES)
    curve = learning_curve(model, NUMBERS, CLASSES, X_val=NUMBERS, y_val=CLASSES)
    ax = plot_learning_curve(curve)
    drawn = [line.get_ydata() for line in ax.lines]
    np.testing.assert_array_equal(drawn, [curve.train, curve.validation, curve.out_of_bag])


def test_wrong_curves() -> None:
    with pytest.raises(TypeError, match=r"the result of gpuboost\.explain\.learning_curve"):
        plot_learning_curve([1.0, 2.0])
    curve = SimpleNamespace(n_estimators=np.arange(3), train=np.ones(2), validation=None)
    with pytest.raises(ValueError, match="a score for each number of trees"):
        plot_learning_curve(curve)
    with pytest.raises(ValueError, match="got none"):
        plot_learning_curve(SimpleNamespace(n_estimators=np.arange(3)))


# ---- all pictures --------------------------------------------------------------------------------


def pictures() -> list[Any]:
    """One call of each function."""
    model, n = model_of("HistGradientBoostingClassifier"), np.arange(1, 4)
    curve = SimpleNamespace(n_estimators=n, train=1 / n)
    return [
        lambda ax: plot_tree(model, ax=ax),
        lambda ax: plot_importance(model, ax=ax),
        lambda ax: plot_learning_curve(curve, ax=ax),
        lambda ax: plot_decision_surface(model, FRAME, CLASSES, resolution=5, ax=ax),
    ]


def test_pictures_leave_no_global_state() -> None:
    from matplotlib import pyplot as plt

    mpl.use("agg")
    before, open_figures = mpl.rcParams.copy(), plt.get_fignums()
    figures = {picture(None).figure for picture in pictures()}
    assert len(figures) == 4 and plt.get_fignums() == open_figures
    assert mpl.rcParams == before
    for path in Path(gpuboost.plots.__file__).parent.glob("*.py"):
        assert "import pyplot" not in path.read_text() and "rcParams" not in path.read_text()


def test_pictures_are_drawn_on_the_given_axes(tmp_path: Path) -> None:
    ax = axes_of_inches(4.0, 3.0)
    for picture in pictures():
        assert picture(ax) is ax
        with pytest.raises(TypeError, match="ax must be the Axes to draw on, or None, got list"):
            picture([ax])
    ax.figure.savefig(tmp_path / "all.png")


def test_pictures_name_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = pictures()
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    for picture in calls:
        with pytest.raises(ImportError, match=r"run pip install gpuboost\[plots\]"):
            picture(None)
