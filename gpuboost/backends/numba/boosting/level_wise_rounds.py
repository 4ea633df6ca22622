"""Boosting rounds grown level by level: pack the gradients into words, then grow the trees."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Any

import numpy as np

from gpuboost.backends.numba.boosting.quantise import (
    PACK_ROWS,
    QUANTISE_CHUNK,
    RowWords,
    two_factors,
)
from gpuboost.backends.numba.common.arguments import (
    Weights,
    limits_of,
    make_scratch,
    matrix_of,
    min_category,
    with_codes,
)
from gpuboost.backends.numba.common.constraints import constraints_of
from gpuboost.backends.numba.common.packed_words import choose_gradient_packing
from gpuboost.backends.numba.common.records import Problem
from gpuboost.backends.numba.common.row_major import row_major
from gpuboost.backends.numba.level_wise.feature_bundles import bundle_codes, plan_bundles
from gpuboost.backends.numba.level_wise.feature_sampling import CANDIDATE, EXCLUDED
from gpuboost.backends.numba.level_wise.grower import ALL_SMALL, LevelGrower, Shape
from gpuboost.backends.numba.level_wise.histograms import ROWS_PER_CHECK
from gpuboost.backends.numba.level_wise.leaves import Leaves
from gpuboost.backends.numba.level_wise.records import Samples
from gpuboost.backends.numba.references import KeptReference, Reference, by_reference
from gpuboost.backends.numba.splits.plugins import NO_PLUGINS
from gpuboost.backends.numba.threads.map import contiguous
from gpuboost.backends.numba.threads.pool import ThreadPool
from gpuboost.engine import randomness
from gpuboost.engine.ensembles.boosting import GRADIENT_BITS, HESSIAN_BITS, Gradients, Scale
from gpuboost.engine.ensembles.boosting_task import BoostTask
from gpuboost.engine.quantise import VALUE_BITS
from gpuboost.engine.sampling import root_keys
from gpuboost.engine.task import NO_LIMIT, GrownTree

# Largest ratio of all features to a node's candidate features, per thread of a tree, at which trees
# grow level by level. With 60k to 250k rows, both growers are equally fast (measured) at a ratio of
# 5 to 10 with 100 columns and two threads, at a larger ratio with 28 columns, and at a ratio of 2
# to 5 on one thread.
MAX_PASSED_OVER = 3
KEYS_AHEAD = 256  # trees whose keys are computed at once
_NO_ROWS, _NOT_WHOLE = np.zeros(0, np.uint32), np.zeros(0, np.int32)


def grows_by_levels(task: BoostTask) -> bool:
    """Whether the trees of the rounds are grown level by level, by all threads together.

    Level-wise growth requires a maximum depth above 0, no random thresholds, the same
    limits for all trees of a round (so with several trees, neither min_weight_fraction_leaf nor
    min_impurity_decrease), enough candidate features per node, enough memory and a dense matrix;
    best-first, it also requires enough rows. With several channels and without
    max_leaf_nodes, nodes of the deepest searched level must have a mean of at least
    `grower.CHANNELS_MEAN` rows. All other trees are grown depth-first, each by one
    thread. In level-wise growth of deep trees, the subtrees of small nodes are also grown
    depth-first, and all threads share them (`level_wise.subtrees`).

    A round of 200k x 28 with two threads takes, depth-first and level by level: 120 and 39 ms with
    12 levels; 183 and 57 ms with unlimited depth and 20 rows per leaf. With 6 levels: 32 and 8 ms
    with half of the features per node; 13 and 8 ms with 5 features per node; 23 and 10 ms with half
    of them per level; 18 and 10 ms with interaction groups.
    """
    options = task.options
    ordinary = options.max_depth > 0 and not options.random_thresholds
    alike = options.min_weight_fraction_leaf == 0.0 and options.min_impurity_decrease == 0.0
    alike |= task.trees_per_round == 1
    large = task.matrix.n_samples >= ALL_SMALL or options.max_leaf_nodes == NO_LIMIT
    large &= not task.matrix.grows_sparse
    if task.matrix.is_blocked:
        return False
    if not (ordinary and alike and large and _has_enough_features(task)):
        return False
    shape = shape_of(task)
    return shape.fits and not shape.is_deep


def n_channels_of(task: BoostTask) -> int:
    """Number of channels of a tree."""
    return task.loss.columns if task.sums_outputs else 1


def _has_enough_features(task: BoostTask) -> bool:
    """Whether nodes have so many candidate features that histograms of all features are faster.

    Depth-first growth sums only the candidate features, but for both children, and has only one
    thread per tree. With interactions, the number of a node's candidates is assumed to be at most
    the number of features in the groups that contain a feature, averaged over all features.
    """
    options, n_features = task.options, task.matrix.n_features
    listed = float(min(options.max_features, options.level_features, n_features))
    if options.interactions is not None:
        held: list[set[int]] = [set() for _ in range(n_features)]
        for group in options.interactions:
            for feature in group:
                held[feature].update(group)
        listed = min(listed, sum(map(len, held)) / n_features)
    n_idle = max(task.n_threads / task.trees_per_round, 1.0)
    return n_features <= MAX_PASSED_OVER * n_idle * listed


def shape_of(task: BoostTask) -> Shape:
    """The `Shape` of a fit: sizes of its data, limits of its trees, and its threads and memory."""
    options, matrix = task.options, task.matrix
    listed = min(options.max_features, options.level_features)
    hessian_counts = task.loss.constant_hessian and task.train.weights is None  # all hessians are 1
    return Shape(
        n_samples=matrix.n_samples,
        n_features=matrix.n_features,
        n_columns=len(plan_bundles(matrix_of(matrix)).first) - 1,
        n_trees=task.trees_per_round,
        n_channels=n_channels_of(task),
        n_leaf_sums=n_channels_of(task)
        + (1 if task.loss.constant_hessian else n_channels_of(task)),
        depth=options.max_depth,
        max_leaf_nodes=options.max_leaf_nodes,
        min_samples_leaf=int(options.min_samples_leaf),
        node_sampling=listed < matrix.n_features or options.interactions is not None,
        groups=(len(options.interactions or ()) + 63) // 64,
        fields=3 if options.min_samples_leaf > 1 and not hessian_counts else 2,
        n_threads=task.n_threads,
        categorical=bool(matrix.mapper.is_categorical.any()),
        memory_budget=task.memory_budget,
    )


def hessian_bits(means: tuple[float, float], largest: tuple[int, int]) -> int:
    """Number of bits of a word's hessian field; the gradient field has the remaining bits.

    The width is chosen so that sums of both fields overflow after about the same number of rows,
    and so that neither overflows within `ROWS_PER_CHECK` rows. ``means`` are the approximate mean
    magnitudes of the integer gradients and hessians, and ``largest`` are bounds on them.
    """
    minimum = (ROWS_PER_CHECK * largest[1]).bit_length() + 1
    maximum = 62 - (ROWS_PER_CHECK * largest[0]).bit_length()
    ratio = np.log2(max(means[1], 1.0) / max(means[0], 1.0))
    ratio = ratio if np.isfinite(ratio) else 0.0  # means can overflow float64
    return int(min(max(round((63 + ratio) / 2), minimum), maximum))


def _columns_of(made: Gradients) -> tuple[np.ndarray, ...]:
    """The first four fields of `RowWords`."""
    gradient, hessian = (contiguous(x.T, np.float64) for x in (made.gradient, made.hessian))
    inside = _NO_ROWS if made.inside is None else np.flatnonzero(made.inside).astype(np.uint32)
    whole = _NOT_WHOLE if made.whole is None else contiguous(made.whole, np.int32)
    return gradient, hessian, whole, inside


class LevelRounds:
    """The buffers and steps of a fit whose trees are grown level by level."""

    def __init__(self, task: BoostTask, pool: ThreadPool) -> None:
        shape = shape_of(task)
        self.task, self.pool = task, pool
        self._grower, self._matrix = LevelGrower(shape), matrix_of(task.matrix)
        self._columns = plan_bundles(self._matrix)
        self.are_features = shape.n_columns == shape.n_features  # no column is a bundle
        self.by_row = row_major(bundle_codes(self._matrix, self._columns), pool)
        self._codes_by_row = self.by_row.view(np.uint64)
        n, n_trees, has_channels = shape.n_samples, shape.n_trees, shape.n_channels > 1
        self._word = np.empty((n_trees, 0 if has_channels else n), np.int64)
        self._summands = np.zeros((n if has_channels else 0, shape.cell_size), np.int32)
        # Words are not read after leaves are set, nor the rows' order between growth and packing.
        leaf = np.empty(n, np.int32) if has_channels else self._word.view(np.int32).ravel()
        self.leaf = leaf[: n_trees * n].reshape(n_trees, n)
        self.losses = self._grower.state.row.ravel().view(np.float64)[:n]
        self._row_sums = np.zeros((n_trees * -(-n // QUANTISE_CHUNK), 2), np.int64)
        self._row = self._grower.state.row[0]  # the initial order of the rows
        self._words, self._bits = KeptReference(), np.zeros(1, np.int64)
        self._scales, self._wide_scales = np.zeros(4), np.zeros(4)
        self._rounding_keys, self._keys = (np.zeros(n_trees, np.uint64) for _ in range(2))
        self._roots = np.zeros((n_trees, 4), np.int64)
        threads = range(task.n_threads)
        scratch = [make_scratch(0, shape.n_features, shape.n_channels) for _ in threads]
        self._scratch = [by_reference(each) for each in scratch]
        self._given, codes = by_reference(self._matrix), self._grower.local_codes
        self._local = [by_reference(with_codes(self._matrix, own)) for own in codes]
        self._constraints = by_reference(constraints_of(task.options, shape.n_features))
        self._plugins = NO_PLUGINS
        # What was computed from the last gradients, for coming trees, and from the last limits.
        self._made: Gradients | None = None
        self._columns_of_made: tuple[np.ndarray, ...] = ()
        self._heaviest = 0
        self._numbers, self._many_keys = range(0), (self._keys, self._rounding_keys)
        self._known: Any = None

    def grow(
        self, made: Gradients, means: tuple[float, float], scale: Scale, trees: range
    ) -> list[GrownTree]:
        """Grow the trees of one round, numbered ``trees``; write the leaf of each row to `leaf`.

        The leaves of rows outside the trees are not set. ``means`` are the approximate mean
        magnitudes of the gradients and hessians.
        """
        if made is not self._made:
            self._made, self._columns_of_made = made, _columns_of(made)
            self._heaviest = int(self._columns_of_made[2].max(initial=0))
        gradient, hessian, _, inside = self._columns_of_made
        scales = (*two_factors(scale.wide_gradient), *two_factors(scale.wide_hessian))
        self._wide_scales[:] = scales
        self._set_keys(trees)
        samples = self._pack(self._columns_of_made, means, scale)
        sums = self._grower.sums
        leaves = Leaves(inside, gradient, hessian, self._wide_scales, self.leaf, sums)
        self._allow_features(trees)
        self._set_limits(scale, made.whole is not None and samples.max_hessian <= 1, samples)
        return self._grower.grow(self.pool, samples, self._roots, self._keys, leaves)

    def _set_keys(self, trees: range) -> None:
        """Set the keys of the trees' roots and of their rounding, computed for many rounds."""
        if trees.start not in self._numbers or trees.stop - 1 not in self._numbers:
            self._numbers = range(trees.start, trees.stop + KEYS_AHEAD)
            numbers, seed = np.arange(trees.start, trees.stop + KEYS_AHEAD), self.task.seed
            rounding = randomness.stream_key(seed, randomness.ROUND_GRADIENT, numbers)
            self._many_keys = root_keys(seed, numbers), rounding
        own = slice(trees.start - self._numbers.start, trees.stop - self._numbers.start)
        self._keys[:], self._rounding_keys[:] = (keys[own] for keys in self._many_keys)

    def _allow_features(self, trees: range) -> None:
        """Set the features that each tree may split on; all trees of a fit have a root."""
        features_of, space, options = self.task.features_of, self._grower, self.task.options
        state, every = space.state, np.arange(self.task.matrix.n_features)
        if space.shape.categorical:
            minimum = [min_category(options, int(root)) for root in self._roots[:, 3]]
            state.min_category[: len(minimum)] = minimum
        if features_of is None and state.n_features.all():
            return
        for place, tree in enumerate(trees):
            own = every if features_of is None else np.unique(features_of(tree))
            state.features[place, : len(own)], state.n_features[place] = own, len(own)
            if not space.shape.node_sampling:
                space.work.feature_status[place] = EXCLUDED
                space.work.feature_status[place, own] = CANDIDATE

    def _set_limits(self, scale: Scale, are_ones: bool, samples: Samples) -> None:
        """Set the `Problem` of each thread, and those for small nodes; trees set their features.

        They depend on the scale and, if limits are fractions of it, on the hessian of the root.
        """
        of_user, root_hessian = self.task.options, int(self._roots[0, 3])
        has_fractions = of_user.min_weight_fraction_leaf > 0 or of_user.min_impurity_decrease > 0
        largest = samples.max_gradient, samples.max_hessian
        known = scale, are_ones, largest, root_hessian if has_fractions else 0
        if known == self._known:
            return
        self._known = known
        options = scale.options(of_user, self.task.min_hessian)
        weights = Weights(root_hessian, are_ones, some_are_zero=False)
        limits = limits_of(options, scale.target(self._grower.shape.n_channels), weights)
        packing = choose_gradient_packing(*largest, limits.min_samples_leaf > 1)
        parts = by_reference(limits), self._constraints, by_reference(packing)
        if self._plugins is NO_PLUGINS:
            draft = by_reference(Problem(self._given, *parts, self._scratch[0], NO_PLUGINS))
            self._plugins = self._grower.plugins(draft.kind, limits, self._columns)

        def of_threads(matrices: Iterable[Reference]) -> list[Reference]:
            return [
                by_reference(Problem(matrix, *parts, scratch, self._plugins))
                for matrix, scratch in zip(matrices, self._scratch, strict=False)
            ]

        self._grower.set_problems(of_threads(repeat(self._given)), of_threads(self._local))

    def _pack(
        self, columns: tuple[np.ndarray, ...], means: tuple[float, float], scale: Scale
    ) -> Samples:
        """Pack the gradients and hessians of the rows of all trees into words; set the roots.

        ``columns`` holds the first four fields of `RowWords`; ``means`` are as in `grow`.
        """
        (gradient, hessian, whole, inside), word, sums = columns, self._word, self._row_sums
        self._scales[:] = (*two_factors(scale.gradient), *two_factors(scale.hessian))
        largest = (1 << GRADIENT_BITS, 1 << HESSIAN_BITS)
        if whole.size:
            largest = (1 << VALUE_BITS, self._heaviest)
        in_units = np.ldexp(means, (scale.gradient, scale.hessian))
        self._bits[0] = hessian_bits((float(in_units[0]), float(in_units[1])), largest)
        of_rows = word, self._summands, self._row, sums
        buffers = self._scales, self._rounding_keys, self._bits, *of_rows
        words = self._words.to(RowWords(gradient, hessian, whole, inside, *buffers))
        self.pool.run(PACK_ROWS, words, gradient.size // QUANTISE_CHUNK)
        n, n_trees, roots = len(inside) or gradient.shape[1], len(word), self._roots
        chunks = -(-n // QUANTISE_CHUNK)
        roots[:, 0], roots[:, 1] = np.arange(n_trees) * n, n
        roots[:, 2:] = sums[: n_trees * chunks].reshape(n_trees, chunks, 2).sum(axis=1)
        codes, shape = self._matrix.codes, self._grower.shape
        of_columns = self._codes_by_row, shape.n_columns, self._columns
        bits, summands = int(self._bits[0]), self._summands
        fits = min(((1 << (63 - bits)) - 1) // largest[0], ((1 << bits) - 1) // largest[1])
        of_words = bits, *largest, 0 if summands.size else fits, shape.tile
        return Samples(codes, *of_columns, word, *of_words, summands)
