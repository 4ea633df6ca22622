"""Conditions: their words, how they are merged, and which values pass."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuboost.explain.trees.conditions import (
    Categories,
    Condition,
    category_text,
    extended,
    in_braces,
    one_line,
)

NAN, INF = np.nan, np.inf
CITIES = Categories(("Bonn", "Oslo", "Paris", "Rome"), np.arange(4))
OPEN = Categories(("Bonn", "Oslo"), np.arange(2), others=2)


def age(**fields: object) -> Condition:
    return Condition(0, "age", **fields)  # type: ignore[arg-type]


def city(*names: str, missing: bool = False) -> Condition:
    return Condition(1, "city", categories=names, missing=missing, known=CITIES)


def of_open(*names: str, others: bool = False, missing: bool = False) -> Condition:
    fields = {"categories": names, "others": others, "missing": missing, "known": OPEN}
    return Condition(2, "town", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (age(high=45.0), "age <= 45"),
        (age(high=45.0, missing=True), "age <= 45 or missing"),
        (age(low=30.0), "age > 30"),
        (age(low=30.0, high=45.0), "age in (30, 45]"),
        (age(high=INF), "age is not missing"),
        (age(low=INF, missing=True), "age is missing"),
        (age(high=INF, missing=True), "age is anything"),
        (age(low=3.0, high=2.0), "age in {}"),
        (age(high=45.0, zero=False), "age <= 45 and not 0"),
        (age(low=30.0, zero=True, missing=True), "age > 30 or 0 or missing"),
        (age(low=-1.0, high=1.0, zero=True), "age in (-1, 1]"),
        (age(zero=False), "age not 0"),
        (age(low=INF, zero=True, missing=True), "age = 0 or missing"),
        (age(high=2.9999998, strict=np.float32), "age < 3"),
        (age(low=2.9999998, strict=np.float32), "age >= 3"),
        (age(low=-1e-45, high=2.9999998, strict=np.float32), "age in [0, 3)"),
        (city("Rome", "Paris"), "city in {Rome, Paris}"),
        (city("Rome", missing=True), "city in {Rome} or missing"),
        (city(*CITIES.names), "city is not missing"),
        (city(missing=True), "city is missing"),
        (of_open("Bonn", others=True), "town not in {Oslo}"),
        (of_open("Bonn", "Oslo"), "town in {Bonn, Oslo}"),
        (of_open("Bonn", "Oslo", others=True), "town is not missing"),
        (of_open(others=True, missing=True), "town not in {Bonn, Oslo} or missing"),
    ],
)
def test_words(condition: Condition, text: str) -> None:
    assert str(condition) == text


def test_long_sets_are_shortened() -> None:
    names = tuple(f"c{k}" for k in range(20))
    known = Categories(names, np.arange(20))
    most = Condition(0, "x", categories=names[1:], known=known)
    half = Condition(0, "x", categories=names[:10], known=known)
    assert str(most) == "x not in {c0}"
    assert half.text(str, 3) == "x in {c0, c1, c2, ... 7 more}"
    assert in_braces(names[:3], 3) == "{c0, c1, c2}"


def test_words_without_missing_values() -> None:
    assert age(high=1.0, missing=True).text(str, show_missing=False) == "age <= 1.0"
    assert age(high=INF).text(str, show_missing=False) == "age is not missing"


@pytest.mark.parametrize(
    ("category", "text"),
    [
        *(("Rome", "Rome"), ("Bern, CH", "'Bern, CH'"), ("", "''"), (" a", "' a'")),
        *(("a\nb", "'a\\nb'"), (3.0, "3"), (0.25, "0.25"), (np.int64(7), "7"), (True, "True")),
    ],
)
def test_categories_as_text(category: object, text: str) -> None:
    assert category_text(category) == text


def test_names_have_one_line() -> None:
    assert one_line("a\nb\tc") == "a\\nb\\tc" and one_line('it\'s "x"') == 'it\'s "x"'


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (age(high=45.0, missing=True), age(low=30.0), age(low=30.0, high=45.0)),
        (age(high=45.0), age(high=50.0), age(high=45.0)),
        (age(low=1.0, missing=True), age(low=3.0, missing=True), age(low=3.0, missing=True)),
        (city("Rome", "Oslo", missing=True), city("Oslo", "Bonn"), city("Oslo")),
        (of_open("Bonn", others=True), of_open(others=True), of_open(others=True)),
        (age(high=1.0, zero=False), age(low=-1.0), age(low=-1.0, high=1.0, zero=False)),
        (age(low=2.0, zero=True), age(high=5.0), age(low=2.0, high=5.0, zero=True)),
        (age(low=2.0, zero=True), age(low=1.0), age(low=2.0, zero=False)),
    ],
)
def test_merged(one: Condition, other: Condition, both: Condition) -> None:
    assert one & other == both and other & one == both
    assert extended({one.feature: one}, other) == {one.feature: both}


bounds = st.none() | st.sampled_from([-INF, -1.0, 0.0, 0.5, INF])
sides = st.builds(
    age, low=bounds, high=bounds, missing=st.booleans(), zero=st.none() | st.booleans()
)


@given(sides, sides)
@settings(deadline=None, max_examples=200)
def test_merged_conditions_pass_what_both_pass(one: Condition, other: Condition) -> None:
    x = np.array([NAN, -INF, -2.0, -1.0, -0.5, 0.0, -0.0, 0.25, 0.5, 0.75, INF])
    np.testing.assert_array_equal((one & other).passes(x), one.passes(x) & other.passes(x))


def test_values_that_pass() -> None:
    x = np.array([NAN, 0.0, 1.0, 2.0])
    assert age(low=0.5, high=1.0, missing=True).passes(x).tolist() == [True, False, True, False]
    assert city("Oslo", missing=True).passes(x).tolist() == [True, False, True, False]
    assert of_open("Bonn", others=True).passes(x).tolist() == [False, True, False, True]
    assert age(low=1.0, zero=True).passes(x).tolist() == [False, True, False, True]


def test_float32_values_are_compared_exactly() -> None:
    x = np.array([0.1], np.float32)  # above 0.1
    assert not age(high=0.1).passes(x).any() and age(low=0.1).passes(x).all()


def test_among_leaves_out_what_cannot_reach_a_split() -> None:
    path = {1: city("Oslo", "Rome")}
    assert str(city("Bonn", "Oslo", "Paris", missing=True).among(path)) == "city in {Oslo}"
    assert str(city("Rome", "Bonn").among(path)) == "city in {Rome}"
    assert str(age(high=3.0, missing=True).among({0: age(high=9.0)})) == "age <= 3"
    assert age(high=3.0, missing=True).among(path) == age(high=3.0, missing=True)
