"""Constraints on trees: monotonic features, interaction groups, and regularised leaf values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import combinations
from numbers import Integral
from typing import Any, NoReturn

from gpuboost.data.frames import FeatureSchema
from gpuboost.data.parameters import number_between, one_of
from gpuboost.engine.criteria import ABSOLUTE, ENTROPY, NEWTON, POISSON, VARIANCE
from gpuboost.engine.losses import Loss
from gpuboost.engine.task import Regularisation, TreeOptions
from gpuboost.estimators.inputs.targets import AnyLabels

INTERACTIONS = ("pairwise", "no_interactions")
_OF_FEATURES = {  # how errors about features begin
    "interaction_cst": "Interaction constraints must consist of",
    "monotonic_cst": "The keys of monotonic_cst must consist of",
}
# Criteria whose splits ignore monotonic constraints: the values of nodes are clipped after growth.
CLIPPED_AFTER_GROWTH = (ENTROPY, POISSON, ABSOLUTE)


def with_constraints(
    options: TreeOptions, tree: Any, schema: FeatureSchema, labels: AnyLabels
) -> TreeOptions:
    """Options of a tree with the user's monotonic constraints, if any, on its leaf values."""
    given = tree.monotonic_cst
    if given is not None and labels.n_outputs > 1:
        _refuse_several(given, "multiple outputs")
    directions = monotonic_directions(given, schema)
    if directions is None:
        return options
    if labels.n_columns > 1:
        _refuse_several(given, "multiclass classification")
    if options.criterion not in (VARIANCE, *CLIPPED_AFTER_GROWTH):
        raise ValueError(
            f"monotonic_cst={given!r:.80} needs criterion 'gini', 'entropy' or 'log_loss' in a "
            "classifier; pass one of these, or monotonic_cst=None"
        )
    # NEWTON chooses the splits of VARIANCE among those that keep the order.
    criterion = NEWTON if options.criterion == VARIANCE else options.criterion
    regular = Regularisation(monotonic=directions)
    return replace(options, criterion=criterion, regularisation=regular)


def _refuse_several(given: Any, what: str) -> NoReturn:
    """Raise the error of monotonic constraints with several classes or outputs."""
    raise ValueError(
        f"Monotonicity constraints are not supported with {what}: fit one model for each class or "
        f"output, or pass None in place of monotonic_cst={given!r:.80}"
    )


def regularisation(estimator: Any, schema: FeatureSchema, loss: Loss) -> Regularisation:
    """Penalties, limits and monotonic constraints of the leaf values of boosting."""
    largest = float("inf")
    if estimator.max_delta_step is not None:
        largest = number_between(
            "max_delta_step", estimator.max_delta_step, 0.0, low_included=False
        )
    directions = monotonic_directions(estimator.monotonic_cst, schema)
    if directions is not None and loss.columns > 1:
        raise ValueError(
            f"monotonic_cst={estimator.monotonic_cst!r:.80} was given with {loss.columns} raw "
            "predictions per row (classes, outputs or quantiles), for which it is not supported: "
            "fit one model for each, or pass monotonic_cst=None"
        )
    return Regularisation(
        l1=number_between("l1_regularization", estimator.l1_regularization, 0.0),
        l2=number_between("l2_regularization", estimator.l2_regularization, 0.0),
        max_value=largest,
        monotonic=directions,
    )


def monotonic_directions(given: Any, schema: FeatureSchema) -> tuple[int, ...] | None:
    """The direction of each feature; None if no feature is constrained.

    It is 1 if predictions must increase with the feature, -1 if they must decrease, 0 without a
    constraint.
    """
    if given is None:
        return None
    if isinstance(given, Mapping):
        by_feature = {_feature(f, "monotonic_cst", schema): sign for f, sign in given.items()}
        directions = [by_feature.get(f, 0) for f in range(schema.n_features)]
    else:
        directions = list(given)
    if len(directions) != schema.n_features:
        raise ValueError(
            f"monotonic_cst has shape {len(directions)} but the input data X has "
            f"{schema.n_features} features. Pass -1, 0 or 1 for each feature, or a dict that maps "
            "names or indices of features to these"
        )
    if not set(directions) <= {-1, 0, 1}:
        raise ValueError(
            "monotonic_cst must be None or an array-like of -1, 0 or 1. It can also be a dict that "
            f"maps names or indices of features to these; got {given!r:.120}"
        )
    bad = [f for f, d in enumerate(directions) if d and schema.is_categorical[f]]
    if bad:
        raise ValueError(
            "Categorical features cannot have monotonic constraints, since categories have no "
            f"order. monotonic_cst constrains the categorical features {bad}; pass 0 for them"
        )
    return tuple(map(int, directions)) if any(directions) else None


def interaction_groups(given: Any, schema: FeatureSchema) -> tuple[tuple[int, ...], ...] | None:
    """Groups of features that can share a path, or None without this constraint.

    Features in no group form one more group.
    """
    n = schema.n_features
    if given is None:
        return None
    if isinstance(given, str):
        one_of("interaction_cst", given, INTERACTIONS)
        size = 1 if given == "no_interactions" else min(2, n)
        return tuple(combinations(range(n), size))
    if not isinstance(given, Iterable) or not all(
        isinstance(group, Iterable) and not isinstance(group, str) for group in given
    ):
        raise ValueError(
            "Interaction constraints must be a sequence of tuples or lists or sets of features, or "
            f"'pairwise' or 'no_interactions'. Got interaction_cst={given!r:.120}"
        )
    wanted = ({_feature(f, "interaction_cst", schema) for f in group} for group in given)
    groups = [tuple(sorted(group)) for group in wanted]
    rest = tuple(sorted(set(range(n)) - {f for group in groups for f in group}))
    return (*groups, rest) if rest else tuple(groups)


def _feature(given: Any, parameter: str, schema: FeatureSchema) -> int:
    """Index of a feature that a parameter gives by name or index."""
    if isinstance(given, str):
        names = [] if schema.names is None else list(schema.names)
        if given not in names:
            have = f"has the names {names!r:.120}" if names else "has no feature names"
            raise ValueError(
                f"{parameter} names {[given]!r:.120}, but X {have}; use those names, or indices"
            )
        return names.index(given)
    if not isinstance(given, Integral) or int(given) not in range(schema.n_features):
        raise ValueError(
            f"{_OF_FEATURES[parameter]} integer indices in [0, n_features - 1] = "
            f"[0, {schema.n_features - 1}], specifying the position of features, or of their "
            f"names, got {given!r} in {parameter}"
        )
    return int(given)
