"""The criteria of `engine.criteria` compiled, and the one place that chooses among them by number.

Hot loops know VARIANCE and NEWTON by themselves; all others are chosen here.
"""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuboost.backends.numba.compiler import by_number, criteria, helper
from gpuboost.engine.criteria import CRITERIA, VARIANCE, Criterion


def by_criterion(make: Callable[..., Any]) -> Any:
    """A compiled function that is told the number of a criterion first, other than VARIANCE.

    ``make(add, score, criterion)`` makes the function of one criterion from its compiled ones.
    """
    return by_number({row.number: _made(make, row) for row in CRITERIA.values() if _is_chosen(row)})


def _is_chosen(row: Criterion) -> bool:
    """Whether splits are scored channel by channel, and not by the loops of VARIANCE."""
    return row.add is not None and row.number != VARIANCE


def _made(make: Callable[..., Any], row: Criterion) -> Any:
    assert row.add is not None and row.score is not None
    return make(getattr(criteria, row.add.__name__), getattr(criteria, row.score.__name__), row)


def _score_of_one(add: Any, score: Any, row: Criterion) -> Any:
    """Score of a split by one channel: an output, or the second of two classes."""
    both_classes = row.both_classes

    @helper
    def score_of_one(gl, hl, g, h):
        sums = (0.0, 0.0, 0.0)
        if both_classes:
            sums = add(sums, hl - gl, h - g, hl, h)
        return score(add(sums, gl, g, hl, h), hl, h)

    return score_of_one


def _add_channel(add: Any, score: Any, row: Criterion) -> Any:
    """Add one channel to the sums of the first ``m`` splits.

    ``left``, ``left_hessian``: on the left, without ``missing`` (gradient, hessian), which go left
    as well.
    """

    @helper
    def add_channel(left, left_hessian, sums, m, node, missing):
        g, h = node
        for j in range(m):
            gl = np.float64(left[j] + missing[0])
            hl = np.float64(left_hessian[j] + missing[1])
            before = (sums[0, j], sums[1, j], sums[2, j])
            sums[0, j], sums[1, j], sums[2, j] = add(before, gl, g, hl, h)

    return add_channel


def _score(add: Any, score: Any, row: Criterion) -> Any:
    """Score of a split from the sums of its channels."""

    @helper
    def score_of_sums(sums, hl, h):
        return score(sums, hl, h)

    return score_of_sums


score_of_one, add_channel = by_criterion(_score_of_one), by_criterion(_add_channel)
score_of_sums = by_criterion(_score)
