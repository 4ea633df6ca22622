"""`export_rules`: rules hold for the rows of their leaves, and support and precision are counts."""

from __future__ import annotations

import pickle
import re
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import gpuboost
from gpuboost.explain import export_rules
from gpuboost.explain.trees.rules import TOP_RULES
from tests.explain.models import IMPORTED, OWN, classes, frame, held, leaves_of, numbers, target_of
from tests.explain.models import model_and_rows as case_of
from tests.interchange.export_cases import hard_rows

ALL = 10**6


@pytest.mark.parametrize("case", [*OWN, *IMPORTED])
def test_rules_match_the_rows_of_their_leaves(case: str) -> None:
    model, X = case_of(case)
    if case in OWN:
        X = hard_rows(model, True)[:400]
        X = np.where(np.isinf(X), np.sign(X) * 1e300, X)
    leaves, rules = leaves_of(model, X), export_rules(model, max_rules=ALL)
    of_rules = [leaf for rule in rules for leaf in rule.leaves]
    ensemble = held(model).ensemble
    assert len(set(of_rules)) == len(of_rules) == int((ensemble.left == 0).sum())
    for rule in rules:
        matched = rule.matches(X)
        for tree, node in rule.leaves:
            np.testing.assert_array_equal(matched, leaves[:, tree] == node)
    features = [[c.feature for c in rule.conditions] for rule in rules]
    assert all(len(set(own)) == len(own) for own in features)


def test_a_rule_in_words() -> None:
    rng = np.random.default_rng(0)
    age, city = rng.integers(20, 60, 400), rng.choice(["Rome", "Paris", "Oslo"], 400)
    y = np.where((age > 30) & (age <= 45) & (city != "Oslo"), "yes", "no")
    X = pd.DataFrame({"age": age.astype(float), "city": pd.Categorical(city)})
    model = gpuboost.DecisionTreeClassifier(device="numpy", random_state=0).fit(X, y)
    rules = export_rules(model)
    texts = [str(rule) for rule in export_rules(model, show_missing=False)]
    n = int((y == "yes").sum())
    wanted = "age in (30.5, 45.5] and city in {Paris, Rome} -> yes"
    assert f"{wanted}  (support {n}, precision 1.00)" in texts
    assert sum(rule.count or 0 for rule in rules) == 400
    assert not any("missing" in text for text in texts) and any(
        "or missing" in str(r) for r in rules
    )
    assert [rule.coverage for rule in rules] == sorted((r.coverage for r in rules), reverse=True)


def test_conditions_with_or_are_in_parentheses() -> None:
    model, _ = case_of("tree-classifier")
    for rule in export_rules(model):
        left = str(rule).split(" -> ")[0]
        for part in left.split(" and "):
            assert " or " not in part or (part[0], part[-1]) == ("(", ")")


def test_training_support_and_precision_are_those_of_the_leaves() -> None:
    model, X = case_of("tree-classifier")
    y, leaves = target_of("tree-classifier"), leaves_of(model, X)[:, 0]
    for rule in export_rules(model):
        ((_, node),) = rule.leaves
        inside = y[leaves == node]
        assert rule.count == rule.weight == len(inside) and rule.coverage == len(inside) / len(y)
        assert rule.precision == pytest.approx(np.mean(inside == rule.prediction), rel=1e-12)
        assert np.mean(inside == rule.prediction) == max(np.bincount(inside)) / len(inside)
        assert rule.spread is rule.majority is rule.output is None


@pytest.mark.parametrize("measured", [False, True])
def test_spread_is_the_standard_deviation(measured: bool) -> None:
    X, y = numbers(), np.nan_to_num(numbers()[:, 0]) + classes()
    model = gpuboost.DecisionTreeRegressor(max_depth=3, device="numpy").fit(X, y)
    leaves = leaves_of(model, X)[:, 0]
    for rule in export_rules(model, *([X, y] if measured else [])):
        inside = y[leaves == rule.leaves[0][1]]
        assert rule.spread == pytest.approx(inside.std(), abs=1e-9)
        assert rule.spread_name == "standard deviation" and rule.precision is None
        assert rule.prediction == pytest.approx(inside.mean())


