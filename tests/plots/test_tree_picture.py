"""Pictures of trees: their texts lead rows to the right leaves, and nothing overlaps."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from sklearn.ensemble import HistGradientBoostingRegressor

import gpuboost
from gpuboost.explain import export_graphviz
from gpuboost.plots import plot_tree
from gpuboost.plots.axes import number_text, shortened
from gpuboost.plots.tree_layout import horizontal_places
from tests.plots.picture_cases import (
    CLASSES,
    ESTIMATORS,
    FAST,
    FRAME,
    NUMBERS,
    Node,
    Y,
    axes_of_inches,
    extent,
    goes_left,
    imported_model,
    model_of,
    nodes_of,
    overlapping,
)

SIZES = {"wide": (16.0, 5.0), "narrow": (3.0, 8.0), "small": (4.0, 3.0)}


def assert_tidy(ax: Any) -> None:
    """No boxes overlap, each text is inside its box, and all is inside the axes."""
    nodes, whole = nodes_of(ax), extent(ax, ax)
    assert not overlapping(ax, [node.box for node in nodes])
    for node in nodes:
        box, text = extent(ax, node.box), extent(ax, node.text)
        assert box.x0 <= text.x0 and text.x1 <= box.x1, node.lines
        assert box.y0 <= text.y0 and text.y1 <= box.y1, node.lines
    for text in ax.texts:
        own = extent(ax, text)
        assert whole.x0 - 1 <= own.x0 and own.x1 <= whole.x1 + 1, text
        assert whole.y0 - 1 <= own.y0 and own.y1 <= whole.y1 + 1, text
    others = [each for each in ax.texts if each not in [node.text for node in nodes]]
    boxes = [node.box for node in nodes]
    crossed = [pair for pair in overlapping(ax, boxes + others) if pair[0] in others]
    assert not crossed, crossed


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_tree_of_each_estimator(name: str) -> None:
    number = 0 if name.startswith(("DecisionTree", "ExtraTreeC", "ExtraTreeR")) else 2
    ax = plot_tree(model_of(name), number)
    assert_tidy(ax)
    assert 1 < len(nodes_of(ax)) <= 15


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_a_tree_on_given_axes(size: tuple[float, float]) -> None:
    """Texts are as small as the axes require."""
    for options in ({}, {"layout": "constrained"}):
        ax = axes_of_inches(*size, **options)
        assert plot_tree(model_of("RandomForestClassifier"), 2, ax=ax) is ax
        assert_tidy(ax)


@pytest.mark.parametrize(
    "kind",
    ["RandomForestClassifier", "GradientBoostingClassifier", "HistGradientBoostingRegressor"],
)
def test_a_tree_of_imported_models(kind: str) -> None:
    ax = plot_tree(imported_model(kind), 1, feature_names=["size", "age"])
    assert_tidy(ax)
    assert nodes_of(ax)[0].lines[0].startswith(("size ≤ ", "age ≤ "))


def follow(node: Node, rows: pd.DataFrame) -> None:
    """Send rows down by the texts, and compare their numbers with those in the boxes."""
    assert node.n_rows == len(rows), node.lines
    if node.children:
        left = goes_left(node.lines, rows)
        for child, own in zip(node.children, (left, ~left), strict=True):
            follow(child, rows[own])


@pytest.mark.parametrize("name", ["DecisionTreeRegressor", "HistGradientBoostingClassifier"])
def test_conditions_lead_rows_to_their_leaves(name: str) -> None:
    """Categories, missing values and thresholds are those of the model."""
    model = model_of(name, max_depth=4)
    root = nodes_of(plot_tree(model, max_depth=None, decimals=12))[0]
    rows = FRAME.astype({"color": object})
    assert len(root.children) == 2
    follow(root, rows)


def test_conditions_of_an_imported_model_name_its_categories() -> None:
    rows = FRAME.astype({"color": "category"})
    theirs = HistGradientBoostingRegressor(max_iter=1, max_depth=3).fit(rows, Y)
    ax = plot_tree(gpuboost.from_sklearn(theirs), max_depth=None, decimals=12)
    assert any("{" in text.get_text() for text in ax.texts)
    follow(nodes_of(ax)[0], FRAME.astype({"color": object}))


def test_values_and_colors() -> None:
    nodes = nodes_of(plot_tree(model_of("DecisionTreeClassifier", max_depth=2)))
    tree = model_of("DecisionTreeClassifier", max_depth=2).tree_
    for node, value in zip(nodes, tree.value[:, 0], strict=True):
        best = value.argmax()
        assert f"{sorted(set(CLASSES))[best]}  {100 * value[best]:.0f}%" in node.lines
    palest = np.argmin(tree.value[:, 0].max(axis=1))
    whiteness = [min(to_rgb(node.box.get_facecolor())) for node in nodes]
    assert np.argmax(whiteness) == palest
    plain = nodes_of(plot_tree(model_of("DecisionTreeClassifier"), filled=False))
    assert {to_rgb(node.box.get_facecolor()) for node in plain} == {(1.0, 1.0, 1.0)}


def test_leaves_of_boosting_have_signs_and_the_class_that_they_add_to() -> None:
    model = model_of("GradientBoostingClassifier")
    ax = plot_tree(model, 4, class_names=["A", "B", "C"])
    assert "tree 4, for class B" in [text.get_text() for text in ax.texts]
    value = model._model.ensemble.trees[4].value[:, 0]
    leaves = [node for node in nodes_of(ax) if not node.children]
    shown = [float(node.lines[0]) for node in leaves]
    assert np.isin(np.round(shown, 3), np.round(value, 3)).all()
    assert all(node.lines[0][0] in "+-" for node in leaves)
    for node, number in zip(leaves, shown, strict=True):
        red, _, blue = to_rgb(node.box.get_facecolor())
        assert (blue > red) == (number > 0.0)


@pytest.mark.parametrize("name", ["DecisionTreeRegressor", "DecisionTreeClassifier"])
def test_colors_are_tints_of_those_of_graphs(name: str) -> None:
    model = model_of(name, max_depth=2)
    graph = export_graphviz(model, filled=True) or ""
    fills = [to_rgb(text) for text in re.findall(r'fillcolor="(#\w+)"', graph)]
    boxes = [to_rgb(node.box.get_facecolor()) for node in nodes_of(plot_tree(model))]
    assert len(fills) == len(boxes) > 3
    drawn = [int(text) for text in re.findall(r"^(\d+) \[", graph, flags=re.MULTILINE)]
    for node, fill in zip(drawn, fills, strict=True):
        shade = 1.0 - np.array(fill), 1.0 - np.array(boxes[node])
        if shade[0].max() > 0.2:  # from white
            np.testing.assert_allclose(*(own / own.max() for own in shade), atol=0.03)


def test_depth_is_limited() -> None:
    model = model_of("DecisionTreeRegressor", max_depth=4)
    sizes = [len(nodes_of(plot_tree(model, max_depth=depth))) for depth in (0, 1, 2)]
    assert sizes[0] == 1 and sizes[1] == 3 and sizes[2] <= 7
    root = nodes_of(plot_tree(model, max_depth=0))[0]
    assert root.lines[-1] == f"… {model.tree_.node_count - 1} nodes"
    assert len(nodes_of(plot_tree(model, max_depth=None))) == model.tree_.node_count


def test_long_names_are_shortened_and_not_read_as_formulas() -> None:
    names = ["$a$ of the long name of a feature", "the long name of another $feature$"]
    y = np.char.add("class with a very long name $x$ ", (NUMBERS[:, 0] > 0).astype(str))
    model = gpuboost.DecisionTreeClassifier(max_depth=3, **FAST).fit(NUMBERS, y)
    ax = axes_of_inches(4.0, 3.0)
    plot_tree(model, feature_names=names, ax=ax)
    assert_tidy(ax)
    assert r"\$a\$" in ax.texts[2].get_text() and "…" in ax.texts[2].get_text()


def test_twenty_classes_have_different_colors() -> None:
    X = np.arange(40.0)[:, None]
    model = gpuboost.DecisionTreeClassifier(**FAST).fit(X, np.arange(40) // 2)
    ax = plot_tree(model, max_depth=None)
    assert_tidy(ax)
    leaves = [node for node in nodes_of(ax) if not node.children]
    assert len({to_rgb(node.box.get_facecolor()) for node in leaves}) == 20


def test_many_categories_and_outputs_are_shortened() -> None:
    rng = np.random.default_rng(0)
    code = rng.integers(0, 40, 400)
    table = pd.DataFrame({"code": pd.Categorical([f"category {k}" for k in code])})
    many = np.column_stack([np.isin(code, rng.permutation(40)[:20]) + k for k in range(5)])
    model = gpuboost.DecisionTreeRegressor(max_depth=1, **FAST).fit(table, many)
    root = nodes_of(plot_tree(model))[0]
    test, values = root.lines[1:3]
    assert "more" in test and len(test) < 50 and values.endswith("…") and values.count(",") == 3


def test_a_leaf_alone_and_missing_values_unsaid() -> None:
    stump = gpuboost.DecisionTreeRegressor(**FAST).fit(NUMBERS, np.ones(len(Y)))
    ax = plot_tree(stump)
    assert nodes_of(ax)[0].lines == ["1", f"n = {len(Y)}"]
    texts = [text.get_text() for text in plot_tree(model_of("DecisionTreeRegressor")).texts]
    assert any("missing values" in text for text in texts)
    silent = plot_tree(model_of("DecisionTreeRegressor"), missing=False)
    assert not any("missing" in text.get_text() for text in silent.texts)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"tree": 3}, ValueError, "from 0 to 2"),
        ({"feature_names": ["a"]}, ValueError, "must contain 3 elements, got 1"),
        ({"class_names": ["a"]}, ValueError, "as many elements as there are classes"),
        ({"max_depth": -1}, ValueError, "max_depth"),
        ({"ax": "here"}, TypeError, "ax must be the Axes"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        plot_tree(model_of("RandomForestClassifier"), **arguments)


def test_other_models_are_refused() -> None:
    from sklearn.neighbors import KNeighborsClassifier

    other = gpuboost.BaggingClassifier(KNeighborsClassifier(), n_estimators=2).fit(NUMBERS, CLASSES)
    with pytest.raises(TypeError, match="base learners of this BaggingClassifier are not"):
        plot_tree(other)
    with pytest.raises(TypeError, match="expected a fitted estimator of gpuboost"):
        plot_tree(KNeighborsClassifier().fit(NUMBERS, CLASSES))


def test_layout_of_random_trees() -> None:
    """Boxes of one level keep their distance, and parents are above the middle of children."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        left, depth = [0], [0]
        for node in range(25):
            if node < len(left) and rng.random() < 0.7:
                left[node] = len(left)
                left += [0, 0]
                depth += [depth[node] + 1] * 2
        width = rng.uniform(1.0, 30.0, len(left))
        x = horizontal_places(np.array(left), width, 2.0)
        assert np.isclose((x - width / 2).min(), 0.0)
        for level in range(max(depth) + 1):
            own = np.flatnonzero(np.array(depth) == level)
            gaps = (x - width / 2)[own[1:]] - (x + width / 2)[own[:-1]]
            assert (gaps >= 2.0 - 1e-9).all()
        inner = np.flatnonzero(left)
        first = np.array(left)[inner]
        np.testing.assert_allclose(x[inner], 0.5 * (x[first] + x[first + 1]))


def test_texts_of_numbers_and_names() -> None:
    assert [number_text(x, 3) for x in (2.0, 0.12345, -1.5, 1.5e-7, 2.5e8, 0.0)] == [
        *("2", "0.123", "-1.5", "1.5e-07", "2.5e+08", "0"),
    ]
    assert shortened("abcdefghij", 5) == "ab…ij" and shortened("abc", 3) == "abc"
