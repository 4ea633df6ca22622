"""`trees_to_dataframe`: the same table in every library, from which trees can be followed."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gpuboost
from gpuboost.explain import trees_to_dataframe
from tests.explain.models import CITIES, IMPORTED, OWN, classes, frame, held, leaves_of
from tests.explain.models import model_and_rows as case_of
from tests.interchange.export_cases import INTEGERS, NUMBERS

COLUMNS = (
    "tree node depth feature threshold categories others_left missing_left left right value "
    "gain cover count impurity"
)


def columns_of(X: Any) -> dict[str, np.ndarray]:
    """Columns of rows by name; categories as text, None where a value is missing."""
    if hasattr(X, "columns"):
        return {name: np.array(X[name], dtype=object) for name in X.columns}
    return {f"feature_{k}": own.astype(object) for k, own in enumerate(X.T)}


def goes_left(split: Any, value: Any, known: set[str], zero_is_missing: bool) -> bool:
    """Whether a value goes left at a row of the table."""
    is_missing = value is None or value != value or (zero_is_missing and value == 0.0)
    if split.categories is None:
        return split.missing_left if is_missing else bool(value <= split.threshold)
    text = value if isinstance(value, str) else str(value)
    text = {str(c): repr(c) if "," in str(c) else str(c) for c in CITIES}.get(text, text)
    text = text.removesuffix(".0")
    if is_missing or (text not in known and split.others_left is None):
        return split.missing_left
    return text in split.categories if text in known else split.others_left


@pytest.mark.parametrize("case", [*OWN, *IMPORTED])
def test_trees_can_be_followed_in_the_table(case: str) -> None:
    model, X = case_of(case)
    X = X[:60]
    if case.startswith(("xgboost", "sklearn-tree", "sklearn-forest", "treelite")):
        of_numbers = [name for name in X if name != "city"] if hasattr(X, "columns") else None
        X = X.astype(np.float32 if of_numbers is None else dict.fromkeys(of_numbers, np.float32))
    table = trees_to_dataframe(model).astype(object)
    table = table.where(table.notna(), None)
    by_node = {(row.tree, row.node): row for row in table.itertuples()}
    columns, leaves = columns_of(X), leaves_of(model, X)
    known = {f: set[str]() for f in columns}
    for row in table.itertuples():
        if row.categories is not None:
            known[row.feature] |= set(row.categories)
    for feature, names in known.items():
        if feature in (f"feature_{NUMBERS}", f"feature_{INTEGERS}", "city"):
            values = columns[feature]
            names |= {str(v).removesuffix(".0") for v in values if v == v and v is not None}
            names |= {"'Bern, CH'"} if "Bern, CH" in names else set()
    for tree in (0, leaves.shape[1] - 1):
        for row in range(len(X)):
            split = by_node[tree, 0]
            while split.left is not None:
                assert split.right == split.left + 1
                value = columns[split.feature][row]
                left = goes_left(split, value, known[split.feature], case == "lightgbm-zeros")
                split = by_node[tree, split.left if left else split.right]
            assert split.node == leaves[row, tree]


@pytest.mark.parametrize("case", ["tree-regressor", "boosting-two", "sklearn-adaboost"])
def test_columns_are_those_of_the_trees(case: str) -> None:
    model, _ = case_of(case)
    table, ensemble = trees_to_dataframe(model), held(model).ensemble
    extra = [name for name in table.columns if name not in COLUMNS.split()]
    assert len(table) == ensemble.offset[-1]
    assert [name for name in table.columns if name not in extra] == [
        name for name in COLUMNS.split() if name != "value" or not extra
    ]
    assert table["cover"].tolist() == ensemble.weight.tolist()
    leaf = table["left"].isna()
    assert (leaf == (ensemble.left == 0)).all() and (leaf == table["feature"].isna()).all()
    assert table["gain"][~leaf].tolist() == ensemble.impurity_decrease[ensemble.left > 0].tolist()
    assert (table["count"] == ensemble.count).all()
    assert (table["impurity"].isna() == np.isnan(ensemble.impurity)).all()
    depths = np.concatenate([tree.depths() for tree in ensemble.trees])
    assert (table["depth"] == depths).all()
    if len(extra) == 0:
        is_shown = table["value"].notna().to_numpy()
        assert (table["value"][is_shown] == ensemble.value[is_shown, 0]).all()
        assert is_shown.all() == (case != "sklearn-adaboost")


@pytest.mark.parametrize(
    ("case", "names"),
    [
        ("forest-classifier", ["value_low", "value_middle", "value_high"]),
        ("tree-outputs", ["value_0_0", "value_0_1", "value_1_0", "value_1_1", "value_1_2"]),
        ("forest-outputs", ["value_0", "value_1"]),
        ("boosting-vectors", ["value_0", "value_1", "value_2"]),
        ("boosting-three", ["value"]),
    ],
)
def test_names_of_values(case: str, names: list[str]) -> None:
    model, _ = case_of(case)
    table, ensemble = trees_to_dataframe(model), held(model).ensemble
    found = [name for name in table.columns if name.startswith("value")]
    assert sorted(found) == sorted(names)
    if case == "tree-outputs":
        np.testing.assert_allclose(table[["value_1_0", "value_1_1", "value_1_2"]].sum(axis=1), 1.0)
    else:
        np.testing.assert_array_equal(table[found].to_numpy(), ensemble.value)
    if case == "boosting-three":
        assert table["output"][table["node"] == 0].tolist()[:4] == ["high", "low", "middle", "high"]


def test_all_libraries_have_the_same_table() -> None:
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    model = gpuboost.DecisionTreeClassifier(max_depth=3, device="numpy").fit(frame(), classes())
    given = {"feature_names": ["a", "b", "c", "d"], "class_names": ["no", "yes"]}
    pandas_table = trees_to_dataframe(model, **given)
    assert isinstance(pandas_table, pd.DataFrame)
    rows = pandas_table.astype(object).where(pandas_table.notna(), None).to_dict("records")
    of_polars = trees_to_dataframe(model, "polars", **given)
    assert isinstance(of_polars, polars.DataFrame) and of_polars.rows(named=True) == rows
    of_arrow = trees_to_dataframe(model, "arrow", **given)
    assert isinstance(of_arrow, pyarrow.Table) and of_arrow.to_pylist() == rows
    assert "value_yes" in of_arrow.column_names and rows[0]["feature"] in "abcd"
    assert pandas_table["left"].dtype == "Int64" and of_polars["categories"].dtype == polars.List
    assert str(of_arrow.schema.field("categories").type).startswith("list<")


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_a_library_that_is_not_installed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = {"arrow": "pyarrow"}.get(kind, kind)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=f"kind='{kind}' needs {name}, which is not installed"):
        trees_to_dataframe(case_of("tree-regressor")[0], kind)


def test_the_kind_is_checked() -> None:
    with pytest.raises(ValueError, match="kind must be one of 'pandas', 'polars', 'arrow'"):
        trees_to_dataframe(case_of("tree-regressor")[0], "dask")


@pytest.mark.parametrize("case", ["adaboost-two", "adaboost-three", "adaboost-regressor"])
def test_trees_of_adaboost_have_weights(case: str) -> None:
    model, _ = case_of(case)
    table = trees_to_dataframe(model)
    np.testing.assert_array_equal(table["tree_weight"], model.estimator_weights_[table["tree"]])
    assert "tree_weight" not in trees_to_dataframe(case_of("forest-classifier")[0])
