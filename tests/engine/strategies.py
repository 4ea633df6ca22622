"""Hypothesis strategies that draw engine problems of every kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from gpuboost.engine.criteria import ABSOLUTE, CRITERIA, NEWTON, VARIANCE
from gpuboost.engine.task import NO_LIMIT, Regularisation, TreeOptions
from tests.engine.harness import (
    COLUMN_KINDS,
    TARGET_KINDS,
    Problem,
    make_columns,
    make_target,
    make_weights,
)

LEVELS = (2, 4, 7, 40)  # of categorical columns, below and above ONE_HOT_CATEGORIES
# Criteria of trees for classes, for targets of at least 0, and for real-valued targets.
FOR_CLASSES = tuple(row.number for row in CRITERIA.values() if row.class_names)
FOR_COUNTS = tuple(row.number for row in CRITERIA.values() if row.value_names and row.counts)
FOR_VALUES = tuple(
    row.number
    for row in CRITERIA.values()
    if row.value_names and not row.counts and not row.by_median
)
FOR_MEDIANS, FOR_BOOSTING = (ABSOLUTE,), (VARIANCE, NEWTON)


@st.composite
def tree_options(draw: st.DrawFn, classification: bool, target_kind: str) -> TreeOptions:
    """Draw tree options, most of them at their defaults."""
    scores = FOR_CLASSES if classification else FOR_VALUES
    if target_kind in ("counts", "amounts"):
        scores = (*FOR_COUNTS, *FOR_COUNTS, *FOR_VALUES)
    return TreeOptions(
        criterion=draw(st.sampled_from(scores)),
        random_thresholds=draw(st.booleans()),
        max_depth=draw(st.sampled_from((NO_LIMIT, NO_LIMIT, 0, 1, 4))),
        min_samples_split=draw(st.sampled_from((2, 2, 9))),
        min_samples_leaf=draw(st.sampled_from((1, 1, 3))),
        min_weight_fraction_leaf=draw(st.sampled_from((0.0, 0.0, 0.05))),
        min_impurity_decrease=draw(st.sampled_from((0.0, 0.0, 0.01))),
        max_features=draw(st.sampled_from((NO_LIMIT, 1, 2))),
        max_leaf_nodes=draw(st.sampled_from((NO_LIMIT, NO_LIMIT, 2, 6))),
    )


@st.composite
def problems(draw: st.DrawFn, max_rows: int = 250) -> Problem:
    """Draw a problem: columns, target, weights, sampling, options and seed."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    n = draw(st.integers(1, max_rows))
    shape = draw(st.sampled_from(("any", "any", "large", "wide")))
    if max_rows >= 200 and shape != "any":  # histograms by subtraction; all 256 codes
        n = draw(st.integers(300, 700))
    kinds = draw(st.lists(st.sampled_from(COLUMN_KINDS), min_size=1, max_size=5))
    kinds = ["normal", *kinds] if shape == "wide" else kinds
    X = make_columns(rng, n, kinds, draw(st.sampled_from((np.float32, np.float64))))
    target_kind = draw(st.sampled_from(TARGET_KINDS))
    y, classification = make_target(rng, X, target_kind)
    is_categorical = np.zeros(len(kinds), dtype=bool)
    if draw(st.booleans()):
        is_categorical[-1] = True
        X[:, -1] = rng.integers(0, draw(st.sampled_from(LEVELS)), n)
    if draw(st.booleans()):
        X[rng.random(X.shape) < 0.2] = np.nan
    method = draw(st.sampled_from(("all", "bootstrap", "subset")))
    weights = make_weights(rng, n, draw(st.sampled_from(("none", "integers", "real"))))
    if method == "subset" and weights is not None and (weights > 0).sum() < max(1, n // 2):
        weights = None
    return Problem(
        X,
        y,
        classification,
        weights,
        method,
        balance=classification and draw(st.booleans()),
        is_categorical=is_categorical,
        max_bins=6 if shape == "large" else draw(st.sampled_from((255, 255, 2, 16))),
        tree_features=draw(st.sampled_from((None, None, 1))),
        seed=seed,
        options=draw(tree_options(classification, target_kind)),
    )


@st.composite
def median_problems(draw: st.DrawFn, max_rows: int = 250) -> Problem:
    """Draw a problem of medians, with distinct targets or with many rows at the median."""
    base = draw(problems(max_rows=max_rows))
    y = base.y.astype(np.float64)
    if draw(st.booleans()):
        y = np.rint(np.clip(y, -50.0, 50.0) * draw(st.sampled_from((0.5, 3.0))))
    options = replace(
        base.options, criterion=VARIANCE, needs_gain=draw(st.sampled_from((False, True)))
    )
    return replace(
        base,
        y=y,
        classification=False,
        balance=False,
        by_median=True,
        options=replace(options, min_impurity_decrease=0.0),
    )


@st.composite
def boosting_problems(draw: st.DrawFn, max_rows: int = 250) -> Problem:
    """Draw a round of boosting, with or without regularisation and constraints."""
    base = draw(problems(max_rows=max_rows))
    n_features = base.X.shape[1]
    newton = draw(st.booleans())
    groups = st.lists(st.integers(0, n_features - 1), min_size=1, max_size=3).map(tuple)
    categorical = base.is_categorical
    assert categorical is not None
    one_output = base.y.ndim == 1
    directions = st.sampled_from((-1, 0, 1))
    monotonic = None
    if newton and one_output and draw(st.booleans()):
        monotonic = tuple(0 if c else draw(directions) for c in categorical)
    regularisation = Regularisation(
        l1=draw(st.sampled_from((0.0, 0.0, 2.0**22))),
        l2=draw(st.sampled_from((0.0, 1.0, 2.0**14))),
        max_value=draw(st.sampled_from((np.inf, np.inf, 2.0**7))),
        monotonic=monotonic,
    )
    options = replace(
        base.options,
        criterion=NEWTON if newton else VARIANCE,
        random_thresholds=draw(st.sampled_from((False, False, False, True))),
        min_hessian=draw(st.sampled_from((1, 1, 2**15))),
        level_features=draw(st.sampled_from((NO_LIMIT, NO_LIMIT, 1, 2))),
        interactions=draw(st.none() | st.lists(groups, min_size=1, max_size=4).map(tuple)),
        hashed_order=draw(st.booleans()),
        needs_gain=draw(st.booleans()),
        min_category_fraction=draw(st.sampled_from((2.0**-30, 0.02, 0.1, 0.3))),
        regularisation=regularisation if newton else Regularisation(),
    )
    boosting = draw(st.sampled_from(("whole", "real")))
    weights = None if boosting == "whole" else base.weights
    method = "subset" if weights is None and draw(st.booleans()) else "all"
    return replace(
        base,
        classification=False,
        method=method,
        balance=False,
        weights=weights,
        options=options,
        boosting=boosting,
    )
