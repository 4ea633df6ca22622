"""Boosting rounds grown level by level: pack the gradients into words, then grow the trees."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

import numpy as np

from gpuboost.backends.numba.boosting.quantise import (
    QUANTISE_CHUNK,
    SHARED_ROWS,
    pack_words,
    place_rows,
    two_factors,
)
from gpuboost.backends.numba.common.arguments import (
    Weights,
    limits_of,
    make_scratch,
    matrix_of,
    min_category,
)
from gpuboost.backends.numba.common.constraints import constraints_of
from gpuboost.backends.numba.common.packed_words import choose_gradient_packing
from gpuboost.backends.numba.common.records import Problem
from gpuboost.backends.numba.common.row_major import row_major
from gpuboost.backends.numba.level_wise.feature_bundles import bundle_codes, plan_bundles
from gpuboost.backends.numba.level_wise.feature_sampling import CANDIDATE, EXCLUDED
from gpuboost.backends.numba.level_wise.grower import LevelGrower, Shape
from gpuboost.backends.numba.level_wise.histograms import ROWS_PER_CHECK
from gpuboost.backends.numba.level_wise.partition import Leaves
from gpuboost.backends.numba.level_wise.records import Samples
from gpuboost.backends.numba.references import Reference, by_reference
from gpuboost.backends.numba.splits.plugins import NO_PLUGINS
from gpuboost.backends.numba.threads.map import contiguous
from gpuboost.backends.numba.threads.pool import ThreadPool
from gpuboost.engine import randomness
from gpuboost.engine.ensembles.boosting import GRADIENT_BITS, HESSIAN_BITS, Gradients, Scale
from gpuboost.engine.ensembles.boosting_task import BoostTask
from gpuboost.engine.quantise import VALUE_BITS
from gpuboost.engine.sampling import root_key
from gpuboost.engine.task import GrownTree

# Largest ratio of all features to a node's candidate features, per thread of a tree, at which trees
# grow level by level. With 60k to 250k rows, both growers are equally fast (measured) at a ratio of
# 5 to 10 with 100 columns and two threads, at a larger ratio with 28 columns, and at a ratio of 2
# to 5 on one thread.
MAX_PASSED_OVER = 3
MIN_LEVEL_WISE_ROWS = 4_000  # with fewer rows depth-first growth is faster (measured)


def grows_by_levels(task: BoostTask) -> bool:
    """Whether the trees of the rounds are grown level by level, by all threads together.

    Level-wise growth requires one channel, a maximum depth above 0, no random thresholds, the same
    limits for all trees of a round (so with several trees, neither min_weight_fraction_leaf nor
    min_impurity_decrease), enough candidate features per node, enough memory, enough rows and a
    dense matrix. All other trees are grown depth-first, each by one thread. In level-wise growth of
    deep trees, the subtrees of small nodes are also grown depth-first, and all threads share them
    (`level_wise.subtrees`).

    A round of 200k x 28 with two threads takes, depth-first and level by level: 120 and 39 ms with
    12 levels; 183 and 57 ms with unlimited depth and 20 rows per leaf. With 6 levels: 32 and 8 ms
    with half of the features per node; 13 and 8 ms with 5 features per node; 23 and 10 ms with half
    of them per level; 18 and 10 ms with interaction groups.
    """
    options = task.options
    one_channel = task.loss.columns == 1 or not task.sums_outputs
    ordinary = options.max_depth > 0 and not options.random_thresholds
    alike = options.min_weight_fraction_leaf == 0.0 and options.min_impurity_decrease == 0.0
    alike |= task.trees_per_round == 1
    large = task.matrix.n_samples >= MIN_LEVEL_WISE_ROWS
    large &= not task.matrix.grows_sparse
    if not (one_channel and ordinary and alike and large and _has_enough_features(task)):
        return False
    return shape_of(task).fits


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


class LevelRounds:
    """The buffers and steps of a fit whose trees are grown level by level."""

    def __init__(self, task: BoostTask, pool: ThreadPool) -> None:
        shape = shape_of(task)
        self.task, self.pool = task, pool
        self._grower, self._matrix = LevelGrower(shape), matrix_of(task.matrix)
        self._columns = plan_bundles(self._matrix)
        self.are_features = shape.n_columns == shape.n_features  # no column is a bundle
        self.by_row = row_major(bundle_codes(self._matrix, self._columns), pool)
        n, n_trees = shape.n_samples, shape.n_trees
        self._word = np.empty((n_trees, n), np.int64)
        self.leaf = np.zeros((n_trees, n), np.int32)
        self._sums = np.zeros((self._grower.n_chunks, 2, 3), np.int64)
        self._row_sums = np.zeros((n_trees * -(-n // QUANTISE_CHUNK), 2), np.int64)
        threads = range(task.n_threads)
        self._scratch = [by_reference(make_scratch(0, shape.n_features)) for _ in threads]
        self._given, codes = by_reference(self._matrix), self._grower.local_codes
        self._local = [by_reference(self._matrix._replace(codes=own)) for own in codes]
        self._constraints = by_reference(constraints_of(task.options, shape.n_features))
        self._plugins = NO_PLUGINS

    def grow(
        self, made: Gradients, means: tuple[float, float], scale: Scale, trees: range
    ) -> list[GrownTree]:
        """Grow the trees of one round, numbered ``trees``; write the leaf of each row to `leaf`.

        The leaves of rows outside the trees are not set. ``means`` are the approximate mean
        magnitudes of the gradients and hessians.
        """
        gradient, hessian = (contiguous(x.T, np.float64) for x in (made.gradient, made.hessian))
        rows = np.zeros(0, np.uint32)  # all rows
        if made.inside is not None:
            rows = np.flatnonzero(made.inside).astype(np.uint32)
        whole = contiguous(rows[:0] if made.whole is None else made.whole, np.int32)
        samples = self._pack((gradient, hessian, whole), means, scale, trees)
        roots = self._load(samples, rows)
        keys = np.array([root_key(self.task.seed, tree) for tree in trees], np.uint64)
        scales = np.array((*two_factors(scale.wide_gradient), *two_factors(scale.wide_hessian)))
        leaves = Leaves(gradient, hessian, scales, self.leaf, self._sums)
        self._allow_features(trees)
        minimum = [min_category(self.task.options, int(root)) for root in roots[:, 3]]
        self._grower.state.min_category[: len(minimum)] = minimum
        are_ones = made.whole is not None and bool(whole.max() <= 1)
        weights = Weights(int(roots[0, 3]), are_ones, some_are_zero=False)
        problems = self._problems(scale, weights, samples)
        return self._grower.grow(self.pool, *problems, samples, roots, keys, leaves)

    def _allow_features(self, trees: range) -> None:
        """Set the features that each tree may split on."""
        features_of, space = self.task.features_of, self._grower
        state = space.state
        for place, tree in enumerate(trees):
            own = np.arange(self.task.matrix.n_features)
            if features_of is not None:
                own = np.unique(features_of(tree))
            state.features[place, : len(own)], state.n_features[place] = own, len(own)
            if not space.shape.node_sampling:
                space.work.feature_status[place] = EXCLUDED
                space.work.feature_status[place, own] = CANDIDATE

    def _problems(
        self, scale: Scale, weights: Weights, samples: Samples
    ) -> tuple[list[Reference], list[Reference]]:
        """The `Problem` of each thread, and those for small nodes; trees set their features."""
        options = scale.options(self.task.options, self.task.min_hessian)
        limits = limits_of(options, scale.target(1), weights)
        largest = samples.max_gradient, samples.max_hessian
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

        return of_threads(repeat(self._given)), of_threads(self._local)

    def _pack(
        self,
        columns: tuple[np.ndarray, ...],
        means: tuple[float, float],
        scale: Scale,
        trees: range,
    ) -> Samples:
        """Pack the gradients and hessians of all rows and trees into words.

        ``columns`` holds the first three arguments of `pack_words`; ``means`` are as in `grow`.
        """
        whole, word, seed = columns[2], self._word, self.task.seed
        scales = np.array((*two_factors(scale.gradient), *two_factors(scale.hessian)))
        means = tuple(np.ldexp(means, (scale.gradient, scale.hessian)))
        largest = (1 << GRADIENT_BITS, 1 << HESSIAN_BITS)
        if whole.size:
            largest = (1 << VALUE_BITS, int(whole.max()))
        bits, purpose = hessian_bits(means, largest), randomness.ROUND_GRADIENT
        keys = np.array([randomness.stream_key(seed, purpose, tree)[0] for tree in trees])
        given = *columns, scales, keys, bits, word
        self.pool.share(lambda _, barrier: pack_words(*given, barrier), word.size > SHARED_ROWS)
        codes, shape = self._matrix.codes, self._grower.shape
        of_columns = self.by_row.view(np.uint64), shape.n_columns, self._columns
        return Samples(codes, *of_columns, word, bits, *largest, shape.tile)

    def _load(self, samples: Samples, rows: np.ndarray) -> np.ndarray:
        """Write the initial order of the rows; return `SharedArrays.roots`."""
        word, bits, row = samples.word, samples.hessian_bits, self._grower.state.row[0]
        n, sums = len(rows) or word.shape[1], self._row_sums
        self.pool.share(
            lambda _, barrier: place_rows(word, bits, rows, row, sums, barrier),
            word.size > SHARED_ROWS,
        )
        n_trees = len(word)
        chunks = -(-n // QUANTISE_CHUNK)
        roots = np.empty((n_trees, 4), np.int64)
        roots[:, 0], roots[:, 1] = np.arange(n_trees) * n, n
        roots[:, 2:] = sums[: n_trees * chunks].reshape(n_trees, chunks, 2).sum(axis=1)
        return roots
