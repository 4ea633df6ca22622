"""The mathematics of AdaBoost: errors, votes, and weights of the next round.

Weights of the rows sum to 1. Their sums are computed with fixed-point integers, so they do not
depend on the order. Exponentials and logarithms are functions of `numerics`. Everything else is one
expression per row.

References
----------
.. [1] Y. Freund, R. Schapire: A decision-theoretic generalization of on-line learning and an
   application to boosting. Journal of Computer and System Sciences 55, 1997.
.. [2] R. Schapire, Y. Singer: Improved boosting algorithms using confidence-rated predictions.
   Machine Learning 37, 1999. Theorem 1: the training error is at most the product of all Z_t.
.. [3] J. Zhu, H. Zou, S. Rosset, T. Hastie: Multi-class AdaBoost. Statistics and Its
   Interface 2, 2009. SAMME is algorithm 2; its step 2 (c) gives the vote.
.. [4] H. Drucker: Improving regressors using boosting techniques. ICML 1997. AdaBoost.R2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuboost.engine import randomness
from gpuboost.engine.array_modules import array_module
from gpuboost.engine.fixed_point import SUM_BITS, exponent_of, scale_by_power, sum_bits
from gpuboost.engine.numerics import exp, log
from gpuboost.engine.sampling import WITH_REPLACEMENT, RowSampler
from gpuboost.engine.targets import TreeRows

FIXED_POINT = 2.0 ** (SUM_BITS - 1)  # weights sum to 1, or slightly more after rounding
MIN_WEIGHT = 2.0**-200  # smallest positive weight, so that no row drops out of the trees
LARGEST_VOTE = 700.0  # upper bound of votes, whose exponential is finite
LARGEST_STEP = 20.0  # largest `value_step` of a regression, so that weights do not vanish
# Vote of a tree without errors, as in scikit-learn (its alpha would be infinite), and of the first
# tree of a regression if it is no better than chance.
PERFECT_VOTE = 1.0
PERFECT_BOUND = 0.6065306597126334  # exp(-PERFECT_VOTE / 2)


@dataclass(frozen=True)
class WeightBits:
    """Maximum numbers of bits of a tree's largest integer weight and of the sum of its weights."""

    largest: int
    total: int


# Rounding adds less than 1 per row to the sum of 2**28, so a node's sums fit in a packed word of
# Numba, where the hessian can be up to 2**31 - 1 if rows are not counted.
ADABOOST_CLASS_BITS = WeightBits(largest=28, total=28)
# In a regression, this leaves 23 bits for targets: sums of weight times target are then exact in
# float64, and a packed word can hold weight times target and weight.
ADABOOST_VALUE_BITS = WeightBits(largest=18, total=30)


# ---- sums ----------------------------------------------------------------------------------------


def to_fixed_point(weights: np.ndarray) -> np.ndarray:
    """Weights, or products of weights and losses, as integers: int64 (n,), on their device."""
    return array_module(weights).rint(weights * FIXED_POINT).astype(np.int64)


def start_weights(weights: np.ndarray | None, n_samples: int) -> np.ndarray:
    """Weights of the first round, which sum to 1: float64 (n,), on the device of ``weights``."""
    if weights is None:
        return np.full(n_samples, 1.0 / n_samples)
    below_one = scale_by_power(weights, -int(exponent_of(weights[:, None])[0]))
    return normalised(below_one / float(2 ** sum_bits(n_samples)))


def min_weights(weights: np.ndarray) -> np.ndarray:
    """The smallest weight of each row in all rounds, 0 for rows without weight: float64 (n,)."""
    return np.where(weights > 0.0, MIN_WEIGHT, 0.0)


def normalised(weights: np.ndarray) -> np.ndarray:
    """Weights whose sum is at most 1, scaled to sum to 1."""
    return weights / (int(to_fixed_point(weights).sum()) / FIXED_POINT)


# ---- the rows of a tree --------------------------------------------------------------------------


def reweighted_rows(weights: np.ndarray, bits: WeightBits, seed: int, tree: int) -> TreeRows:
    """All rows of positive weight; a hash rounds weights up or down, so that sums are unbiased.

    Parameters
    ----------
    weights : float64 (n,)
        Weights of the rows; their sum is at most 1.
    """
    # Before rounding, the integers have at most bits.largest bits and sum to at most 2**bits.total.
    exponent = min(bits.largest - int(np.frexp(weights.max())[1]), bits.total)
    key = randomness.stream_key(seed, randomness.ROUND_WEIGHT, tree)
    words = randomness.hash_index(key, np.arange(len(weights), dtype=np.uint64))
    scaled = weights * 2.0**exponent
    scaled += randomness.uniform(words)
    weight = scaled.astype(np.int32)  # rounds down, since no number is negative
    inside = weights > 0.0
    lost = not np.array_equal(inside, weight > 0)
    return TreeRows(weight, inside if lost else None, draws=True, unit=2.0**-exponent)


def resampled_rows(weights: np.ndarray, bits: WeightBits, seed: int, tree: int) -> TreeRows:
    """A bootstrap sample of ``n`` rows, drawn in proportion to their weights.

    The draw count of a row is limited to 2**bits.largest.
    """
    n = len(weights)
    draws = RowSampler(WITH_REPLACEMENT, n, n, seed, weights).draw_counts(tree)
    return TreeRows(np.minimum(draws, 2**bits.largest), None, draws=True, unit=1.0 / n)


