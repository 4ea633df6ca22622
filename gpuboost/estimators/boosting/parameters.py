"""Parameters of gradient boosting, checked once and converted for the engine."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from gpuboost.data.advice import warn_user
from gpuboost.data.frames import FeatureSchema
from gpuboost.data.parameters import (
    fraction,
    integer_at_least,
    integer_between,
    number_between,
    one_of,
)
from gpuboost.engine.bins import BinMapper
from gpuboost.engine.criteria import NEWTON, VARIANCE
from gpuboost.engine.losses import Loss
from gpuboost.engine.task import NO_LIMIT, ONE_HOT_CATEGORIES, Regularisation, TreeOptions
from gpuboost.estimators.inputs.constraints import interaction_groups, regularisation
from gpuboost.estimators.inputs.parameters import feature_count, tree_limits

MULTI_STRATEGIES = ("auto", "one_output_per_tree", "multi_output_tree")
IMPORTANCES = ("gain", "count")
BOOSTING_CRITERIA = ("deprecated", "friedman_mse", "squared_error")
# With min_samples_category='auto', a category is rare if it has fewer than CATEGORY_ROWS rows or,
# if hessians are Fisher information, if the hessians of its rows before the first round sum to less
# than CATEGORY_HESSIAN (measurements: benchmarks/NOTES.md). In a small table, this could make all
# categories rare, so a category with at least a fraction CATEGORY_SHARE of the rows is never rare.
CATEGORY_ROWS, CATEGORY_HESSIAN, CATEGORY_SHARE = 20, 5.0, 0.01


@dataclass(frozen=True)
class FeatureCounts:
    """Numbers of candidate features of a tree, of a level of the tree, and of a node."""

    tree: int
    level: int
    node: int

    @classmethod
    def of(cls, estimator: Any, n_features: int) -> FeatureCounts:
        """The counts that an estimator's parameters ask for.

        Fractions refer to all features for a tree, to the features of the tree for a level, and to
        the features of the level for a node.
        """
        tree = feature_count(estimator.max_features_per_tree, n_features)
        level = feature_count(estimator.max_features_per_level, tree)
        return cls(tree, level, feature_count(estimator.max_features, level))


def boosting_options(
    estimator: Any, n_samples: int, schema: FeatureSchema, loss: Loss
) -> TreeOptions:
    """Options of the trees; regularisation is in the units of the loss."""
    check_criterion(estimator)
    one_of("importance_type", estimator.importance_type, IMPORTANCES)
    counts = FeatureCounts.of(estimator, schema.n_features)
    regular = regularisation(estimator, schema, loss)
    return TreeOptions(
        criterion=VARIANCE if regular == Regularisation() else NEWTON,
        **tree_limits(estimator, n_samples, counts.level),
        level_features=counts.level if counts.level < counts.tree else NO_LIMIT,
        interactions=interaction_groups(estimator.interaction_cst, schema),
        hashed_order=counts.node < counts.level,
        needs_gain=True,
        regularisation=regular,
    )


def category_fraction(
    estimator: Any, mapper: BinMapper, n_rows: float, information: float
) -> float:
    """Fraction of a tree's hessian below which a category is rare; 0.0 without sorted categories.

    Parameters
    ----------
    estimator : object
        Has the attribute ``min_samples_category``.
    mapper : BinMapper
        Bins of the features; only categorical features with more than ``ONE_HOT_CATEGORIES``
        categories are sorted.
    n_rows : float
        Expected number of rows with positive weight in a tree.
    information : float
        Mean hessian of a row before the first round; 1.0 if hessians are not Fisher information
        (`baseline.information_of_row`).

    Raises
    ------
    ValueError or TypeError
        If ``min_samples_category`` is out of range or of a wrong type.
    """
    minimum = estimator.min_samples_category
    if isinstance(minimum, str) and minimum == "auto":
        rows = max(CATEGORY_ROWS, CATEGORY_HESSIAN / max(information, CATEGORY_HESSIAN * 1e-9))
        share = min(CATEGORY_SHARE, rows / max(n_rows, 1.0))
    elif isinstance(minimum, Integral) and not isinstance(minimum, bool) and int(minimum) >= 0:
        share = min(1.0, int(minimum) / max(n_rows, 1.0))
        share = math.nextafter(share, 0.0)  # so that share * n_rows does not exceed ``minimum``
    elif (
        isinstance(minimum, Real)
        and not isinstance(minimum, Integral)
        and 0.0 <= float(minimum) < 1.0
    ):
        share = float(minimum)
    else:
        kind = ValueError if isinstance(minimum, Real) else TypeError
        raise kind(
            'min_samples_category must be "auto", an integer of at least 0, or a number in '
            f"[0.0, 1.0), a fraction of the rows; got {minimum!r}"
        )
    is_sorted = mapper.is_categorical & (mapper.n_bins > ONE_HOT_CATEGORIES)
    return share if is_sorted.any() else 0.0


def check_criterion(estimator: Any) -> None:
    """Check ``criterion``; if it was set, warn that it has no effect."""
    if estimator.criterion != "deprecated":
        one_of("criterion", estimator.criterion, BOOSTING_CRITERIA)
        warn_user(
            f"criterion={estimator.criterion!r} is deprecated in scikit-learn and has no effect: "
            "splits are chosen by the gain of a Newton step; leave it at its default",
            FutureWarning,
        )


def sums_outputs(estimator: Any, loss: Loss) -> bool:
    """Whether each round grows one tree whose leaves hold several columns; False for one column.

    Raises
    ------
    ValueError
        If ``multi_strategy`` is unknown, or asks for such trees with a loss that does not allow
        them.
    """
    strategy = one_of("multi_strategy", estimator.multi_strategy, MULTI_STRATEGIES)
    if loss.columns == 1 or strategy == "one_output_per_tree":
        return False
    if strategy == "auto":
        return loss.facts.sums_outputs and not loss.is_classifier
    if not loss.facts.sums_outputs:
        raise ValueError(
            f"multi_strategy='multi_output_tree' was given with loss={loss.facts.name!r}, whose "
            "outputs cannot share a tree; use 'one_output_per_tree'"
        )
    return True


def learning_rates(given: Any) -> Callable[[int], float]:
    """Function of the number of a round, from 0, that returns its learning rate.

    ``given`` is a constant or the user's function of that number. Rates must be at least 0.
    """
    if not callable(given):
        rate = number_between("learning_rate", given, 0.0)
        return lambda number: rate
    return lambda number: number_between(f"learning_rate({number})", given(number), 0.0)


def rows_of_round(subsample: Any, n_samples: int) -> int:
    """Number of rows drawn for a round."""
    return max(1, int(fraction("subsample", subsample) * n_samples))


def patience(n_iter_no_change: Any) -> int | None:
    """Number of rounds without improvement that end a fit; None means no early stopping."""
    if n_iter_no_change is None:
        return None
    return integer_at_least("n_iter_no_change", n_iter_no_change, 1)


def rounds_to_use(n_rounds: Any, n_fitted: int, best: int | None) -> int:
    """Number of rounds that predict, by the ``n_rounds`` of `predict`; ``best`` is a round."""
    if n_rounds is None:
        return n_fitted
    if isinstance(n_rounds, str) and n_rounds == "best":
        if best is None:
            raise ValueError(
                "n_rounds='best' needs a fit with early stopping; set n_iter_no_change, or pass a "
                "number of rounds"
            )
        return int(best) + 1
    return integer_between("n_rounds", n_rounds, 1, n_fitted)
