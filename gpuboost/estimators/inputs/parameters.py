"""Parameters of an estimator, checked once and converted for the engine.

The estimators' classes define names and defaults, and check a few parameters of their own.
Parameters of trees, of draws and of the execution are checked here, with `data.parameters`.
Constraints are checked in `inputs.constraints`, parameters of boosting in `boosting.parameters`,
categorical features and class weights in `data`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from gpuboost.data.advice import warn_user
from gpuboost.data.parameters import (
    fraction,
    integer_at_least,
    integer_between,
    number_between,
    one_of,
    thread_count,
)
from gpuboost.engine.bins import MAX_BINS
from gpuboost.engine.criteria import CRITERIA
from gpuboost.engine.fixed_point import total_of
from gpuboost.engine.task import NO_LIMIT, TreeOptions

CLASS_CRITERIA = {name: row.number for row in CRITERIA.values() for name in row.class_names}
VALUE_CRITERIA = {name: row.number for row in CRITERIA.values() for name in row.value_names}
MAX_DRAWS = 2**31 - 1  # draws are counted with int32
MANY_DRAWS = 10  # draws per row of X above which there is a warning
SPLITTERS = {"best": False, "random": True}


@dataclass(frozen=True)
class Execution:
    """Device, threads and verbosity of a fit; none of them changes the model."""

    device: str
    n_threads: int
    verbose: int


def execution_of(estimator: Any) -> Execution:
    """The execution parameters of an estimator."""
    given = getattr(estimator, "verbose", 0)
    number = int(given) if isinstance(given, (bool, np.bool_)) else given
    verbose = integer_at_least("verbose", number, 0)
    return Execution(estimator.device, thread_count(estimator.n_jobs), verbose)


def draw_seed(random_state: Any, before: Any = None) -> int:
    """The seed of a fit, from 0 to 2**32 - 1.

    A warm start keeps the last seed of the model ``before`` unless ``random_state`` is an integer.
    """
    if before is not None and not isinstance(random_state, (int, np.integer)):
        return before.batches[-1].sampler.seed
    wrong = (
        "random_state must be an integer from 0 to 2**32 - 1, a numpy.random.RandomState or "
        f"None, got {random_state!r}"
    )
    if isinstance(random_state, (bool, np.bool_)):
        raise TypeError(wrong)
    if isinstance(random_state, Integral):
        return integer_between("random_state", random_state, 0, 2**32 - 1)
    try:
        return int(check_random_state(random_state).randint(2**32, dtype=np.uint64))
    except ValueError:
        raise ValueError(wrong) from None


def bin_limit(max_bins: Any) -> int:
    """Maximum number of bins per feature, without the bin of missing values."""
    return integer_between("max_bins", max_bins, 2, MAX_BINS)


def tree_options(
    tree: Any, n_samples: int, n_features: int, criteria: Mapping[str, int]
) -> TreeOptions:
    """Options of a tree.

    Parameters
    ----------
    tree : object with the parameters of a tree as attributes
    n_samples, n_features : int
        Numbers of all rows and of the tree's candidate features, to which fractions refer. A
        feature that is drawn several times for the tree counts as often.
    criteria : mapping of str to int
        Numbers of the criteria, the keys of `engine.criteria.CRITERIA`, by the names for users.
    """
    return TreeOptions(
        criterion=criterion_number(tree.criterion, criteria),
        random_thresholds=SPLITTERS[one_of("splitter", tree.splitter, SPLITTERS)],
        **tree_limits(tree, n_samples, n_features),
    )


def tree_limits(tree: Any, n_samples: int, n_features: int) -> dict[str, Any]:
    """The options that limit the size of a tree and the candidate features of its nodes."""
    leaf = _rows(tree, "min_samples_leaf", 1, n_samples)
    split = max(2, _rows(tree, "min_samples_split", 2, n_samples))
    minimum = number_between("min_weight_fraction_leaf", tree.min_weight_fraction_leaf, 0.0, 0.5)
    decrease = number_between("min_impurity_decrease", tree.min_impurity_decrease, 0.0)
    return {
        "max_depth": _limit(tree, "max_depth", 1),
        "min_samples_split": split,
        "min_samples_leaf": leaf,
        "min_weight_fraction_leaf": minimum,
        "min_impurity_decrease": decrease,
        "max_features": feature_count(tree.max_features, n_features),
        "max_leaf_nodes": _limit(tree, "max_leaf_nodes", 2),
        "ccp_alpha": number_between("ccp_alpha", tree.ccp_alpha, 0.0),
    }


def criterion_number(criterion: Any, criteria: Mapping[str, int]) -> int:
    """The engine's number of a criterion."""
    if criterion == "friedman_mse" and criteria is VALUE_CRITERIA:
        criterion = without_friedman(criterion)
    return criteria[one_of("criterion", criterion, criteria)]