# ---- classification ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a round of AdaBoost.

    Attributes
    ----------
    error : float
        Weighted error of the tree.
    vote : float
        Weight of the tree in the ensemble: 2 alpha; in a regression, log(1 / beta).
    bound : float
        Z_t, a factor of the bound on the training error; 1 in a regression.
    weights : float64 (n,)
        Weights of the next round, which sum to 1.
    """

    error: float
    vote: float
    bound: float
    weights: np.ndarray


def class_error(weights: np.ndarray, wrong: np.ndarray) -> float:
    """Weighted error of a tree, epsilon_t of [1]: the misclassified fraction of the weight."""
    fixed = to_fixed_point(weights)
    return int((fixed * wrong).sum()) / int(fixed.sum())


def class_vote(error: float, n_classes: int, learning_rate: float) -> float:
    """learning_rate * (log((1 - e) / e) + log(K - 1)) [3], but at most `LARGEST_VOTE`.

    For two classes and a learning rate of 1, this is log(1 / beta_t) of [1] and 2 alpha_t of [2].
    """
    odds = np.array([(1.0 - error) / error, max(n_classes - 1, 1)], dtype=np.float64)
    first, second = log(odds)
    return min(learning_rate * float(first + second), LARGEST_VOTE)


def class_round(
    weights: np.ndarray, wrong: np.ndarray, error: float, n_classes: int, learning_rate: float
) -> Outcome:
    """Multiply weights by exp(-alpha) where the tree is right and exp(alpha) where it is wrong [2].

    Here alpha is half of the vote. The products are divided by their sum Z_t. If the ensemble
    misclassifies a row, at least half of all votes are against the row's class, so the exponential
    of half of (votes against - votes for) is at least 1. Hence the product of all Z_t bounds the
    training error, as in [2], for any number of classes.
    """
    vote = class_vote(error, n_classes, learning_rate)
    factors, bound = class_factors(error, vote)
    return Outcome(error, vote, bound, weights * factors[wrong.view(np.uint8)])


def class_factors(error: float, vote: float) -> tuple[np.ndarray, float]:
    """Factors of the weights of correctly and wrongly classified rows, float64 (2,), and Z_t."""
    right_factor, wrong_factor = exp(np.array([-0.5 * vote, 0.5 * vote]))
    bound = float((1.0 - error) * right_factor + error * wrong_factor)
    return np.array([right_factor, wrong_factor]) / bound, bound


def votes_of(probabilities: np.ndarray, vote: np.ndarray) -> np.ndarray:
    """Contributions of leaves to the decision function.

    Parameters
    ----------
    probabilities : float64 (m, K)
        Class probabilities of leaves.
    vote : float64 (m,)
        Weight of each leaf's tree.

    Returns
    -------
    float64 (m, 1) for two classes, else (m, K)
        Two classes: twice the weight, negative if the leaf predicts the first class. More classes:
        the weight for the predicted class, and -1 / (K - 1) times the weight for each other class,
        equation (6) of [3]. A single class: zeros.
    """
    n_classes = probabilities.shape[1]
    if n_classes == 1:
        return np.zeros_like(probabilities)
    largest = probabilities.argmax(axis=1)
    if n_classes == 2:
        return (vote * np.where(largest == 1, 2.0, -2.0))[:, None]
    code = np.full(probabilities.shape, -1.0 / (n_classes - 1))
    code[np.arange(len(code)), largest] = 1.0
    return code * vote[:, None]


# ---- regression ----------------------------------------------------------------------------------


# Losses of the absolute error, relative to the largest absolute error [4].
ADABOOST_LOSSES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "linear": lambda share: share,
    "square": lambda share: share * share,
    "exponential": lambda share: 1.0 - exp(-share),
}


def value_losses(
    predicted: np.ndarray, y: np.ndarray, weights: np.ndarray, loss: Callable[..., Any]
) -> np.ndarray:
    """Loss of each row, from 0 to 1, relative to the largest error of rows of positive weight.

    Errors of rows of weight zero count as 0.
    """
    error = np.where(weights > 0.0, np.abs(predicted - y), 0.0)
    largest = error.max()
    return loss(error / largest if largest > 0.0 else error)


def value_error(weights: np.ndarray, losses: np.ndarray) -> float:
    """Weighted mean of the losses."""
    part, whole = (int(to_fixed_point(each).sum()) for each in (weights * losses, weights))
    return part / whole


def value_round(
    weights: np.ndarray, losses: np.ndarray, error: float, learning_rate: float
) -> Outcome:
    """Multiply weights by beta ** (1 - loss) [4] and normalise; the vote is log(1 / beta).

    beta is (e / (1 - e)) ** learning_rate, but at least exp(-`LARGEST_STEP`) in the weights and
    exp(-`LARGEST_VOTE`) in the vote.
    """
    vote = class_vote(error, 2, learning_rate)
    return Outcome(error, vote, 1.0, normalised(weights * exp((losses - 1.0) * value_step(vote))))


def value_step(vote: float) -> float:
    """Decrease of the logarithm of a row's weight if the row has no loss, before normalisation."""
    return min(vote, LARGEST_STEP)


def whole_votes(votes: np.ndarray) -> np.ndarray:
    """Votes as integers, so that their sums do not depend on the order: int64 (T,)."""
    exponent = SUM_BITS - 1 - sum_bits(len(votes)) - int(np.frexp(votes.max())[1])
    return np.rint(np.ldexp(votes, exponent)).astype(np.int64)


def weighted_median(values: Any, votes: Any, xp: Any = np) -> Any:
    """Weighted median of each row: the smallest value at which half of the votes are reached [4].

    Parameters
    ----------
    values : float64 (n, T)
    votes : int64 or float64 (T,)
        From `whole_votes`, on the device of the values; imported models have other weights.
    """
    order = xp.argsort(values, axis=1)
    reached = xp.cumsum(votes[order], axis=1)
    first = xp.argmax(2 * reached >= reached[:, -1:], axis=1)[:, None]
    place = xp.take_along_axis(order, first, axis=1)
    return xp.take_along_axis(values, place, axis=1)[:, 0]
