"""Decision surfaces: the predictions of the model, in the right places and colors."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpuboost
from gpuboost.explain.trees.colors import class_colors
from gpuboost.plots import plot_decision_surface
from tests.plots.picture_cases import (
    CLASSES,
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

SMALL = {"resolution": 12}


def cells(ax: Any) -> tuple[Any, Any, np.ndarray]:
    """Middles of the cells on both axes, and the values of the mesh, with y first."""
    mesh = ax.collections[0]
    corners = mesh.get_coordinates()
    x, y = corners[0, :, 0], corners[:, 0, 1]
    values = np.ma.filled(mesh.get_array().astype(float), np.nan)
    return 0.5 * (x[1:] + x[:-1]), 0.5 * (y[1:] + y[:-1]), values.reshape(len(y) - 1, len(x) - 1)


def grid_of(ax: Any) -> tuple[np.ndarray, np.ndarray]:
    """The points of the mesh (n, 2), and their values."""
    x, y, values = cells(ax)
    return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2), values.ravel()


def test_two_classes_have_shades_and_a_line() -> None:
    y = np.where(Y > 0, "yes", "no")
    model = gpuboost.RandomForestClassifier(5, **FAST).fit(NUMBERS, y)
    ax = plot_decision_surface(model, NUMBERS, y, **SMALL)
    rows, values = grid_of(ax)
    np.testing.assert_array_equal(values, model.predict_proba(rows)[:, 1])
    colors = [ax.collections[0].cmap(share)[:3] for share in (0.0, 0.5, 1.0)]
    assert min(colors[1]) > 0.98 and colors[0][2] > colors[0][0] and colors[2][0] > colors[2][2]
    assert len(ax.collections) == 3  # regions, the line and the points
    points = ax.collections[2]
    np.testing.assert_array_equal(points.get_offsets(), NUMBERS)
    for color, label in zip(points.get_facecolors(), y, strict=True):
        np.testing.assert_allclose(color[:3], class_colors(2)[int(label == "yes")])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["no", "yes"]
    for patch, tint, color in zip(
        ax.get_legend().get_patches(), (colors[0], colors[2]), class_colors(2), strict=True
    ):
        np.testing.assert_allclose(to_rgb(patch.get_facecolor()), tint)
        np.testing.assert_allclose(to_rgb(patch.get_edgecolor()), color)


@pytest.mark.parametrize("labels", [[0.0, 1.0, 7.0], ["a", "b", "c"]], ids=["numbers", "texts"])
def test_several_classes_are_regions(labels: list[Any]) -> None:
    y = np.array(labels)[np.digitize(Y, [-2.0, 0.0])]
    model = gpuboost.GradientBoostingClassifier(n_estimators=3, **FAST).fit(NUMBERS, y)
    ax = plot_decision_surface(model, NUMBERS, class_names=["A", "B", "C"], **SMALL)
    rows, values = grid_of(ax)
    np.testing.assert_array_equal(np.array(labels)[values.astype(int)], model.predict(rows))
    assert len(ax.collections) == 1  # no points without y
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["A", "B", "C"]


def test_the_legend_of_twenty_classes_is_beside_the_regions() -> None:
    X = np.random.default_rng(0).normal(size=(200, 2))
    y = np.array([f"class of number {k} with a long name" for k in np.arange(200) % 20])
    model = gpuboost.DecisionTreeClassifier(max_depth=5, **FAST).fit(X, y)
    ax = plot_decision_surface(model, X, y, **SMALL)
    ax.figure.draw_without_rendering()
    legend = ax.get_legend()
    assert len(legend.get_texts()) == 20 and not overlapping(ax, legend.get_texts())
    assert extent(ax, legend).x0 > extent(ax, ax).x1
    assert extent(ax, legend).x1 <= ax.figure.bbox.x1 and extent(ax, legend).y0 >= 0
    assert len({to_rgb(color) for color in ax.collections[0].cmap.colors}) == 20


@pytest.mark.parametrize("n_classes", [3, 10, 11, 20, 30])
def test_the_legend_tells_regions_and_points_apart(n_classes: int) -> None:
    """The color of a region is that of its own patch, and far from the points of other classes."""
    X = np.random.default_rng(0).normal(size=(600, 2))
    y = np.arange(600) % n_classes
    model = gpuboost.DecisionTreeClassifier(max_depth=5, **FAST).fit(X, y)
    ax = plot_decision_surface(model, X, y, **SMALL)
    regions = np.array([to_rgb(color) for color in ax.collections[0].cmap.colors])
    patches = ax.get_legend().get_patches()
    faces = np.array([to_rgb(patch.get_facecolor()) for patch in patches])
    points = np.array([to_rgb(patch.get_edgecolor()) for patch in patches])
    np.testing.assert_allclose(ax.collections[1].get_facecolors()[:, :3], points[y])
    apart = np.linalg.norm(regions[:, None] - faces, axis=2)
    np.testing.assert_array_equal(apart.argmin(axis=1), np.arange(n_classes))
    assert apart[~np.eye(n_classes, dtype=bool)].min() > 0.05
    others = np.linalg.norm(regions[:, None] - points, axis=2)[~np.eye(n_classes, dtype=bool)]
    assert others.min() > 0.2


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("is_tight", [False, True])
def test_the_legend_is_in_figures_without_a_layout(columns: int, is_tight: bool) -> None:
    X = np.random.default_rng(0).normal(size=(200, 2))
    y = np.array([f"class {k}" for k in np.arange(200) % 6])
    model = gpuboost.DecisionTreeClassifier(max_depth=5, **FAST).fit(X, y)
    figure = Figure()
    axes = [figure.add_subplot(1, columns, 1 + k) for k in range(columns)]
    if columns == 1 and not is_tight:
        axes.append(figure.add_axes((0.1, 0.1, 0.5, 0.5)))
    before = [ax.get_position() for ax in axes]
    for ax in axes:
        plot_decision_surface(model, X, y, ax=ax, **SMALL)
    if is_tight:
        figure.tight_layout()
    figure.draw_without_rendering()
    for ax, place in zip(axes, before, strict=True):
        legend = extent(ax, ax.get_legend())
        assert extent(ax, ax).x1 < legend.x0 and extent(ax, ax).width > 100
        if is_tight:
            assert legend.x1 <= figure.bbox.x1
        else:
            assert legend.x1 <= place.x1 * figure.bbox.width + 1


def test_a_regression_has_steps_and_a_bar() -> None:
    model = gpuboost.RandomForestRegressor(5, **FAST).fit(NUMBERS, Y)
    ax = plot_decision_surface(model, NUMBERS, Y, max_points=100, **SMALL)
    rows, values = grid_of(ax)
    np.testing.assert_array_equal(values, model.predict(rows))
    steps = ax.collections[0].norm.boundaries
    assert steps[0] <= values.min() and steps[-1] >= values.max() and 5 <= len(steps) <= 13
    points = ax.collections[1]
    assert points.norm is ax.collections[0].norm and len(points.get_offsets()) == 100
    np.testing.assert_array_equal(points.get_offsets()[0], NUMBERS[0])
    assert [each.get_ylabel() for each in ax.figure.axes] == ["feature_1", "prediction"]


FRAMES = {"pandas": FRAME, "polars": pl.from_pandas(FRAME), "arrow": pa.table(FRAME)}


@pytest.mark.parametrize("X", FRAMES.values(), ids=FRAMES)
def test_categories_and_missing_values_of_frames(X: Any) -> None:
    """Categories are cells of width 1; missing values are the first cells, before a gap."""
    model = model_of("HistGradientBoostingRegressor")
    ax = plot_decision_surface(model, X, Y, features=("color", "size"), **SMALL)
    assert [text.get_text() for text in ax.get_xticklabels()] == [
        *("missing", "blue", "green", "grey", "red"),
    ]
    _, y, values = cells(ax)
    assert values.shape == (14, 6) and np.isnan(values[1]).all() and np.isnan(values[:, 1]).all()
    names = [None, None, "blue", "green", "grey", "red"]
    sizes = [np.nan, np.nan, *y[2:]]
    rows = pd.DataFrame(
        {
            "color": np.tile(np.array(names, object), 14),
            "size": np.repeat(sizes, 6),
            "age": np.median(FRAME["age"]),
        }
    )
    expected = model.predict(rows).reshape(14, 6)
    shown = ~np.isnan(values)
    np.testing.assert_array_equal(values[shown], expected[shown])
    at = np.asarray(ax.collections[-1].get_offsets())
    places = {
        text.get_text(): k for text, k in zip(ax.get_xticklabels(), ax.get_xticks(), strict=True)
    }
    for name, own in zip(FRAME["color"].fillna("missing"), at, strict=True):
        assert abs(own[0] - places[name]) <= 0.3
    assert (at[FRAME["size"].isna(), 1] < y[2]).all() and (at[FRAME["size"].notna(), 1] > -9).all()


@pytest.mark.parametrize("size", [(8.0, 5.0), (3.2, 3.0)], ids=["wide", "narrow"])
def test_labels_do_not_overlap(size: tuple[float, float]) -> None:
    model = model_of("HistGradientBoostingClassifier")
    for features in (("color", "size"), ("size", "age"), ("age", "color")):
        ax = axes_of_inches(*size, layout="constrained")
        names = ["the color of the thing, in words of the language", "its size", "its age"]
        options = {"features": [list(FRAME.columns).index(name) for name in features], **SMALL}
        plot_decision_surface(model, FRAME, CLASSES, feature_names=names, ax=ax, **options)
        ax.figure.draw_without_rendering()
        for axis in (ax.xaxis, ax.yaxis):
            labels = [text for text in axis.get_ticklabels() if text.get_text()]
            turned = labels[0].get_rotation() != 0.0
            assert turned or not overlapping(ax, labels), [text.get_text() for text in labels]


def test_other_features_are_fixed() -> None:
    model = model_of("HistGradientBoostingRegressor")
    values = {}
    for color in ("red", "blue", None):
        fixed = {"color": color}
        ax = plot_decision_surface(model, FRAME, features=("size", 2), fixed=fixed, **SMALL)
        x, y, values[color] = cells(ax)
        rows = pd.DataFrame({"color": pd.Series([color] * 12, dtype=object), "size": x[2:]})
        expected = model.predict(rows.assign(age=y[0]))
        np.testing.assert_array_equal(values[color][0, 2:], expected)
    assert (values["red"][:, 2:] >= values["blue"][:, 2:]).all()


def test_categories_given_by_number() -> None:
    X = np.column_stack([np.arange(240) % 5, NUMBERS[:, 0]])
    y = (X[:, 0] == 3) * 1.0
    model = gpuboost.DecisionTreeRegressor(categorical_features=[0], **FAST).fit(X, y)
    ax = plot_decision_surface(model, X, y, **SMALL)
    np.testing.assert_array_equal(cells(ax)[2], np.tile([0.0, 0.0, 0.0, 1.0, 0.0], (12, 1)))
    assert [text.get_text() for text in ax.get_xticklabels()] == list("01234")


def test_other_estimators_and_imported_models_are_drawn() -> None:
    y = Y > 0
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(NUMBERS, y)
    for model in (pipeline, imported_model("GradientBoostingClassifier")):
        ax = plot_decision_surface(model, NUMBERS, legend=False, **SMALL)
        rows, values = grid_of(ax)
        if len(model.classes_) == 2:
            np.testing.assert_array_equal(values, model.predict_proba(rows)[:, 1])
        else:
            np.testing.assert_array_equal(model.classes_[values.astype(int)], model.predict(rows))
        assert ax.get_legend() is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": (0, 0)}, "two different features"),
        ({"features": ("color", "weight")}, "features has 'weight', but features are"),
        ({"features": (0, 3)}, "from 0 to 2"),
        ({"fixed": {"age": "old"}}, r"fixed\[2\] must be a number"),
        ({"features": (1, 2), "fixed": {"color": "pink"}}, "must be a category in X"),
        ({"y": CLASSES[:5]}, "X has 240 rows, but y has 5"),
        ({"y": ["none"] * 240}, "y has 'none', which is none of the classes"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plot_decision_surface(model_of("RandomForestClassifier"), FRAME, **SMALL, **arguments)


def test_names_of_classes_are_checked() -> None:
    with pytest.raises(ValueError, match="class_names are for classifiers"):
        plot_decision_surface(model_of("RandomForestRegressor"), FRAME, class_names=["a"], **SMALL)
    with pytest.raises(TypeError, match="class_names must be a list of names, got 'abc'"):
        plot_decision_surface(model_of("RandomForestClassifier"), FRAME, class_names="abc", **SMALL)


def test_rows_on_a_gpu_are_copied_to_the_host() -> None:
    class OnGpu:
        __cuda_array_interface__: ClassVar[dict[str, Any]] = {}

        def __init__(self, values: np.ndarray) -> None:
            self.values = values

        def get(self) -> np.ndarray:
            return self.values

    model = gpuboost.RandomForestRegressor(3, **FAST).fit(NUMBERS, Y)
    drawn = [
        plot_decision_surface(model, own(NUMBERS), own(Y), **SMALL) for own in (np.asarray, OnGpu)
    ]
    np.testing.assert_array_equal(*(cells(ax)[2] for ax in drawn))
    np.testing.assert_array_equal(*(ax.collections[1].get_array() for ax in drawn))
    with pytest.raises(TypeError, match="a Dataset has codes in place of values"):
        plot_decision_surface(model, gpuboost.Dataset(NUMBERS), **SMALL)


def test_several_outputs_are_refused() -> None:
    for name, y in (
        ("Regressor", np.column_stack([Y, Y])),
        ("Classifier", np.stack([CLASSES] * 2, 1)),
    ):
        model = getattr(gpuboost, f"DecisionTree{name}")(**FAST).fit(NUMBERS, y)
        with pytest.raises(ValueError, match="one output, but the model has 2"):
            plot_decision_surface(model, NUMBERS, **SMALL)
