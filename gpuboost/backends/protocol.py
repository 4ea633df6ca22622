"""What a backend is, and what exactly `grow` computes. This text is the contract.

A tree is a function of (binned matrix, target, options, rows of the tree, features of the tree,
root key), fixed below down to the last bit; how and in what order a backend gets there is its own
affair. All statistics are integers, so sums need no order. Everything in float64 is written once,
in `gpuboost.engine.criteria`, `numerics` and `randomness`.

**Sums of a node.** Over its rows: ``h`` = sum of weight; ``g[k]`` = sum of weight where class is k
(K > 2 classes), sum of weight where class is 1 (two classes, K = 1), sum of
weight * values[:, k] (regression), sum of weight * sign[:, k] about the node's own medians, or sum
of gradient[:, k] (boosting, where weights are hessians); ``count`` = rows. A bin of a feature is
*occupied* when its ``h`` is positive.

**Medians** (`MedianTarget`). With C(v) the sum of median_weight, or of the tree's weights where
that is None, of a node's rows of ranks[:, k] <= v, and W that of all of them, ``lower`` is the
smallest v with 2 C(v) >= W, ``upper`` the smallest with 2 C(v) > W: the two that the median of
output k is the middle of, as in `engine.order_statistics`. A row's sign is (ranks[:, k] >= upper) -
(ranks[:, k] <= lower). All nodes have ``sums``, of columns: lower and upper of every k; for every k
the sums of sign * wide of the two planes of y[:, k] and of the two of the weight; and the sums of
wide of these last two; all but the first times weight if ``TreeRows.draws``.

**Leaf before any search** if depth == max_depth, count < min_samples_split,
count < 2 * min_samples_leaf, h < 2 * min_hessian, or the node is pure (classes: one class has all
of ``h``; regression: of every output the smallest and largest ``values`` of the rows with positive
weight agree; medians: the same of signs; boosting: never), where min_hessian is the larger of the
option of that name and ceil(min_weight_fraction_leaf * h_root).

**Features.** A node may look at the tree's features; of these, at the level_features of smallest
`randomness.feature_rank` by `randomness.level_key` of the root's key and the depth; of these, with
interactions, at those of the groups that hold every feature split on between the root and the node.
A node with key ``key`` looks at them in ascending `randomness.feature_rank`, without hashed_order
in the order of their numbers. A feature *could split* if at least two of its bins are occupied,
the missing bin among them. The first max_features are looked at; while none of them could split,
the next one, until one could or there is no more.

**Candidates of a numeric feature.** ``(b, missing right)``: left is every value bin <= b, for every
occupied value bin b; ``(b, missing left)``, only if the missing bin is occupied: left is that and
the missing bin. Valid if both sides have ``h`` >= min_hessian and count >= min_samples_leaf, and
for missing left also at least one occupied value bin on each side. Of equal scores the lower b
wins, then missing right. Missing is `MISSING_UNSEEN` where the missing bin is not occupied. The
winner's ``bin`` is b, ``next_bin`` the next occupied value bin, `ONLY_MISSING_RIGHT` if there is
none. (Rows whose weight was rounded to zero go by their code, a missing one right unless missing
goes left.)

**Random thresholds.** With lo and hi the lowest and highest occupied value bin, a and c their
centres (`BinMapper.center`) and u = `randomness.threshold_draw`: the draw is
``a * (1 - u) + c * u`` and b the last bin in [lo, hi - 1] whose centre is at most the draw (lo if
none is); ``bin`` = b, ``next_bin`` = b + 1. If lo == hi (the missing bin is the other occupied
one): b = lo, no draw, next_bin = `ONLY_MISSING_RIGHT`. The direction of missing values is drawn
too: there is only the candidate with missing left if `randomness.missing_goes_left` is 1, which is
not valid where the right has no occupied value bins, else the one with missing right.

**Categorical features.** Levels = value bins of the mapper. Random thresholds: left is every
occupied category with `randomness.category_goes_left`; if that is none or all, the lowest occupied
one alone (if only one is occupied beside missing, it is left). Otherwise with at most
`ONE_HOT_LEVELS` levels: for each occupied category b in turn, left is b alone. Otherwise *rare*
categories, those whose ``h`` is below ceil(min_category_fraction * h_root), are taken for missing:
what the missing bin holds here is what it holds together with them, and they go where it goes. The
other occupied categories stand in ascending order of g/h (float64 division; ``g`` of the one
channel; of several classes the node's largest class, the first of equals; of several outputs the
sum over outputs), lower code first of equals; the candidates are the first b + 1 of them, b = 0, 1,
... Missing goes right or left as for numbers (for categories also missing alone on the right when
all occupied categories are left; of sorted ones only if it holds as much as a category that is not
rare), validity and ties are the same with b the position in that order. ``bin`` and ``next_bin``
are 0; a row of ``masks`` is 16 words, 8 with the occupied categories that go left and 8 with all
occupied ones, rare ones too (`finish_tree` sends the others where missing goes).

**Score.** VARIANCE: `variance_gain` of the terms added over k = 0..K-1. ENTROPY: terms of the
classes in order (two classes: first ``h - g``, then ``g``). MISCLASSIFICATION: maxima over the
classes. TWOING: `twoing_gain` of the terms of the classes, added in the order of ENTROPY. POISSON:
`poisson_gain` of the `poisson_term` added over k; not valid where a side has no ``g[k]``. NEWTON:
the values of the left, the right and the node are their `values_in_bounds` within those of the
node; `newton_gain` of their `newton_term`, each added over k; not valid if it is negative, or if
the feature is monotonic and the left value is above (1) or below (-1) the right one. Features
compare by score; of equal scores the one earlier in the node's order wins. ``gain`` = score / h for
VARIANCE, the score itself for the others; `GrownTree.gain` holds it. No split if no candidate is
valid, if gain is zero and needs_gain, or if gain * gain_unit / h_root + 2**-52 <
min_impurity_decrease (`Target.gain_unit`).

**Bounds** (NEWTON) of the root are -max_value and max_value; children have those of their parent.
A split by a monotonic feature puts `middle` of its two values between them, as the upper bound of
the child with lower values and the lower bound of the other (`bounds_of_children`).

**Children.** Rows go by code; keys are `randomness.left_key` and `right_key`. With max_leaf_nodes,
the tree is the one best-first growth finds: the splittable node with the largest gain is split
next, of equal ones that with the smaller key, until there are max_leaf_nodes leaves.

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

    ``X`` is float32 or float64 (n, F) in any memory order: an array of NumPy, or for CUDA also one
    of CuPy on the device. What `predict` and `apply` return is where ``X`` is; the codes of a
    `BinnedMatrix` are where the backend needs them. Weights, the arrays of a target and those of a
    sampler are NumPy's, or for CUDA all of them may lie on its device.
    """

    name: str

    @property
    def threshold_finder(self) -> ThresholdFinder | None:
        """What finds the thresholds of a tree sooner than `engine.growth.tree`, if anything."""

    def fit_bins(self, X: np.ndarray, rule: BinRule, n_threads: int) -> BinnedMatrix:
        """Learn the bins of ``X``, equal to those of `data.binning.fit_bin_mapper`, and code it."""

    def bin(self, X: np.ndarray, mapper: BinMapper, n_threads: int) -> BinnedMatrix:
        """Codes of ``X`` by bins that are known."""

    def grow(self, task: GrowTask) -> Iterator[tuple[int, GrownTree]]:
        """Grow the trees of ``task``; yields (tree, grown) in the order of ``task.trees``."""

    def grow_finished(self, task: GrowTask) -> Iterator[tuple[int, Tree]]:
        """Grow the trees of ``task``, whose rows its sampler makes, and finish them.

        Yields (tree, finished) in the order of ``task.trees``: what `finish_tree` of
        `engine.growth.tree` makes of what `grow` yields and `RowSampler.brief`, bit by bit,
        wherever it is made.

        Raises
        ------
        ValueError
            None of the rows drawn for a tree has weight.
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
        """Out-of-bag sums: each row's leaf values of the trees that did not draw it, in order.

        Parameters
        ----------
        ensemble : Ensemble
            One that takes codes (`Ensemble.on_codes`).
        matrix : BinnedMatrix
            What the trees were grown on.
        draws : sequence of (RowSampler, int)
            What drew the rows of each tree, and its number there.

        Returns
        -------
        total : float64 (n, V), on the host
        count : int64 (n,)
            Trees that did not draw the row.
        """

    def booster(self, task: BoostTask) -> Booster:
        """Start a fit of gradient boosting."""

    def reweighter(self, task: ReweightTask) -> Reweighter:
        """Start a fit of AdaBoost."""


class Booster(Protocol):
    """A fit of gradient boosting: raw predictions of all its rows, where the backend has them.

    What a round computes is fixed by `engine.ensembles.boosting`, `engine.losses` and
    `Backend.grow`, bit by bit; `backends.host.boosting.HostBooster` is the reference. Row sets are
    the training rows (0) and those that are watched (1, 2, ...). One that has the matrix and the
    start of the training rows has their raw predictions too.
    """

    def boost(self, number: int, learning_rate: float) -> FittedRound:
        """Fit the trees of round ``number`` and add them to the raw predictions of all rows.

        Raises
        ------
        ValueError
            None of the rows that the round draws has weight. Of a round that a device is still
            busy with this is raised where its trees or losses are asked for, or by the next call.
        """

    def raw_predictions(self, rows: int = 0) -> np.ndarray:
        """Raw predictions of a row set so far: float64 (n, columns), not to be written to."""

    def close(self) -> None:
        """Give back what only a fit needs; there are no more rounds."""


class FittedRound(Protocol):
    """A round of boosting, with which a device may still be busy."""

    def read(self) -> DoneRound:
        """Wait for the round and return its trees and mean losses."""


class Reweighter(Protocol):
    """A fit of AdaBoost: the weights of all its rows, where the backend has them.

    What a round computes is fixed by `engine.ensembles.adaboost` and `Backend.grow`, bit by bit;
    `backends.host.adaboost.HostReweighter` is the reference.
    """

    def boost(self, number: int) -> Round:
        """Grow the tree of round ``number``, and make the weights of the next.

        Rounds come one after the other, from 0 on. None comes after one that `reweighting.goes_on`
        says no weights follow from.
        """
