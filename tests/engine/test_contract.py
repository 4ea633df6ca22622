"""The NumPy backend matches the naive implementation of the contract."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from gpuboost.backends.numpy.backend import NumpyBackend
from gpuboost.engine.criteria import CRITERIA
from tests.engine.exact import assert_same_fields
from tests.engine.harness import Problem
from tests.engine.naive import NaiveBackend
from tests.engine.strategies import (
    FOR_BOOSTING,
    FOR_CLASSES,
    FOR_COUNTS,
    FOR_MEDIANS,
    FOR_VALUES,
    boosting_problems,
    median_problems,
    problems,
)


def test_problems_are_drawn_for_every_criterion() -> None:
    drawn = (*FOR_CLASSES, *FOR_COUNTS, *FOR_VALUES, *FOR_MEDIANS, *FOR_BOOSTING)
    assert set(drawn) == set(CRITERIA)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(problems(max_rows=40))
def test_numpy_grows_trees_as_the_contract_says(problem: Problem) -> None:
    check_contract(problem)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(boosting_problems(max_rows=40))
def test_numpy_grows_boosting_rounds_as_the_contract_says(problem: Problem) -> None:
    check_contract(problem)


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(median_problems(max_rows=40))
def test_numpy_grows_median_trees_as_the_contract_says(problem: Problem) -> None:
    check_contract(problem)


def check_contract(problem: Problem) -> None:
    _, matrix, sampler, target = problem.prepare()
    task = problem.task(matrix, sampler, target)
    pairs = zip(NumpyBackend().grow(task), NaiveBackend().grow(task), strict=True)
    for (_, found), (_, expected) in pairs:
        assert_same_fields(found, expected, "grown tree")
