"""`export_graphviz`: nodes, edges and colors of the graph, and that Graphviz draws it."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gpuboost
from gpuboost.explain import export_graphviz
from gpuboost.explain.trees.colors import ABOVE, BELOW, as_hex, class_colors, text_color, tinted
from tests.explain.models import IMPORTED, OWN, classes, frame, held, numbers
from tests.explain.models import model_and_rows as case_of

needs_dot = pytest.mark.skipif(
    shutil.which("dot") is None, reason="Graphviz is not installed: no program dot"
)
_NODE = re.compile(r"^(\d+) \[label=(.*?)(?:, fillcolor=\"(#\w+)\".*)?\] ;$", re.MULTILINE)
_EDGE = re.compile(r"^(\d+) -> (\d+) \[label=\" (.*) \"\] ;$", re.MULTILINE)


def nodes_of(graph: str) -> dict[int, list[str]]:
    """Lines of the label of each node."""
    return {int(n): label[1:-1].split("\\n") for n, label, _ in _NODE.findall(graph)}


def drawn(graph: str) -> list[str]:
    """All texts of the picture that Graphviz draws."""
    found = subprocess.run(
        ["dot", "-Tsvg"], input=graph.encode(), capture_output=True, timeout=60, check=True
    )
    assert not found.stderr, found.stderr
    svg = found.stdout.decode()
    return [
        unescape(own).replace("\u00a0", " ").strip()
        for own in re.findall(r"<text[^>]*>(.*?)</text>", svg)
    ]


def nasty_model() -> tuple[Any, str]:
    """A tree on names with quotes, line breaks, backslashes and characters of HTML."""
    X = frame()
    name = 'a "b" <c> &amp; \\N \\\\ d\n{e|f}'
    X = X.rename(columns={"age": name})
    y = np.where(np.nan_to_num(X[name]) > 0.25, 'yes "\\"\n<b>', "no & never")
    return gpuboost.DecisionTreeClassifier(max_depth=1, device="numpy").fit(X, y), name


@pytest.mark.parametrize("case", [*OWN, *IMPORTED])
def test_nodes_and_edges_are_those_of_the_tree(case: str) -> None:
    model, _ = case_of(case)
    graph, tree = export_graphviz(model, filled=True), held(model).ensemble.trees[0]
    assert graph is not None and graph.startswith("digraph Tree {\n") and graph.endswith("}\n")
    assert sorted(nodes_of(graph)) == list(range(tree.node_count))
    edges = {(int(a), int(b)): text for a, b, text in _EDGE.findall(graph)}
    inner = np.flatnonzero(tree.left)
    wanted = {(n, int(tree.left[n]) + k) for n in inner.tolist() for k in (0, 1)}
    assert set(edges) == wanted
    for node in inner.tolist():
        left, right = (edges[node, int(tree.left[node]) + k] for k in (0, 1))
        assert left.startswith("yes") and right.startswith("no")
        assert not (left.endswith("missing") and right.endswith("missing"))


def test_lines_of_nodes() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"petal": rng.normal(size=50)})
    y = np.where(X["petal"] > 0, "rose", "lily")
    model = gpuboost.DecisionTreeClassifier(device="numpy").fit(X, y)
    n = int((y == "lily").sum())
    root = nodes_of(export_graphviz(model, node_ids=True) or "")[0]
    impurity = round(1 - (n / 50) ** 2 - (1 - n / 50) ** 2, 3)
    threshold = round(float(held(model).ensemble.threshold[0]), 3)
    assert root == [
        *("node #0", f"petal <= {threshold}", f"gini = {impurity}", "samples = 50"),
        *(f"value = [{n}, {50 - n}]", f"class = {'lily' if n >= 25 else 'rose'}"),
    ]
    given: dict[str, Any] = {"proportion": True, "impurity": False, "class_names": False}
    root = nodes_of(export_graphviz(model, label="none", **given) or "")[0]
    assert root[1:] == ["100.0%", f"[{n / 50}, {1 - n / 50}]"]
    leaf = nodes_of(export_graphviz(model, label="root", impurity=False) or "")[1]
    assert leaf == [str(n), f"[{n}, 0]", "lily"]


def test_where_missing_values_go() -> None:
    model, _ = case_of("tree-classifier")
    tree, graph = held(model).ensemble.trees[0], export_graphviz(model) or ""
    edges = {(int(a), int(b)): text for a, b, text in _EDGE.findall(graph)}
    left = int(tree.left[0])
    wanted = ("yes or missing", "no") if tree.missing_left[0] else ("yes", "no or missing")
    assert (edges[0, left], edges[0, left + 1]) == wanted
    assert "or missing" not in (export_graphviz(model, show_missing=False) or "")
    x = np.array([[np.nan], [1.0], [2.0], [np.nan]])
    model = gpuboost.DecisionTreeClassifier(device="numpy").fit(x, [1, 0, 0, 1])
    graph = export_graphviz(model) or ""
    assert nodes_of(graph)[0][0] == "feature_0 is not missing"
    assert [text for *_, text in _EDGE.findall(graph)] == ["yes", "no"]


def test_terms_and_models_without_counts() -> None:
    assert "value (middle) = " in (export_graphviz(case_of("boosting-three")[0], tree=2) or "")
    graph = export_graphviz(case_of("xgboost-frame")[0]) or ""
    assert "cover = " in graph and "samples" not in graph and "gini" not in graph
    root = nodes_of(graph)[0]
    assert not any(line.startswith("value") for line in root)


def test_many_classes_are_shortened() -> None:
    y = np.arange(300) % 20
    model = gpuboost.DecisionTreeClassifier(max_depth=1, device="numpy").fit(numbers(), y)
    root = nodes_of(export_graphviz(model, class_names=[f"c{k}" for k in range(20)]) or "")[0]
    assert root[-5:] == ["c0: 15", "c1: 15", "c2: 15", "... 17 more", "class = c0"]


def test_long_lines_are_broken() -> None:
    X, name = numbers(), "a very long name of a feature that fills more than a line of a node"
    model = gpuboost.DecisionTreeClassifier(max_depth=1, device="numpy").fit(X, classes())
    root = nodes_of(export_graphviz(model, feature_names=[name] * 4) or "")[0]
    assert max(map(len, root)) <= 36 and re.fullmatch(r"<= -?[\d.]+", root[2])
    assert " ".join(root[:2]) == name


def test_options_of_the_graph() -> None:
    model, _ = case_of("tree-regressor")
    plain = export_graphviz(model) or ""
    assert "rankdir" not in plain and "fillcolor" not in plain and "rank=same" not in plain
    graph = export_graphviz(
        model,
        max_depth=2,
        rotate=True,
        filled=True,
        rounded=True,
        leaves_parallel=True,
        fontname="courier",
    )
    assert graph is not None
    assert 'style="filled, rounded"' in graph and "rankdir=LR ;" in graph
    assert 'fontname="courier"' in graph and "{rank=same ;" in graph
    tree = held(model).ensemble.trees[0]
    cut = [node for node, lines in nodes_of(graph).items() if lines == ["(...)"]]
    assert len(cut) == np.count_nonzero(tree.depths() == 3)
    assert len(nodes_of(graph)) == np.count_nonzero(tree.depths() <= 3)


def test_the_file_that_is_written(tmp_path: Path) -> None:
    model, buffer = case_of("tree-regressor")[0], io.StringIO()
    graph = export_graphviz(model)
    assert export_graphviz(model, tmp_path / "tree.dot") is None
    assert export_graphviz(model, buffer) is None
    assert (tmp_path / "tree.dot").read_text(encoding="utf-8") == graph == buffer.getvalue()


def fills_of(model: Any) -> dict[int, str]:
    """Colors of the nodes of the first tree."""
    found = _NODE.findall(export_graphviz(model, filled=True) or "")
    return {int(n): fill for n, _, fill in found}


def test_colors() -> None:
    assert [as_hex(own) for own in class_colors(3)] == ["#1f77b4", "#ff7f0e", "#2ca02c"]
    assert as_hex(tinted(ABOVE, 0.0)) == "#ffffff" and as_hex(BELOW) == "#ff7f0e"
    assert (text_color("#ffffff"), text_color("#8139e5")) == ("black", "white")
    model, _ = case_of("tree-classifier")
    tree, found = held(model).ensemble.trees[0], fills_of(model)
    for node in np.flatnonzero(tree.value.max(axis=1) == 1.0).tolist():
        assert found[node] == as_hex(class_colors(3)[int(tree.value[node].argmax())])


def test_values_above_zero_are_blue_and_those_below_orange() -> None:
    y = np.nan_to_num(numbers()[:, 0])
    tree = gpuboost.DecisionTreeRegressor(max_depth=3, device="numpy").fit(numbers(), y)
    for model in (tree, case_of("boosting-two")[0]):
        value, found = held(model).ensemble.trees[0].value[:, 0], fills_of(model)
        assert value.min() < 0.0 < value.max()
        for node, own in enumerate(value.tolist()):
            share = abs(own) / np.abs(value).max()
            assert found[node] == as_hex(tinted(ABOVE if own > 0.0 else BELOW, share))


def test_values_of_one_sign_are_blue() -> None:
    y = numbers()[:, 3].astype(str) == "1.0"
    model = gpuboost.DecisionTreeRegressor(max_depth=3, device="numpy").fit(numbers(), y)
    value, found = held(model).ensemble.trees[0].value[:, 0], fills_of(model)
    assert found[int(value.argmax())] == as_hex(ABOVE)
    assert found[int(value.argmin())] == "#ffffff"


@needs_dot
@pytest.mark.parametrize("is_html", [False, True])
def test_names_are_drawn_as_they_are(is_html: bool) -> None:
    model, name = nasty_model()
    graph = export_graphviz(model, special_characters=is_html, filled=True) or ""
    text = " ".join(drawn(graph))
    sign = "\N{LESS-THAN OR EQUAL TO}" if is_html else "<="
    assert re.search(re.escape(name.replace("\n", "\\n")) + f" {sign} 0.25", text)
    assert 'class = yes "\\"\\n<b>' in text and "class = no & never" in text


@needs_dot
@pytest.mark.parametrize("case", ["tree-outputs", "boosting-vectors", "lightgbm-zeros"])
def test_dot_draws_every_node(case: str) -> None:
    model, _ = case_of(case)
    graph = export_graphviz(model, filled=True, rounded=True, leaves_parallel=True) or ""
    texts = drawn(graph)
    tree = held(model).ensemble.trees[0]
    assert sum("samples" in text for text in texts) == tree.node_count
    assert sum(text.startswith("yes") for text in texts) == np.count_nonzero(tree.left)


@pytest.mark.parametrize(
    ("params", "error", "words"),
    [
        ({"label": "some"}, ValueError, "label must be one of 'all', 'root', 'none'"),
        ({"filled": "yes"}, TypeError, "filled must be True or False"),
        ({"precision": -1}, ValueError, "precision"),
        ({"tree": 3}, ValueError, "tree must be"),
        ({"class_names": ["a"]}, ValueError, "class_names must contain as many elements"),
        ({"class_names": "abc"}, TypeError, "class_names must be a list of names, got 'abc'"),
        ({"class_names": 3}, TypeError, "class_names must be a list of names, got 3"),
        ({"feature_names": "abcde"}, TypeError, "feature_names must be a list of names"),
        ({"fontname": 3}, TypeError, "fontname must be the name of a font, got 3"),
    ],
)
def test_parameters_are_checked(params: dict[str, Any], error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        export_graphviz(case_of("tree-classifier")[0], **params)


def test_class_names_of_models_with_one_output_several_outputs_and_without_classes() -> None:
    model, _ = case_of("tree-classifier")
    assert export_graphviz(model, class_names=True) == export_graphviz(model)
    regressor, _ = case_of("tree-regressor")
    assert export_graphviz(regressor, class_names=False) == export_graphviz(regressor)
    with pytest.raises(ValueError, match="class_names are for classifiers"):
        export_graphviz(regressor, class_names=["a", "b"])
    several, _ = case_of("tree-outputs")
    graph = export_graphviz(several, class_names=[["no", "yes"], ["a", "b", "c"]])
    assert graph is not None and "class = yes, " in graph
    for given in ("ab", ["ab", ["a", "b", "c"]]):
        with pytest.raises(TypeError, match="class_names must be a list of names"):
            export_graphviz(several, class_names=given)
