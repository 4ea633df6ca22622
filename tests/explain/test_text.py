"""`export_text`: scikit-learn's text, and a naive parser that follows the text for rows."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import sklearn.tree
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import gpuboost
from gpuboost.explain import export_text
from tests.explain.models import IMPORTED, OWN, frame, held, leaves_from_left, leaves_of
from tests.explain.models import model_and_rows as case_of

_LINE = re.compile(r"((?:\|   )*)\|--- (.*)")


def columns_of(X: Any) -> dict[str, list[Any]]:
    """Columns of rows by name, None where a value is missing."""
    if hasattr(X, "columns"):
        return {n: [None if v != v else v for v in X[n].astype(object)] for n in X.columns}
    return {f"feature_{k}": [None if v != v else v for v in column] for k, column in enumerate(X.T)}


def is_true(condition: str, value: Any) -> bool:
    """Whether a value passes a condition that is given in words."""
    text, missing = re.subn(r" or missing$", "", condition)
    if value is None:
        return bool(missing) or text.endswith(" is missing")
    if text.endswith((" is missing", " is not missing")):
        return text.endswith("not missing")
    text, or_zero = re.subn(r" or 0$", "", text)
    text, not_zero = re.subn(r" and not 0$", "", text)
    if (or_zero or not_zero) and value == 0:
        return bool(or_zero)
    found = re.fullmatch(r"(\S+) (not in|in|<=|<|>=|>) +(.*)", text)
    assert found, text
    _, sign, given = found.groups()
    if sign.endswith("in"):
        shown = str(int(value)) if not isinstance(value, str) and value == int(value) else value
        inside = str(shown) in re.findall(r"'[^']*'|[^,{} ][^,{}]*", given) or repr(shown) in given
        return inside == (sign == "in")
    number = np.float64(given)
    return bool({"<=": value <= number, "<": value < number, ">": value > number}.get(sign)) or (
        sign == ">=" and value >= number
    )


def followed(text: str, X: Any) -> list[int]:
    """For each row, which leaf of the text it reaches, counted from the top."""
    lines = [(len(m.group(1)) // 4, m.group(2)) for m in map(_LINE.match, text.splitlines()) if m]
    is_leaf = [bool(re.match(r"(class|value|weights)\b.*:", own)) for _, own in lines]
    number = np.cumsum(is_leaf) - 1
    columns, found = columns_of(X), []
    for row in range(len(X)):
        at, depth = 0, 0
        while not is_leaf[at]:
            own_depth, condition = lines[at]
            name = condition.split(" ")[0]
            if own_depth == depth and is_true(condition, columns[name][row]):
                depth += 1
            at += 1
            while lines[at][0] > depth:  # a branch that the row does not take
                at += 1
            assert lines[at][0] == depth, "no condition of a split is true"
        found.append(int(number[at]))
    return found


@pytest.mark.parametrize("case", [*OWN, *IMPORTED])
def test_text_followed_by_hand_leads_to_the_leaves(case: str) -> None:
    model, X = case_of(case)
    X = X[:120]
    if case.startswith(("xgboost", "sklearn-tree", "sklearn-forest", "treelite")):
        # What these libraries compare is float32.
        X = (
            X.astype({n: np.float32 for n in X if n != "city"})
            if hasattr(X, "columns")
            else (X.astype(np.float32))
        )
    leaves = leaves_of(model, X)
    for number in (0, leaves.shape[1] - 1):
        text = export_text(model, tree=number, decimals=25, max_depth=None, max_categories=256)
        order = leaves_from_left(held(model).ensemble.trees[number].left)
        wanted = [order.index(leaf) for leaf in leaves[:, number].tolist()]
        assert followed(text, X) == wanted


@pytest.mark.parametrize("params", [{}, {"max_depth": 1, "spacing": 4, "show_weights": True}])
@pytest.mark.parametrize("kind", ["DecisionTreeClassifier", "DecisionTreeRegressor"])
def test_text_is_scikit_learns_without_missing_values(kind: str, params: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 3, 200)
    model = getattr(gpuboost, kind)(max_depth=5, random_state=0, device="numpy").fit(X, y)
    own = export_text(model, show_missing=False, feature_names=list("abc"), **params)
    assert own == sklearn.tree.export_text(model, feature_names=list("abc"), **params)


def test_names_of_features_categories_and_classes() -> None:
    X = frame()
    y = np.where(X["city"].isin(["Rome", "Bern, CH"]), "yes", "no")
    model = gpuboost.DecisionTreeClassifier(max_depth=1, device="numpy").fit(X, y)
    assert export_text(model) == (
        "|--- city in {Bonn, Kyiv, Oslo, Paris} or missing\n"
        "|   |--- class: no\n"
        "|--- city in {'Bern, CH', Rome}\n"
        "|   |--- class: yes\n"
    )
    renamed = export_text(model, feature_names=["a", "b", "c", "d"], class_names=["N", "Y"])
    assert renamed.endswith("|--- d in {'Bern, CH', Rome}\n|   |--- class: Y\n")
    weights = f"weights: [0.00, {(y == 'yes').sum()}.00] class: yes"
    assert weights in export_text(model, show_weights=True)


def test_terms_of_boosting_name_their_class() -> None:
    model, _ = case_of("boosting-three")
    assert "value (high): [" in export_text(model, tree=0)
    assert "value (middle): [" in export_text(model, tree=2)
    assert "value (1): [" in export_text(case_of("boosting-two")[0])
    assert "value (output 1): [" in export_text(case_of("boosting-levels")[0], tree=1)
    assert "value: [" in export_text(case_of("boosting-squared")[0])


def test_thresholds_of_xgboost_are_shown_as_it_compares() -> None:
    for case in ("xgboost-numbers", "treelite"):
        text = export_text(case_of(case)[0], decimals=7)
        assert re.search(r"feature_0 <  -?\d\.\d0{6}", text) and " >= " in text and "<=" not in text
    for case in ("lightgbm-frame", "sklearn-tree"):
        assert "<=" in export_text(case_of(case)[0]) and ">=" not in export_text(case_of(case)[0])


def test_deep_trees_need_no_recursion() -> None:
    x = np.exp2(np.arange(60.0))[:, None]
    y = np.arange(60.0) ** 3
    model = gpuboost.DecisionTreeRegressor(device="numpy").fit(x, y)
    assert export_text(model, max_depth=None).count("value") == 60
    assert "truncated branch of depth" in export_text(model, max_depth=0)


@pytest.mark.parametrize(
    ("params", "error", "words"),
    [
        ({"tree": 1}, ValueError, "tree must be an integer from 0 to 0, got 1"),
        ({"feature_names": ["a"]}, ValueError, "feature_names must contain 5 elements, got 1"),
        ({"class_names": ["a"]}, ValueError, "as many elements as there are classes"),
        ({"class_names": ["a", "b", "a"]}, ValueError, "class_names must be distinct"),
        ({"max_depth": -1}, ValueError, "max_depth"),
        ({"decimals": 1.5}, TypeError, "decimals"),
        ({"show_missing": 1}, TypeError, "show_missing"),
    ],
)
def test_parameters_are_checked(params: dict[str, Any], error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        export_text(case_of("tree-classifier")[0], **params)


def test_other_models_are_refused() -> None:
    with pytest.raises(NotFittedError):
        export_text(gpuboost.DecisionTreeClassifier())
    with pytest.raises(TypeError, match="from_sklearn"):
        export_text(sklearn.tree.DecisionTreeClassifier())
    X, y = np.eye(4), [0, 1, 0, 1]
    other = gpuboost.BaggingClassifier(LogisticRegression(), n_estimators=2).fit(X, y)
    with pytest.raises(TypeError, match="are not gpuboost's trees, but LogisticRegression"):
        export_text(other)