def test_spread_of_weighted_rows_of_several_outputs() -> None:
    X = numbers()
    y = np.stack([np.nan_to_num(X[:, 0]), classes(3) * 2.0], axis=1)
    weights = np.arange(len(y)) % 3 + 1.0
    model = gpuboost.DecisionTreeRegressor(max_depth=2, device="numpy").fit(X, y)
    for rule in export_rules(model, X, y, sample_weight=weights):
        inside = rule.matches(X)
        variances = [np.cov(own[inside], aweights=weights[inside], ddof=0) for own in y.T]
        assert rule.spread == pytest.approx(np.sqrt(np.mean(variances)))
        assert rule.spread_name == "root mean variance of outputs"


def test_spread_has_an_honest_name() -> None:
    names = {rule.spread_name for rule in export_rules(case_of("median-tree")[0])}
    assert names == {"mean absolute deviation"}
    several = export_rules(case_of("forest-outputs")[0], tree=0)
    assert {rule.spread_name for rule in several} == {"root mean variance of outputs"}
    assert all(len(rule.prediction) == 2 for rule in several)
    for case in ("boosting-squared", "sklearn-forest-values"):
        assert export_rules(case_of(case)[0])[0].spread is None


def test_rows_of_a_user_are_measured() -> None:
    model, X = case_of("forest-classifier")
    y, leaves = target_of("forest-classifier"), leaves_of(model, X)
    weights = np.arange(len(y)) % 3 + 1.0
    for rule in export_rules(model, X, y, sample_weight=weights, max_rules=30):
        inside = leaves[:, rule.leaves[0][0]] == rule.leaves[0][1]
        assert rule.count == inside.sum() and rule.weight == weights[inside].sum()
        assert rule.coverage == inside.mean()
        if rule.count:
            right = weights[inside & (y == rule.prediction)].sum()
            assert rule.precision == pytest.approx(right / rule.weight)
    largest = export_rules(model, X, max_rules=1)[0]
    sizes = [np.bincount(own).max() for own in leaves.T]
    assert largest.count == max(sizes) and largest.precision is None


def test_boosting_measures_the_most_frequent_class() -> None:
    model, X = case_of("boosting-two")
    y = target_of("boosting-two")
    assert all(rule.precision is None for rule in export_rules(model))
    for rule in export_rules(model, X, y):
        share = y[rule.matches(X)].mean()
        assert rule.majority == str(int(share > 0.5)) and rule.output == "1"
        assert rule.precision == pytest.approx(max(share, 1.0 - share))
        assert str(rule).endswith(f"precision {rule.precision:.2f} for {rule.majority})")
        assert f" -> raw prediction of 1 {rule.prediction:+.6g}  (" in str(rule)


def test_equal_rules_of_several_trees_are_one() -> None:
    X, y = numbers(), classes() + numbers()[:, 1] ** 2
    y = np.nan_to_num(y)
    model = gpuboost.GradientBoostingRegressor(max_depth=1, n_estimators=40, device="numpy")
    model.fit(X, y)
    rules = export_rules(model, max_rules=ALL)
    assert len({frozenset(rule.conditions) for rule in rules}) == len(rules) < 80
    total = np.sum([rule.matches(X) * rule.prediction for rule in rules], axis=0)
    np.testing.assert_allclose(total + model.baseline_[0], model.predict(X), atol=1e-9)
    repeated = max(rules, key=lambda rule: len(rule.leaves))
    values = [held(model).ensemble.trees[t].value[n, 0] for t, n in repeated.leaves]
    assert len(values) > 1 and repeated.prediction == pytest.approx(sum(values))


def test_equal_rules_of_a_forest_are_averaged() -> None:
    X, y = np.arange(40.0)[:, None] % 2, np.arange(40) % 2 ^ (np.arange(40) == 0)
    model = gpuboost.RandomForestClassifier(n_estimators=9, device="numpy", random_state=0)
    rules = export_rules(model.fit(X, y), show_missing=False)
    assert len(rules) == 2 and all(len(rule.leaves) == 9 for rule in rules)
    ensemble = held(model).ensemble
    for rule in rules:
        nodes = [ensemble.trees[t].weight[n] for t, n in rule.leaves]
        wins = [
            own.weight[n] * own.value[n]
            for own, (_, n) in zip(ensemble.trees, rule.leaves, strict=True)
        ]
        np.testing.assert_allclose(rule.value, np.sum(wins, axis=0) / np.sum(nodes))
        assert rule.precision == max(rule.value)
        counts = [ensemble.trees[t].count[n] for t, n in rule.leaves]
        assert rule.count == round(np.mean(counts))


