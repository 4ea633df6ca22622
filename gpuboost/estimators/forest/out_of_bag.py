"""Out-of-bag estimates: each row is predicted by the trees that were not grown on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gpuboost.backends.protocol import Backend
from gpuboost.data.advice import warn_user
from gpuboost.engine.array_modules import copy_to_host
from gpuboost.engine.bins import BinnedMatrix
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.sampling import ALL_ROWS, RowSampler
from gpuboost.estimators.inputs.targets import ClassLabels, Labels, MultiOutputClassLabels
from gpuboost.estimators.model.fitted import FittedTrees, TreeBatch


def out_of_bag_means(
    model: FittedTrees, ensemble: Ensemble, matrix: BinnedMatrix, backend: Backend, n_threads: int
) -> np.ndarray:
    """Mean of each row's leaf values over the trees not grown on the row, summed in tree order.

    Parameters
    ----------
    ensemble : Ensemble
        The ensemble of the model or, with hard voting, its votes.
    matrix : BinnedMatrix
        Training data.

    Returns
    -------
    float64 (n, n_values)
        NaN, with a warning, for rows that every tree was grown on.
    """
    check_same_rows(model.batches, matrix.n_samples)
    draws = []
    for batch in model.batches:
        here = batch.sampler.place == backend.name
        sampler = batch.sampler if here else batch.sampler.copied_to_host
        draws += [(sampler, tree) for tree in batch.trees]
    coded = replace(ensemble).on_codes  # on a copy, so that the model does not cache it
    total, count = backend.sum_out_of_bag(coded, matrix, draws, n_threads)
    if not count.all():
        warn_user(
            "Some inputs do not have OOB scores. This probably means too few estimators were used "
            "to compute any reliable oob estimates. Every tree was grown on these rows, whose "
            "estimates are NaN; raise n_estimators or lower max_samples."
        )
    with np.errstate(invalid="ignore"):
        return total / count[:, None]


def is_out_of_bag(sampler: RowSampler, tree: int) -> np.ndarray:
    """Mask of the rows that a tree was not grown on: bool (n,)."""
    if sampler.method == ALL_ROWS:
        return np.zeros(sampler.n_samples, dtype=bool)
    return sampler.copied_to_host.draw_counts(tree) == 0


def out_of_bag_facts(
    labels: Labels, means: np.ndarray, score: Callable[..., Any]
) -> dict[str, Any]:
    """Fitted attributes from the out-of-bag means of leaf values or votes.

    The score is that of the rows with an out-of-bag mean. Classifiers need at least one such row,
    regressors two (R2 is undefined for one); with fewer, the score is NaN.
    """
    y_true, seen = copy_to_host(labels.rows), ~np.isnan(means[:, 0])
    if isinstance(labels, ClassLabels):
        name, fewest, found = "oob_decision_function_", 1, means.argmax(axis=1)
    elif isinstance(labels, MultiOutputClassLabels):
        means = means.reshape(*y_true.shape, -1).transpose(0, 2, 1)
        name, fewest, found = "oob_decision_function_", 1, means.argmax(axis=1)
    else:
        means = found = means.reshape(y_true.shape)
        name, fewest = "oob_prediction_", 2
    enough = seen.sum() >= fewest
    return {name: means, "oob_score_": score(y_true[seen], found[seen]) if enough else np.nan}


def check_out_of_bag_target(labels: Labels) -> None:
    """Check that the out-of-bag estimates of the targets have a score: see `out_of_bag_facts`."""
    if isinstance(labels, MultiOutputClassLabels) and max(map(len, labels.classes)) > 2:
        raise ValueError(
            "The type of target cannot be used to compute OOB estimates. Got several outputs with "
            f"{[len(own) for own in labels.classes]} classes, but with several outputs, each must "
            "have two; fit with oob_score=False, or one model for each output"
        )


def check_same_rows(batches: tuple[TreeBatch, ...], n_samples: int) -> None:
    """Check that the training data of every tree had as many rows as X."""
    for batch in batches:
        if batch.sampler.n_samples != n_samples:
            raise ValueError(
                f"oob_score needs the training rows of every tree, but with warm_start some trees "
                f"were fitted on {batch.sampler.n_samples} rows and X has {n_samples}; fit with "
                "warm_start=False or oob_score=False"
            )


def check_training_rows(batches: tuple[TreeBatch, ...], n_samples: int) -> None:
    """Check that the X of a fitted model can be the X that it was fitted on."""
    for n_fitted in {batch.sampler.n_samples for batch in batches} - {n_samples}:
        raise ValueError(
            f"X has {n_samples} rows, but trees were grown on {n_fitted}: out-of-bag rows are only "
            "known for the X and y of fit; pass these, with all rows in the same order"
        )