def without_friedman(criterion: Any) -> Any:
    """'squared_error' in place of 'friedman_mse', with scikit-learn's warning; else unchanged."""
    if not (isinstance(criterion, str) and criterion == "friedman_mse"):
        return criterion
    warn_user(
        "criterion='friedman_mse' chooses the same splits as 'squared_error' and is deprecated in "
        "scikit-learn; pass criterion='squared_error' to silence this warning",
        FutureWarning,
    )
    return "squared_error"


def feature_count(max_features: Any, n_features: int) -> int:
    """Number of features to draw from ``n_features``: at least 1, and at most all of them."""
    if max_features is None:
        return n_features
    roots = {"sqrt": math.isqrt(n_features), "log2": n_features.bit_length() - 1}
    if isinstance(max_features, str) and max_features in roots:
        return max(1, roots[max_features])
    allowed = "an integer of at least 1, a float in (0, 1], 'sqrt', 'log2' or None (all features)"
    return min(whole_or_share("max_features", max_features, n_features, allowed), n_features)


def whole_or_share(name: str, value: Any, total: int, allowed: str) -> int:
    """A count given as an integer of at least 1 or as a fraction in (0, 1] of ``total``.

    Fractions are rounded down, but to at least 1. ``allowed`` is for the error message.
    """
    message = f"{name} must be {allowed}, got {value!r}"
    if isinstance(value, (str, bool, np.bool_)) or not isinstance(value, Real):
        raise (ValueError if isinstance(value, str) else TypeError)(message)
    number = int(value) if isinstance(value, Integral) else float(value)
    if not (number >= 1 if isinstance(number, int) else 0.0 < number <= 1.0):
        raise ValueError(message)
    return number if isinstance(number, int) else max(1, int(number * total))


def _rows(tree: Any, name: str, minimum: int, n_samples: int) -> int:
    """A number of rows given as an integer or as a fraction of all rows, which is rounded up."""
    value = getattr(tree, name)
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if name == "min_samples_split" and is_whole and value < minimum:
        raise ValueError(
            f"The {name!r} parameter must be an int in the range [2, inf) or a float in the range "
            f"(0.0, 1.0], a fraction of the rows; got {value!r}"
        )
    if isinstance(value, Real) and not isinstance(value, (Integral, bool)):
        return math.ceil(fraction(name, value, one=name == "min_samples_split") * n_samples)
    if value is None or isinstance(value, str):
        raise TypeError(
            f"{name} must be an integer of at least {minimum} or a float that is a fraction of the "
            f"rows, got {value!r}"
        )
    return min(integer_at_least(name, value, minimum), NO_LIMIT // 2)


def _limit(tree: Any, name: str, minimum: int) -> int:
    """A limit; None means no limit."""
    value = getattr(tree, name)
    return NO_LIMIT if value is None else min(integer_at_least(name, value, minimum), NO_LIMIT)


def draw_count(
    max_samples: Any, n_samples: int, weights: np.ndarray | None, maximum: float = math.inf
) -> int:
    """Number of rows drawn for a tree; warns if a float draws surprisingly few or many rows.

    Parameters
    ----------
    max_samples : None, int or float
        None means the number of rows, an int is the number itself, and a float is a fraction of
        the number of rows or, with weights, of the sum of the weights. The product is rounded down,
        but to at least 1.
    maximum : float
        Largest float that is allowed for ``max_samples``.
    """
    if max_samples is None:
        return n_samples
    if isinstance(max_samples, Integral):
        return integer_between("max_samples", max_samples, 1, MAX_DRAWS)
    share = number_between("max_samples", max_samples, 0.0, maximum, low_included=False)
    total = n_samples if weights is None else total_of(weights)
    of = f"{n_samples} rows" if weights is None else f"a sum of weights of {total:g}"
    if share * total > MAX_DRAWS:
        raise ValueError(
            f"max_samples={max_samples!r} of {of} draws {share * total:.3g} rows for each tree, "
            f"more than {MAX_DRAWS} (2**31 - 1); lower it, or pass an integer to say how many"
        )
    drawn = max(int(share * total), 1)
    if drawn < max(10, n_samples ** (1 / 3)):
        when = (
            f"there are {of}" if weights is None else f"the total sum of sample weights is {total}"
        )
        warn_user(
            f"Using the fractional value max_samples={max_samples!r} when {when} results in a low "
            f"number ({drawn}) of bootstrap samples. We recommend passing `max_samples` as an "
            "integer."
        )
    elif drawn > MANY_DRAWS * n_samples:
        warn_user(
            f"max_samples={max_samples!r} of {of} draws {drawn} rows for each tree from "
            f"{n_samples}; pass max_samples as an integer to say how many"
        )
    return drawn