def test_equal_rules_of_adaboost_are_averaged_by_the_weights_of_their_leaves() -> None:
    X, y = np.arange(60.0)[:, None] % 3, (np.arange(60) % 3 == 1) ^ (np.arange(60) < 8)
    stump = gpuboost.DecisionTreeClassifier(max_depth=1)
    model = gpuboost.AdaBoostClassifier(stump, n_estimators=6, device="numpy").fit(X, y)
    assert len(set(model.estimator_weights_)) > 1
    trees, rules = held(model).ensemble.trees, export_rules(model, max_rules=ALL)
    merged = [rule for rule in rules if len(rule.leaves) > 1]
    assert merged
    for rule in merged:
        weights = [trees[t].weight[n] for t, n in rule.leaves]
        values = [trees[t].value[n] for t, n in rule.leaves]
        np.testing.assert_allclose(rule.value, np.average(values, axis=0, weights=weights))


def test_rules_without_missing_values() -> None:
    """They match the rows of their leaves that have no missing values in their features."""
    model, X = case_of("forest-classifier")
    leaves, rules = leaves_of(model, X), export_rules(model, show_missing=False, max_rules=ALL)
    assert len(rules) < len(export_rules(model, max_rules=ALL))
    for rule in rules:
        used = [each.feature for each in rule.conditions]
        complete = ~np.isnan(X[:, used]).any(axis=1)
        for tree, node in rule.leaves:
            inside = (leaves[:, tree] == node) & complete
            np.testing.assert_array_equal(rule.matches(X), inside)
        assert "or missing" not in str(rule)


@pytest.mark.parametrize("case", ["forest-classifier", "xgboost-frame", "lightgbm-zeros"])
def test_measured_rules_without_missing_values_count_the_rows_that_match(case: str) -> None:
    model, X = case_of(case)
    rules = export_rules(model, X, show_missing=False, max_rules=ALL)
    counts = [rule.count for rule in rules]
    assert counts == [rule.matches(X).sum() for rule in rules] == sorted(counts, reverse=True)
    assert counts == [round(rule.coverage * len(X)) for rule in rules]
    with_missing = export_rules(model, X, max_rules=ALL)
    assert sum(counts) < sum(rule.count or 0 for rule in with_missing)


def test_facts_of_rules_without_missing_values_are_those_of_the_rows_that_match() -> None:
    X, y = numbers(), classes(3)
    model = gpuboost.DecisionTreeClassifier(max_depth=3, device="numpy").fit(X, y)
    weights = np.arange(len(y)) % 3 + 1.0
    for rule in export_rules(model, X, y, sample_weight=weights, show_missing=False):
        inside = rule.matches(X)
        assert rule.weight == weights[inside].sum()
        right = weights[inside & (y == rule.prediction)].sum()
        assert rule.precision == pytest.approx(right / rule.weight)
    with pytest.raises(TypeError, match="a Dataset has codes in place of values"):
        export_rules(model, gpuboost.Dataset(X), show_missing=False)


def test_the_number_of_rules() -> None:
    model, _ = case_of("forest-classifier")
    assert len(export_rules(model)) == TOP_RULES and len(export_rules(model, max_rules=3)) == 3
    one = export_rules(model, tree=2)
    assert {tree for rule in one for tree, _ in rule.leaves} == {2}
    assert len(one) == int((held(model).ensemble.trees[2].left == 0).sum())
    (root,) = export_rules(case_of("stump-of-one-leaf")[0])
    assert root.conditions == () and str(root).startswith("always -> ")
    assert root.matches(case_of("stump-of-one-leaf")[1]).all()


def test_models_without_counts_have_a_support_by_weight() -> None:
    model, X = case_of("xgboost-frame")
    rule = export_rules(model)[0]
    assert rule.count is None and f"(support {rule.coverage:.1%})" in str(rule)
    assert 0.0 < rule.coverage <= 1.0 and export_rules(model, X)[0].count


