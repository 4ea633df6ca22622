"""The interface of a backend, and exactly what `grow` computes. This text is the contract.

A tree is a function of (binned matrix, target, options, rows of the tree, features of the tree,
root key), fixed below down to the last bit; how a backend computes it, and in what order, is left
to the backend. All statistics are integers, so sums need no order. Everything in float64 is written
once, in `gpuboost.engine.criteria`, `numerics` and `randomness`.

**Sums of a node.** Over its rows: ``h`` = sum of weight; ``g[k]`` = sum of weight where class is k
(K > 2 classes), sum of weight where class is 1 (two classes, K = 1), sum of
weight * values[:, k] (regression), sum of weight * sign[:, k] about the node's own medians, or sum
of gradient[:, k] (boosting, where weights are hessians); ``count`` = rows. A bin of a feature is
*occupied* when its ``h`` is positive.

**Medians** (`MedianTarget`). Let C(v) be the sum of median_weight (of the tree's weights if that is
None) over a node's rows with ranks[:, k] <= v, and W the sum over all its rows. ``lower`` is the
smallest v with 2 C(v) >= W, ``upper`` the smallest with 2 C(v) > W; the median of output k is
midway between them, as in `engine.order_statistics`. A row's sign is (ranks[:, k] >= upper) -
(ranks[:, k] <= lower). Every node has ``sums``, whose columns are: lower and upper of every k; for
every k the sums of sign * wide for the two planes of y[:, k] and the two planes of the weight; and
the sums of the two planes of the weight. All but lower and upper are sums of products with the
row's weight if ``TreeRows.draws``.

**Leaves before any search.** A node is not searched if depth == max_depth,
count < min_samples_split, count < 2 * min_samples_leaf, h < 2 * min_hessian, or it is pure.
min_hessian is the larger of the option of that name and ceil(min_weight_fraction_leaf * h_root).
Pure means, for classes: one class has all of ``h``; for regression: all rows with positive weight
have the same ``values``; for medians: they have the same signs; for boosting: never.

**Features.** A node may split on the tree's features; of these, on the level_features that have the
smallest `randomness.feature_rank` under the `randomness.level_key` of the root's key and the depth;
of these, with interactions, on those in groups that hold every feature split on between the root
and the node. A node with key ``key`` considers them in ascending `randomness.feature_rank`, or
without hashed_order in the order of their numbers. A feature *could split* if at least two of its
bins, the missing bin included, are occupied. The first max_features are considered; while none of
them could split, the next one is considered, until one could or none is left.

**Candidates of a numeric feature.** ``(b, missing right)``: left is every value bin <= b, for every
occupied value bin b; ``(b, missing left)``, only if the missing bin is occupied: left is that and
the missing bin. Valid if both sides have ``h`` >= min_hessian and count >= min_samples_leaf, and
for missing left also at least one occupied value bin on each side. Of equal scores the lower b
wins, then missing right. Missing is `MISSING_UNSEEN` where the missing bin is not occupied. The
winner's ``bin`` is b, ``next_bin`` the next occupied value bin, `ONLY_MISSING_RIGHT` if there is
none. (Rows whose weight was rounded to zero follow their code; missing ones go right unless missing
goes left.)

**Random thresholds.** With lo and hi the lowest and highest occupied value bin, a and c their
centres (`BinMapper.center`) and u = `randomness.threshold_draw`: the draw is
``a * (1 - u) + c * u`` and b the last bin in [lo, hi - 1] whose centre is at most the draw (lo if
none is); ``bin`` = b, ``next_bin`` = b + 1. If lo == hi (the missing bin is the other occupied
one): b = lo, no draw, next_bin = `ONLY_MISSING_RIGHT`. The direction of missing values is drawn
too: if `randomness.missing_goes_left` is 1, the only candidate has missing left, and is not valid
where no value bin on the right is occupied; else the only candidate has missing right.

**Categorical features.** The levels are the value bins of the mapper. With random thresholds, left
is every occupied category with `randomness.category_goes_left`; if that is none or all of them,
left is the lowest occupied one alone (if only one is occupied beside missing, it is left).
Otherwise, with at most `ONE_HOT_LEVELS` levels: for each occupied category b in turn, left is b
alone. Otherwise *rare* categories, those whose ``h`` is below
ceil(min_category_fraction * h_root), count as missing: their sums are added to the missing bin, and
they go where it goes. The other occupied categories are sorted by ascending g/h (float64 division),
equal ones by code. ``g`` is that of the only channel; with several classes, of the node's largest
class (the first of equals); with several outputs, the sum over outputs. The candidates are the
first b + 1 of them, b = 0, 1, ... Missing goes right or left as for numeric features. It may also
be alone on the right, with all occupied categories left (when they are sorted, only if it holds as
much as a category that is not rare). Validity and ties are as for numeric features, with b the
position in that order. ``bin`` and ``next_bin`` are 0; a row of ``masks`` is 16 words, 8 for the
occupied categories that go left and 8 for all occupied ones, rare ones included (`finish_tree`
sends the others where missing goes).

**Score.** VARIANCE: `variance_gain` of the terms added over k = 0..K-1. ENTROPY: terms of the
classes in order (two classes: first ``h - g``, then ``g``). MISCLASSIFICATION: maxima over the
classes. TWOING: `twoing_score` of the terms of the classes, added in the order of ENTROPY. POISSON:
`poisson_score` of the `poisson_term` added over k; invalid where a side has no ``g[k]``. NEWTON:
the values of the left, the right and the node are their `values_in_bounds` within the node's
bounds; the score is `newton_gain` of their `newton_term`, each added over k. It is not valid if it
is negative, or if the feature is monotonic and the left value is above (1) or below (-1) the right
one. Features are compared by score; of equal scores, the one earlier in the node's order wins.
``gain`` = score / h for VARIANCE, the score itself for the others; `GrownTree.gain` holds it. There
is no split if no candidate is valid, if gain is zero and needs_gain, or if
gain * gain_unit / h_root + 2**-52 < min_impurity_decrease (`Target.gain_unit`).

**Bounds** (NEWTON). The root's bounds are -max_value and max_value; children inherit those of their
parent. A split on a monotonic feature also puts the `middle` of its two values between them, as the
upper bound of the child with lower values and the lower bound of the other (`bounds_of_children`).

**Children.** Rows follow their code; keys are `randomness.left_key` and `right_key`. With
max_leaf_nodes, the tree is grown best-first: the splittable node with the largest gain is split
next (of equal gains, the node with the smaller key), until there are max_leaf_nodes leaves.

**Numbering** is breadth-first: level by level, children of a level in the order of their parents,
left before right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from gpuboost.engine.bins import BinMapper, BinnedMatrix, BinRule
from gpuboost.engine.ensembles.adaboost_task import ReweightTask, Round
from gpuboost.engine.ensembles.boosting_task import BoostTask, DoneRound
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.tree import ThresholdFinder, Tree
from gpuboost.engine.sampling import RowSampler
from gpuboost.engine.task import GrownTree, GrowTask


class Backend(Protocol):
    """A device that can bin, grow and predict.

    ``X`` is float32 or float64 (n, F) in any memory order: a NumPy array, or for CUDA also a CuPy
    array on the device. `predict` and `apply` return arrays where ``X`` is; the codes of a
    `BinnedMatrix` are where the backend needs them. Weights and the arrays of targets and samplers
    are NumPy arrays; for CUDA they may instead all be on its device.
    """

    name: str

    @property
    def threshold_finder(self) -> ThresholdFinder | None:
        """A faster replacement for `engine.growth.tree.find_thresholds`, or None."""

    def fit_bins(self, X: np.ndarray, rule: BinRule, n_threads: int) -> BinnedMatrix:
        """Learn the bins of ``X``, equal to those of `data.binning.fit_bin_mapper`, and bin it."""

    def bin(self, X: np.ndarray, mapper: BinMapper, n_threads: int) -> BinnedMatrix:
        """Codes of ``X`` by the bins of ``mapper``."""

    def grow(self, task: GrowTask) -> Iterator[tuple[int, GrownTree]]:
        """Grow the trees of ``task``; yield (tree, grown) in the order of ``task.trees``."""

    def grow_finished(self, task: GrowTask) -> Iterator[tuple[int, Tree]]:
        """Grow the trees of ``task``, whose rows its sampler draws, and finish them.

        Yields (tree, finished) in the order of ``task.trees``. Each tree equals, bit for bit, what
        `engine.growth.tree.finish_tree` makes of the tree from `grow` and of `RowSampler.brief`.

        Raises
        ------
        ValueError
            None of the rows drawn for a tree has positive weight.
        """

    def predict(self, ensemble: Ensemble, X: np.ndarray, n_threads: int) -> np.ndarray:
        """Sum over trees, in their order, of the value of each row's leaf: float64 (n, V)."""

    def apply(self, ensemble: Ensemble, X: np.ndarray, n_threads: int) -> np.ndarray:
        """Leaf of each row in each tree, numbered within the tree: int32 (n, T)."""

    def sum_out_of_bag(
        self,
        ensemble: Ensemble,
        matrix: BinnedMatrix,
        draws: Sequence[tuple[RowSampler, int]],
        n_threads: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum, for each row, its leaf values in the trees that did not draw it, in their order.

        Parameters
        ----------
        ensemble : Ensemble
            An ensemble that takes codes (`Ensemble.on_codes`).
        matrix : BinnedMatrix
            The data that the trees were grown on.
        draws : sequence of (RowSampler, int)
            The sampler that drew the rows of each tree, and the tree's number in it.

        Returns
        -------
        total : float64 (n, V), on the host
        count : int64 (n,)
            Number of trees that did not draw the row.
        """

    def booster(self, task: BoostTask) -> Booster:
        """Start a fit of gradient boosting."""

    def reweighter(self, task: ReweightTask) -> Reweighter:
        """Start a fit of AdaBoost."""


class Booster(Protocol):
    """A fit of gradient boosting, which holds the raw predictions of all its rows.

    What a round computes is fixed bit for bit by `engine.ensembles.boosting`, `engine.losses` and
    `Backend.grow`; `backends.host.boosting.HostBooster` is the reference. Row sets are the training
    rows (0) and the watched row sets (1, 2, ...). A watched set with the same matrix and the same
    initial raw predictions as the training rows shares their raw predictions.
    """

    def boost(self, number: int, learning_rate: float) -> FittedRound:
        """Fit the trees of round ``number`` and add them to the raw predictions of all rows.

        Raises
        ------
        ValueError
            None of the rows that the round draws has positive weight. If a device is still working
            on the round, this is raised when its trees or losses are read, or by the next call.
        """

    def raw_predictions(self, rows: int = 0) -> np.ndarray:
        """Raw predictions of a row set so far: float64 (n, columns), read-only."""

    def close(self) -> None:
        """Release what only the rounds need; no round follows."""


class FittedRound(Protocol):
    """A round of boosting that a device may still be working on."""

    def read(self) -> DoneRound:
        """Wait for the round and return its trees and mean losses."""


class Reweighter(Protocol):
    """A fit of AdaBoost, which holds the weights of all its rows.

    What a round computes is fixed bit for bit by `engine.ensembles.adaboost` and `Backend.grow`;
    `backends.host.adaboost.HostReweighter` is the reference.
    """

    def boost(self, number: int) -> Round:
        """Grow the tree of round ``number``, and compute the weights of the next round.

        Rounds are called in order, from 0 on. Round ``number`` follows only if
        `adaboost_task.goes_on` holds for the error of the round before.
        """
