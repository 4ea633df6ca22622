"""The interface of a backend, and the exact definition of the trees that `grow` returns.

A tree is a function of (binned matrix, target, options, rows of the tree, features of the tree,
root key), which this text defines down to the last bit; each backend chooses how, and in what
order, to compute it. All statistics are integers, so their sums do not depend on the order. Each
float64 formula is written once in `gpuboost.engine`, most of them in `criteria` and `numerics`.

**Sums of a node.** ``h`` is the sum of the weights of its rows, ``count`` the number of rows.
``g[k]`` is the sum over rows of: weight where the class is k (K > 2 classes), weight where the
class is 1 (one or two classes, K = 1), weight * values[:, k] (regression), weight * sign[:, k]
about the medians of the node, or gradient[:, k] (boosting, where weights are hessians). A bin of a
feature is *occupied* if its ``h`` is positive.

**Medians** (`MedianTarget`). Let C(v) be the sum of median_weight (of the tree's weights if
median_weight is None) over a node's rows with ranks[:, k] <= v, and W the sum over all rows of the
node. ``lower`` is the smallest v with 2 C(v) >= W, ``upper`` the smallest v with 2 C(v) > W. The
median of output k is midway between the targets of these ranks (`engine.order_statistics`). The
sign of a row is (ranks[:, k] >= upper) - (ranks[:, k] <= lower). Every node has ``sums``, whose
columns are: lower and upper of every k; for every k the sums of sign * wide for the two planes of
the centred y[:, k] and the two planes of the weight; and the sums of the two planes of the weight.
In ``wide``, the centred y is multiplied by the weight if weights are real-valued; otherwise, the
weight is 1. If ``TreeRows.draws`` is set, each term of these sums is multiplied by the weight of
its row.

**Leaves before any search.** A node is not searched if depth == max_depth,
count < min_samples_split, count < 2 * min_samples_leaf, h < 2 * min_hessian, or it is pure.
Here min_hessian is the larger of the option min_hessian and ceil(min_weight_fraction_leaf *
h_root). For classes, a node is pure if one class has all of ``h``; for regression and for classes
of several outputs, if all rows with positive weight have the same ``values``; for medians, if all
rows with positive weight have the same signs. In boosting, no node is pure.

**Features.** A level considers only level_features of the tree's features: the features with the
smallest `randomness.feature_rank` under the `randomness.level_key` of the root's key and the depth.
With interactions, a node considers only the features in groups that contain every feature split on
between the root and the node. The node considers its features in ascending
`randomness.feature_rank` of its ``key`` or, without hashed_order, in the order of their numbers. A
feature *could split* if at least two of its bins, the missing bin included, are occupied. The first
max_features features are considered; if none of them could split, also the following ones up to the
first that could.

**Candidates of a numeric feature.** For every occupied value bin b there is a candidate
``(b, missing right)``, whose left side is every value bin <= b. If the missing bin is occupied,
there is also ``(b, missing left)``, whose left side has the missing bin too. A candidate is valid
if both sides have ``h`` >= min_hessian and count >= min_samples_leaf; with missing left, each side
also needs an occupied value bin. Of candidates with equal scores, the lower b wins, then missing
right. ``missing`` is `MISSING_UNSEEN` if the missing bin is not occupied. The ``bin`` of the winner
is b, its ``next_bin`` the next occupied value bin, or `ONLY_MISSING_RIGHT` if there is none. (Rows
whose weight was rounded to zero follow their code; if their value is missing, they go right unless
missing values go left.)

**Random thresholds.** With lo and hi the lowest and highest occupied value bin, a and c their
centres (`BinMapper.center`) and u = `randomness.threshold_draw`: the draw is
``a * (1 - u) + c * u`` and b the last bin in [lo, hi - 1] whose centre is at most the draw (lo if
none is); ``bin`` = b, ``next_bin`` = b + 1. If lo == hi, the missing bin is the other occupied bin:
then b = lo, ``next_bin`` is `ONLY_MISSING_RIGHT`, and missing values go right. Otherwise, if the
missing bin is occupied, the direction of missing values is drawn, too: if
`randomness.missing_goes_left` is 1, the only candidate has missing left, and is valid only if a
value bin on the right is occupied. In all other cases, the only candidate has missing right.

**Categorical features.** The categories are the value bins of the mapper. With random thresholds,
the left side is every occupied category with `randomness.category_goes_left`; if that selects no
category or all of them, the left side is the lowest occupied category alone. Otherwise, with at
most `ONE_HOT_CATEGORIES` categories, there is a candidate for each occupied category b in turn,
whose left side is b alone. Otherwise, *rare* categories, whose ``h`` is below
ceil(min_category_fraction * h_root), count as missing: their sums are added to the missing bin, and
they go where missing values go. The other occupied categories are sorted by ascending g/h (float64
division), equal ones by code. Here ``g`` is the gradient of the only channel; with several classes,
of the largest class of the node (the first of equals), of any output; with several values, the sum
over outputs.
The left side of candidate b = 0, 1, ... is the first b + 1 categories in this order. Missing values
go right or left as for numeric features. They can also be alone on the right, with all occupied
categories on the left (if categories are sorted, only if ``h`` of the missing bin, with the rare
categories, is not below the bound for rare categories). Validity and ties are as for numeric
features, where b is the position in the order. ``bin`` and ``next_bin`` are 0; a row of ``masks``
has 16 words: 8 for the occupied categories that go left and 8 for all occupied categories, rare
ones included (`finish_tree` sends all others where missing values go).

**Score.** The row of `criteria.CRITERIA` for the criterion has two functions. From three sums of
zero, ``add`` adds the channels in the order k = 0..K-1; its ``limits`` are the penalties and the
bounds of the node. With one or two classes, a row with both_classes adds the first class,
``h - g``, before the only channel, ``g``. The score of a candidate is ``score`` of these sums. If
``scored_together`` of the target is below K, each group of so many channels is scored alone, and
the scores are added in order. A
candidate is not valid if its score is negative, or if its feature is monotonic and, in a channel,
the left value is above (direction 1) or below (direction -1) the right value; these values are
`values_in_bounds` within the node's bounds. Features are compared by score; of features with equal
scores, the one earlier in the node's order wins. ``gain`` is `gain_of` of the score: score / h if
the row has times_hessian, else the score itself; `GrownTree.gain` holds it. There is no split if no
candidate is valid, if gain is zero and needs_gain is set, or if
gain * gain_unit / h_root + 2**-52 < min_impurity_decrease (`Target.gain_unit`).

**Bounds** (NEWTON). The root's bounds are -max_value and max_value; children inherit the bounds of
their parent. A split on a monotonic feature also makes the `middle` of its two values the upper
bound of the child with lower values and the lower bound of the other child (`bounds_of_children`).

**Children.** Rows follow their code; keys are `randomness.left_key` and `right_key`. With
max_leaf_nodes, the tree is grown best-first: the splittable node with the largest gain is split
next (of equal gains, the node with the smaller key), until there are max_leaf_nodes leaves or no
node can be split.

**Numbering** is breadth-first: level by level, children of a level in the order of their parents,
left before right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from gpuboost.data.sparse_features import Features
from gpuboost.engine.bins import BinMapper, BinnedMatrix, BinRule
from gpuboost.engine.ensembles.adaboost_task import ReweightTask, Round
from gpuboost.engine.ensembles.boosting_task import BoostTask, DoneRound
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.explanations.additive import AdditiveModel
from gpuboost.engine.growth.tree import ThresholdFinder, Tree
from gpuboost.engine.sampling import RowSampler
from gpuboost.engine.task import GrownTree, GrowTask


class Backend(Protocol):
    """A device that can bin, grow and predict.

    ``X`` is float32 or float64 (n, F) in any memory order: a NumPy array, or for CUDA also a CuPy
    array on the device. For binning, it can also be `SparseFeatures`, whose codes are on the host.
    For `Ensemble.on_codes`, it holds codes, NaN where missing. `predict` and `apply` return NumPy
    arrays, or CuPy arrays if ``X`` is one; the codes of a `BinnedMatrix` are in the memory that the
    backend reads. Weights and the arrays of targets and samplers are NumPy arrays; for CUDA they
    can instead all be on the device. ``n_threads`` is the number of host threads.
    """

    name: str

    @property
    def threshold_finder(self) -> ThresholdFinder | None:
        """A faster replacement for `engine.growth.tree.find_thresholds`, or None."""

    def fit_bins(self, X: Features, rule: BinRule, n_threads: int) -> BinnedMatrix:
        """Learn the bins of ``X`` as `data.binning.learn_bins` does, and bin ``X``."""

    def bin(self, X: Features, mapper: BinMapper, n_threads: int) -> BinnedMatrix:
        """Bin ``X`` with the bins of ``mapper``."""

    def grow(self, task: GrowTask) -> Iterator[tuple[int, GrownTree]]:
        """Grow the trees of ``task``; yield (tree, grown) in the order of ``task.trees``."""

    def grow_finished(self, task: GrowTask) -> Iterator[tuple[int, Tree]]:
        """Grow the trees of ``task``, whose rows its sampler draws, and finish them.

        Yields (tree, finished) in the order of ``task.trees``. Each tree equals, bit for bit, the
        result of `engine.growth.tree.finish_tree` for the tree of `grow` and
        `RowSampler.shared_rows`.

        Raises
        ------
        ValueError
            None of the rows drawn for a tree has positive weight.
        """

    def predict(self, ensemble: Ensemble, X: np.ndarray, n_threads: int) -> np.ndarray:
        """Sum over trees, in order, of the value of each row's leaf: float64 (n, n_values)."""

    def apply(self, ensemble: Ensemble, X: np.ndarray, n_threads: int) -> np.ndarray:
        """Leaf of each row in each tree, numbered within the tree: int32 (n, n_trees)."""

    def sum_out_of_bag(
        self,
        ensemble: Ensemble,
        matrix: BinnedMatrix,
        draws: Sequence[tuple[RowSampler, int]],
        n_threads: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum the leaf values of each row over the trees that did not draw the row, in order.

        Parameters
        ----------
        ensemble : Ensemble
            An ensemble that takes codes (`Ensemble.on_codes`).
        matrix : BinnedMatrix
            The data that the trees were grown on.
        draws : sequence of (RowSampler, int)
            The sampler that drew the rows of each tree, and the tree's number in the sampler.

        Returns
        -------
        total : float64 (n, n_values), on the host
            Sum of the leaf values of each row.
        count : int64 (n,), on the host
            Number of trees that did not draw the row.
        """

    def shap_values(self, model: AdditiveModel, X: np.ndarray, n_threads: int) -> np.ndarray:
        """Path-dependent SHAP values: int64 (n, n_features, n_outputs), on the host.

        `engine.explanations.path_trees` defines them, `backends.numpy.explain` is the reference.
        ``X`` has the columns that the trees split on. Results are integers: values times
        `AdditiveModel.scale`.
        """

    def shap_interactions(self, model: AdditiveModel, X: np.ndarray, n_threads: int) -> np.ndarray:
        """Path-dependent SHAP interaction values: int64 (n, n_features, n_features, n_outputs)."""

    def interventional_shap(
        self, model: AdditiveModel, X: np.ndarray, background: np.ndarray, n_threads: int
    ) -> np.ndarray:
        """Interventional SHAP values, summed over the rows of ``background``: see `shap_values`."""

    def booster(self, task: BoostTask) -> Booster:
        """Start a fit of gradient boosting."""

    def reweighter(self, task: ReweightTask) -> Reweighter:
        """Start a fit of AdaBoost."""


class Booster(Protocol):
    """A fit of gradient boosting, which holds the raw predictions of all its rows.

    The result of a round is defined bit for bit by `engine.ensembles.boosting`, `engine.losses` and
    `Backend.grow`; `backends.host.boosting.HostBooster` is the reference. Row sets are the training
    rows (number 0) and the watched row sets (1, 2, ...). A watched set shares the raw predictions
    of the training rows if its matrix and its initial raw predictions are the same objects.
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
        """Raw predictions of a row set so far: float64 (n, columns); callers do not change them."""

    def close(self) -> None:
        """Release the memory that only rounds need; `boost` is not called again."""


class FittedRound(Protocol):
    """A round of boosting, which a device can still be working on."""

    def read(self) -> DoneRound:
        """Wait for the round and return its trees and mean losses."""


class Reweighter(Protocol):
    """A fit of AdaBoost, which holds the weights of all its rows.

    The result of a round is defined bit for bit by `engine.ensembles.adaboost` and `Backend.grow`;
    `backends.host.adaboost.HostReweighter` is the reference.
    """

    def boost(self, number: int) -> Round:
        """Grow the tree of round ``number``, and compute the weights of the next round.

        Rounds are called in order, from 0 on. Another round follows only if
        `adaboost_task.goes_on` holds for the error of the last round.
        """