def test_missing_categories_of_lightgbm_are_other_categories() -> None:
    """Also if the bit of a split by which missing numbers would go left is set."""
    lightgbm = pytest.importorskip("lightgbm")
    given = {"num_leaves": 6, "verbose": -1, "min_data_per_group": 5, "num_threads": 1}
    data = lightgbm.Dataset(numbers(), classes(), categorical_feature=[3])
    text = lightgbm.train(given, data, 3).model_to_string()

    def with_bit(line: re.Match[str]) -> str:
        kinds = [int(kind) | (int(kind) & 1) << 1 for kind in line[1].split()]
        return f"decision_type={' '.join(map(str, kinds))}"

    changed = re.sub(r"decision_type=([\d ]+)", with_bit, text)
    assert changed != text
    model, X = gpuboost.from_lightgbm(changed), numbers()
    assert np.isnan(X[:, 3]).any()
    for rule in export_rules(model):
        tree, node = rule.leaves[0]
        np.testing.assert_array_equal(rule.matches(X), model.apply(X)[:, tree] == node)
        of_city = [each for each in rule.conditions if each.feature == 3]
        assert all(each.missing == each.others for each in of_city)


def test_several_outputs_of_classes() -> None:
    model, X = case_of("tree-outputs")
    y, leaves = target_of("tree-outputs"), leaves_of(model, X)[:, 0]
    assert all(rule.precision is None for rule in export_rules(model))
    for rule in export_rules(model, X, y):
        inside = y[leaves == rule.leaves[0][1]]
        assert rule.precision == pytest.approx((inside == rule.prediction).all(axis=1).mean())
        assert str(rule).split(" -> ")[1].startswith(", ".join(map(str, rule.prediction)))


def test_rules_match_frames_and_sparse_matrices() -> None:
    X, y = frame(), classes()
    model = gpuboost.DecisionTreeClassifier(max_depth=4, device="numpy").fit(X, y)
    leaves = model.apply(X)
    for rule in pickle.loads(pickle.dumps(export_rules(model, class_names=["no", "yes"]))):
        np.testing.assert_array_equal(rule.matches(X), leaves == rule.leaves[0][1])
        assert rule.prediction in (0, 1) and str(rule).split(" -> ")[1][:3].strip() in ("no", "yes")
    filled = np.nan_to_num(numbers())
    model = gpuboost.DecisionTreeClassifier(max_depth=3, device="numpy").fit(filled, y)
    for rule in export_rules(model):
        sparse = rule.matches(scipy.sparse.csr_array(filled))
        np.testing.assert_array_equal(sparse, rule.matches(filled))


def test_rows_on_a_gpu_are_copied_to_the_host() -> None:
    class OnGpu:
        __cuda_array_interface__: ClassVar[dict[str, Any]] = {}

        def get(self) -> np.ndarray:
            return X

    model, X = case_of("tree-classifier")
    for rule in export_rules(model):
        np.testing.assert_array_equal(rule.matches(OnGpu()), rule.matches(X))


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"y": [0]}, ValueError, "pass X"),
        ({"max_rules": 0}, ValueError, "max_rules must be an integer of at least 1"),
        ({"tree": 7}, ValueError, "tree must be"),
        ({"X": numbers(), "y": np.zeros(300)}, ValueError, "4 features"),
    ],
)
def test_parameters_are_checked(given: dict[str, Any], error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        export_rules(case_of("tree-classifier")[0], **given)


def test_targets_and_tables_are_checked() -> None:
    model, X = case_of("tree-classifier")
    with pytest.raises(ValueError, match=r"y has the classes .*9.*, which y of fit does not have"):
        export_rules(model, X, np.full(len(X), 9))
    with pytest.raises(ValueError, match="y has 2 columns, but the model has 1 outputs"):
        export_rules(model, X, np.zeros((len(X), 2)))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        export_rules(model, X, np.zeros(3, int))
    rule = export_rules(model)[0]
    with pytest.raises(TypeError, match="a Dataset has codes in place of values"):
        rule.matches(gpuboost.Dataset(X))
