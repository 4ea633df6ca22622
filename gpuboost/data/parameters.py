"""Checks of single parameters, which return the value or raise an error with the allowed values."""

from __future__ import annotations

import math
import os
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np
from joblib import cpu_count, effective_n_jobs


def one_of(name: str, value: Any, allowed: Collection[Any]) -> Any:
    """Return `value` if it is one of `allowed`; a NumPy string becomes a str."""
    value = str(value) if isinstance(value, str) else value
    for choice in allowed:
        if type(choice) is type(value) and choice == value:
            return value
    choices = ", ".join(repr(choice) for choice in allowed)
    raise ValueError(f"{name} must be one of {choices}, got {value!r}")


def boolean(name: str, value: Any) -> bool:
    """Return `value` as bool if it is a Python or NumPy bool."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise TypeError(f"{name} must be True or False, got {value!r}")


def integer_between(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return `value` as int if it is an integer from `low` to `high`, both included."""
    allowed = (
        f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
    )
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be {allowed}, got {value!r} of type {type(value).__name__}")
    number = int(value)
    if number < low or (high is not None and number > high):
        raise ValueError(f"{name} must be {allowed}, got {value}")
    return number


def integer_at_least(name: str, value: Any, low: int) -> int:
    """Return `value` as int if it is an integer of at least `low`."""
    return integer_between(name, value, low)


def number_between(
    name: str,
    value: Any,
    low: float,
    high: float = math.inf,
    *,
    low_included: bool = True,
    high_included: bool = True,
) -> float:
    """Return `value` as float if it is a finite number between `low` and `high`.

    `low_included` and `high_included` say whether `low` and `high` themselves are allowed.
    """
    allowed = f"a number {'>=' if low_included else '>'} {low}"
    if high < math.inf:
        allowed += f" and {'<=' if high_included else '<'} {high}"
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be {allowed}, got {value!r} of type {type(value).__name__}")
    number = float(value)
    above = number >= low if low_included else number > low
    below = number <= high if high_included else number < high
    if not (above and below and math.isfinite(number)):
        raise ValueError(f"{name} must be {allowed}, got {value}")
    return number


def fraction(name: str, value: Any, *, one: bool = True) -> float:
    """Return `value` as float if it is above 0 and below 1, or equal to 1 and `one` is true."""
    return number_between(name, value, 0.0, 1.0, low_included=False, high_included=one)


def thread_count(n_jobs: Any, at_most: int | None = None) -> int:
    """Return the number of threads that `n_jobs` stands for; below 0 as in joblib (-1 means all).

    If `at_most` is 1, the processors are not counted, which takes 50 microseconds.

    None means all processors that the process can use, but at most ``OMP_NUM_THREADS``. joblib sets
    this variable in its worker processes, so a grid search over several processes does not start
    more threads than there are processors.
    """
    if n_jobs is not None:
        if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool):
            raise TypeError(f"n_jobs must be None or an integer, got {n_jobs!r}")
        if n_jobs == 0:
            raise ValueError("n_jobs must not be 0; use 1 for one thread and -1 for all processors")
    if at_most == 1:
        return 1
    count = _processors() if n_jobs is None else int(effective_n_jobs(n_jobs))
    return count if at_most is None else min(count, at_most)


def _processors() -> int:
    """Number of processors that the process can use, but at most ``OMP_NUM_THREADS``."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    processors = int(cpu_count())
    return min(processors, int(limit)) if limit.isdigit() and int(limit) > 0 else processors
