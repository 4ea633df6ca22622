"""The compiled criteria of `engine.criteria`, and the functions that choose one by its number.

Hot loops have VARIANCE and NEWTON built in; the other criteria are chosen here.
"""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuboost.backends.numba.common.records import HESSIAN
from gpuboost.backends.numba.compiler import by_number, criteria, helper
from gpuboost.engine.criteria import CRITERIA, VARIANCE, Criterion


def by_criterion(make: Callable[..., Any]) -> Any:
    """A compiled function whose first argument is the number of a criterion, not VARIANCE.

    ``make(add, score, criterion)`` makes the function of one criterion from its compiled functions.
    """
    return by_number({row.number: _made(make, row) for row in CRITERIA.values() if _is_chosen(row)})


def _is_chosen(row: Criterion) -> bool:
    """Whether a criterion is scored channel by channel, and not by the loops for VARIANCE."""
    return row.add is not None and row.number != VARIANCE


def _made(make: Callable[..., Any], row: Criterion) -> Any:
    assert row.add is not None and row.score is not None
    return make(getattr(criteria, row.add.__name__), getattr(criteria, row.score.__name__), row)


def _add_channel(add: Any, score: Any, row: Criterion) -> Any:
    """Make the function that adds the terms of one channel to those of a range of candidates.

    ``channel``: row of its sums, its sum at the node, the node's hessian, and whether it is the
    only channel (an output, or the second of two classes). ``extra``: gradient and hessian of
    missing values that also go left.
    """
    both_classes = row.both_classes

    @helper
    def add_channel(scratch, channel, positions, extra):
        sums, terms, (gradient, g, h, is_only) = scratch.sums, scratch.terms, channel
        for j in range(positions[0], positions[1]):
            gl = np.float64(sums[gradient, j] + extra[0])
            hl = np.float64(sums[HESSIAN, j] + extra[1])
            own = (terms[0, j], terms[1, j], terms[2, j])
            if both_classes and is_only:
                own = add(own, hl - gl, h - g, hl, h)
            terms[0, j], terms[1, j], terms[2, j] = add(own, gl, g, hl, h)

    return add_channel


def _scores_of_terms(add: Any, score: Any, row: Criterion) -> Any:
    """Make the function for scores of a range of candidates from the terms of all channels."""

    @helper
    def scores_of_terms(scratch, h, positions, extra_hessian):
        terms = scratch.terms
        for j in range(positions[0], positions[1]):
            hl = np.float64(scratch.sums[HESSIAN, j] + extra_hessian)
            scratch.scores[j] = score((terms[0, j], terms[1, j], terms[2, j]), hl, h)

    return scores_of_terms


add_channel, scores_of_terms = by_criterion(_add_channel), by_criterion(_scores_of_terms)
