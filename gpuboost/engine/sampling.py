"""Sampling of the rows of a tree, with their integer weights, and of its candidate features.

Facts about the weights are computed on the device of the weights. The rows of a tree are drawn on
the host here, and on a GPU by `backends.cuda.sampling.draw`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpuboost.engine import randomness
from gpuboost.engine.array_modules import array_module, copy_to_host
from gpuboost.engine.fixed_point import (
    MEAN_BITS,
    SUM_BITS,
    WEIGHT_BITS,
    WeightFacts,
    exact_mean,
    exponent_of,
    scale_by_power,
    sum_bits,
)
from gpuboost.engine.numerics import log
from gpuboost.engine.targets import TreeRows

_SEED_STEP = 0x9E3779B1  # a prime near 2**32 / golden ratio
_DRAWN_TOGETHER = 1 << 14  # so many draws stay in the cache; all at once take 1.6 times as long
FACTOR_BITS = 40  # factors below 2**-40 of the largest, which leaf sums would lose, become 0
ALL_ROWS, WITH_REPLACEMENT, WITHOUT_REPLACEMENT = "all", "bootstrap", "subset"


@dataclass(frozen=True)
class RowSampler:
    """Sampler that determines the rows of each tree of a fit.

    All arrays are on the host or on one GPU. `rows` and `draw_counts` need arrays on the host
    (``copied_to_host``). Pickling copies the arrays to the host.

    Parameters
    ----------
    method : {"all", "bootstrap", "subset"}
        Whether a tree uses all rows or draws rows, with replacement or without replacement.
    n_samples, n_draws : int
        Number of rows, and number of rows drawn by "bootstrap" and "subset".
    seed : int
        Seed of all random numbers.
    weights : float64 (n_samples,) or None
        Weights of the rows. With "all", they are the weights in each tree; else rows are drawn in
        proportion to them.
    balance : int32 (n_samples,) or (n_samples, n_outputs), or None
        Class of each row. Each tree weights classes in inverse proportion to their draws
        (``class_weight="balanced_subsample"``).
    row_factor : float64 (n_samples,) or None
        Factors that multiply the draw counts of each tree, unless ``method`` is "all". Factors
        below 2**-FACTOR_BITS of the largest become 0.
    max_weight_bits : int
        Maximum number of bits to which real-valued weights are rounded.

    Attributes
    ----------
    cumulative : uint64 (n_samples,) or None
        Running sum of the weights as fixed-point numbers, if "bootstrap" draws rows by weight.
    whole : int32 (n_samples,) or None
        The weights of all rows as integer multiples of a unit, if "all" is used and this is exact.
    weight_bits : int
        Number of bits of the largest integer weight, if weights are rounded.
    shared_rows : TreeRows
        A `TreeRows` without rows, which holds the fields that all trees share.
    """

    method: str
    n_samples: int
    n_draws: int
    seed: int
    weights: np.ndarray | None = None
    balance: np.ndarray | None = None
    row_factor: np.ndarray | None = None
    max_weight_bits: int = WEIGHT_BITS
    cumulative: np.ndarray | None = field(init=False, default=None)
    whole: np.ndarray | None = field(init=False, default=None)
    weight_bits: int = field(init=False, default=WEIGHT_BITS)
    shared_rows: TreeRows = field(init=False)

    def __post_init__(self) -> None:
        unit, known = 1.0, vars(self)  # `vars` can set fields of a frozen class
        if self.weights is not None and self.method == WITH_REPLACEMENT:
            fixed = fixed_point_weights(self.weights)
            known["cumulative"] = array_module(fixed).cumsum(fixed, dtype=np.uint64)
        if self.weights is not None and self.method == ALL_ROWS:
            known["whole"], unit = whole_weights(self.weights)
            if self.whole is None:
                bits = min(self.max_weight_bits, bits_for(self.weights))
                known["weight_bits"] = max(bits, WEIGHT_BITS)
        if self.row_factor is not None:
            minimum = float(np.ldexp(float(self.row_factor.max()), -FACTOR_BITS))
            xp = array_module(self.row_factor)
            known["row_factor"] = xp.where(self.row_factor < minimum, 0.0, self.row_factor)
        known["shared_rows"] = self._shared_rows(unit)

    def _shared_rows(self, whole_unit: float) -> TreeRows:
        none = np.zeros(0, dtype=np.int64)
        if self.reweighs:
            n_balanced = 0 if self.balance is None else self.balance.size // self.n_samples
            exponents = own_exponents(self.n_samples, self.n_draws, self.row_factor, n_balanced)
            return TreeRows(none, None, draws=False, wide=none, exponents=exponents)
        if self.has_real_weights:
            assert self.weights is not None
            unit = float(np.ldexp(1.0, exponent_of(self.weights[:, None])[0]))
            return TreeRows(none, None, draws=False, unit=unit)
        return TreeRows(none, None, draws=True, unit=whole_unit)

    @property
    def reweighs(self) -> bool:
        """Whether draw counts are multiplied by factors; each tree then has its own ``wide``."""
        factors = self.balance is not None or self.row_factor is not None
        return self.method != ALL_ROWS and factors

    @property
    def has_real_weights(self) -> bool:
        """Whether the integer weights of a tree are real-valued weights, rounded by a hash."""
        all_real = self.method == ALL_ROWS and self.weights is not None and self.whole is None
        return self.reweighs or all_real

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """Upper bounds on the sum of a tree's integer weights, and on each integer weight.

        The probability that a row drawn m times on average is drawn more than 2 m + 64 times is
        negligible: below exp(-60).
        """
        if self.reweighs:
            return self.n_samples * 2.0**WEIGHT_BITS, 2.0**WEIGHT_BITS
        if self.method == WITHOUT_REPLACEMENT:
            return float(self.n_draws), 1.0
        if self.method == WITH_REPLACEMENT:
            often = min(2.0 * self.n_draws * _largest_share(self) + 64.0, float(self.n_draws))
            return float(self.n_draws), often
        if self.weights is None:
            return float(self.n_samples), 1.0
        if self.whole is not None:
            return float(self.whole.sum()), float(self.whole.max())
        rounded_up = array_module(self.weights).ceil(scale_weights(self.weights, self.weight_bits))
        return float(rounded_up.astype(np.int64).sum()), float(2**self.weight_bits)

    @property
    def weight_facts(self) -> WeightFacts:
        """The facts about the weights that a target depends on."""
        if self.weights is None:
            return WeightFacts(*self.bounds)
        real, inside = None, self.weights > 0
        if self.method == ALL_ROWS and self.whole is None:
            real = scale_weights(self.weights, 0)
        return WeightFacts(*self.bounds, real, inside)

    @property
    def lost_fraction(self) -> float:
        """Expected fraction of rows with positive weight whose integer weight is 0.

        Computed for "all" only; 0.0 for other methods.
        """
        if self.method != ALL_ROWS or not self.has_real_weights:
            return 0.0
        assert self.weights is not None
        scaled = scale_weights(self.weights[self.weights > 0], self.weight_bits)
        below = array_module(scaled).maximum(1.0 - scaled, 0.0)
        return float(exact_mean(below[:, None])[0])

    @cached_property
    def max_rows(self) -> int:
        """Maximum number of rows of a tree."""
        n_rows = self.n_samples
        for weights in (self.weights, self.row_factor):
            if weights is not None:
                n_rows = min(n_rows, int((weights > 0).sum()))
        return n_rows if self.method == ALL_ROWS else min(n_rows, self.n_draws)

    # ---- device ----------------------------------------------------------------------------

    @property
    def place(self) -> str:
        """Device of the arrays, such as "cuda:0"; "" for the host."""
        for array in self._arrays().values():
            if not isinstance(array, np.ndarray):
                return f"cuda:{array.device.id}"
        return ""

    @cached_property
    def copied_to_host(self) -> RowSampler:
        """The sampler with its arrays on the host; the sampler itself if they are there already."""
        return self.with_state(self.__getstate__()) if self.place else self

    def drawing_only(self) -> RowSampler:
        """A sampler for a fitted model, with only the fields that are needed to draw rows again."""
        known = {"balance": None, "row_factor": None}
        if self.method == ALL_ROWS:
            known |= {"weights": None, "whole": None}
        return self.with_state({f.name: getattr(self, f.name) for f in fields(self)} | known)

    def _arrays(self) -> dict[str, Any]:
        names = ("weights", "balance", "row_factor", "cumulative", "whole")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def __getstate__(self) -> dict[str, Any]:
        """All fields, with arrays copied to the host, but without cached properties."""
        state = {f.name: getattr(self, f.name) for f in fields(self)}
        return state | {name: copy_to_host(array) for name, array in self._arrays().items()}

    def with_state(self, state: dict[str, Any]) -> RowSampler:
        """A sampler with the given fields (see `__getstate__`); no field is computed again."""
        made = object.__new__(RowSampler)
        made.__dict__.update(state)
        return made

    # ---- the rows of a tree ----------------------------------------------------------------

    def rows(self, tree: int) -> TreeRows:
        """The rows of one tree."""
        if self.method == ALL_ROWS:
            return self._all_rows(tree)
        draws = self.draw_counts(tree)
        if self.balance is None and self.row_factor is None:
            return replace(self.shared_rows, weight=draws)
        weights = draws.astype(np.float64)
        if self.row_factor is not None:
            weights = weights * self.row_factor
        if self.balance is not None:
            weights = weights * self._balancing(draws)
        return self._real_rows(tree, weights)

    def _balancing(self, draws: np.ndarray) -> np.ndarray:
        """Factor of each row that gives the classes of a tree's draws equal weight."""
        assert self.balance is not None
        product = np.ones(self.n_samples)
        for classes in self.balance.reshape(self.n_samples, -1).T:
            product = product * balanced_weights(np.bincount(classes, weights=draws))[classes]
        return product

    def draw_counts(self, tree: int) -> np.ndarray:
        """Draw count of each row, 0 if out of bag: int32 (n_samples,). Not for method "all"."""
        if self.method == WITH_REPLACEMENT:
            key = randomness.stream_key(self.seed, randomness.DRAW_ROWS, tree)
            total = np.uint64(self.n_samples) if self.cumulative is None else self.cumulative[-1]
            index = np.arange(self.n_draws, dtype=np.uint64)
            parts = np.array_split(index, self.n_draws // _DRAWN_TOGETHER + 1)
            words = (randomness.hash_index(key, part) for part in parts)
            rows = drawn = np.concatenate([randomness.multiply_high(own, total) for own in words])
            if self.cumulative is not None:
                # Sorting makes memory accesses sequential: 3 ms instead of 36 ms for 100,000 rows.
                rows = np.searchsorted(self.cumulative, np.sort(drawn), side="right")
            return np.bincount(rows.astype(np.int64), minlength=self.n_samples).astype(np.int32)
        key = randomness.stream_key(self.seed, randomness.KEEP_ROWS, tree)
        return smallest(self._row_order(key), self.n_draws).astype(np.int32)

    def _row_order(self, key: np.ndarray) -> np.ndarray:
        """Sort keys of the rows; the ``n_draws`` smallest give a sample without replacement."""
        words = randomness.hash_index(key, np.arange(self.n_samples, dtype=np.uint64))
        if self.weights is None:
            return words
        # Efraimidis and Spirakis (2006): the smallest of independent exponentials with rates w.
        exponential = -log(randomness.uniform(words) + 2.0**-54)
        order = np.full(self.n_samples, np.inf)
        np.divide(exponential, self.weights, out=order, where=self.weights > 0)
        return order

    def _all_rows(self, tree: int) -> TreeRows:
        if self.weights is None:
            return replace(self.shared_rows, weight=np.ones(self.n_samples, np.int32))
        if self.whole is not None:
            return replace(self.shared_rows, weight=self.whole)
        return self._real_rows(tree, self.weights)

    def _real_rows(self, tree: int, weights: np.ndarray) -> TreeRows:
        """Rows with weights rounded up or down at random, so that sums of weights are unbiased."""
        key = randomness.stream_key(self.seed, randomness.ROUND_WEIGHT, tree)
        words = randomness.hash_index(key, np.arange(self.n_samples, dtype=np.uint64))
        rounded = np.floor(scale_weights(weights, self.weight_bits) + randomness.uniform(words))
        inside = weights > 0
        integer = np.where(inside, rounded, 0).astype(np.int32)
        exponents = self.shared_rows.exponents
        wide = None if exponents is None else planes_at(weights, exponents)
        return replace(self.shared_rows, weight=integer, inside=inside, wide=wide)


def balanced_weights(counts: np.ndarray) -> np.ndarray:
    """Weights n / (k * count) of the k classes that occur, 0 of others; n is the sum of counts."""
    present = counts > 0
    weights, total = np.zeros(len(counts), dtype=np.float64), float(counts.sum())
    weights[present] = total / (np.count_nonzero(present) * counts[present].astype(np.float64))
    return weights


def own_exponents(
    n_samples: int, n_draws: int, row_factor: np.ndarray | None, n_balanced: int
) -> np.ndarray:
    """Exponents of the two planes of the weights of a tree: int64 (2,).

    The exponents follow from a bound, so they are the same for all trees and known before rows are
    drawn: the weights of a tree sum to at most ``n_draws`` times the largest factor, since
    balancing the classes of one output preserves the sum of the draws. Balancing those of each
    further output multiplies a weight by at most ``n_draws``. ``n_balanced`` is the number of
    outputs whose classes are balanced.
    """
    factor_exponent = 0 if row_factor is None else int(exponent_of(row_factor[:, None])[0])
    high = SUM_BITS - 1 - max(n_balanced, 1) * sum_bits(n_draws) - factor_exponent
    return np.array([high, high + SUM_BITS - sum_bits(n_samples)])


def planes_at(x: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """`fixed_point.two_planes` of ``x`` (n,) with the given exponents: int64 (n, 2)."""
    scaled = np.ldexp(x, exponents[0])
    high = np.rint(scaled)
    low = np.rint(np.ldexp(scaled - high, exponents[1] - exponents[0]))
    return np.column_stack([high, low]).astype(np.int64)


def fixed_point_weights(weights: np.ndarray) -> np.ndarray:
    """Weights (n,) as integers whose sum fits in 64 bits: uint64 (n,), on their device."""
    exponent = SUM_BITS - sum_bits(len(weights)) - exponent_of(weights[:, None])[0]
    return array_module(weights).rint(scale_by_power(weights, exponent)).astype(np.uint64)


def whole_weights(weights: np.ndarray) -> tuple[np.ndarray | None, float]:
    """Weights as exact multiples of a unit, at most 2**WEIGHT_BITS: int32 (n,) or None; the unit.

    The unit is 1 if all weights are then integers, else the smallest positive weight, so that equal
    weights of 0.1 become ones.
    """
    xp, largest = array_module(weights), float(weights.max())
    smallest_weight = float(xp.where(weights > 0, weights, np.inf).min())
    for unit in (1.0, smallest_weight):
        if largest > 2.0**WEIGHT_BITS * unit:
            continue
        counts = xp.rint(weights / unit)
        if (counts * unit == weights).all():
            return counts.astype(np.int32), unit
    return None, 1.0


def scale_weights(weights: np.ndarray, bits: int = WEIGHT_BITS) -> np.ndarray:
    """Weights times the power of two that brings the largest into [2**(bits - 1), 2**bits)."""
    return scale_by_power(weights, bits - exponent_of(weights[:, None])[0])


def bits_for(weights: np.ndarray) -> int:
    """Bits of the largest integer weight if the mean positive weight has `MEAN_BITS` bits."""
    scaled = scale_weights(weights[weights > 0], 0)  # below 1
    return MEAN_BITS + sum_bits(1.0 / float(exact_mean(scaled[:, None])[0]))


def smallest(order: np.ndarray, count: int) -> np.ndarray:
    """Mask of the ``count`` smallest entries; of equal entries, the first are chosen."""
    last = np.partition(order, count - 1)[count - 1]
    mask = order < last
    ties = np.flatnonzero(order == last)
    mask[ties[: count - int(mask.sum())]] = True
    return mask


def draw_features(seed: int, tree: int, n_features: int, count: int, replace: bool) -> np.ndarray:
    """Features of one tree, ascending int32; if drawn with replacement, features can repeat."""
    key = randomness.stream_key(seed, randomness.KEEP_FEATURES, tree)
    if replace:
        words = randomness.hash_index(key, np.arange(count, dtype=np.uint64))
        return np.sort(randomness.multiply_high(words, np.uint64(n_features))).astype(np.int32)
    ranks = randomness.feature_rank(key, np.arange(n_features, dtype=np.uint64))
    return np.flatnonzero(smallest(ranks, count)).astype(np.int32)


def tree_seeds(seed: int, trees: Any) -> np.ndarray:
    """Seeds of the trees of an ensemble, from 0 to 2**32 - 1: uint64 with the shape of ``trees``.

    A single tree with this seed grows as the ensemble's tree does on the same rows. Up to 2**32
    trees have different seeds, because `_SEED_STEP` is odd.
    """
    steps = np.asarray(trees, np.uint64) * np.uint64(_SEED_STEP)
    return (np.uint64(seed) + steps) & np.uint64(2**32 - 1)


def root_keys(seed: int, trees: Any) -> np.ndarray:
    """Keys of the root nodes, from which all random numbers of growth are derived: uint64."""
    return randomness.stream_key(tree_seeds(seed, trees), randomness.GROW, 0)


def root_key(seed: int, tree: int) -> int:
    """Key of a tree's root node; see `root_keys`."""
    return int(root_keys(seed, np.array([tree]))[0])


def _largest_share(sampler: RowSampler) -> float:
    """Probability that a single draw takes the row that is most likely to be drawn."""
    cumulative = sampler.cumulative
    if cumulative is None:
        return 1.0 / sampler.n_samples
    until = array_module(cumulative).concatenate([cumulative[:1] * np.uint64(0), cumulative])
    return float(int((until[1:] - until[:-1]).max())) / float(int(cumulative[-1]))
