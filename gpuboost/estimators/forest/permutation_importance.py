"""Out-of-bag permutation importance: how much worse trees predict if a feature is permuted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from gpuboost.backends.cost_model import WorkTimes
from gpuboost.backends.prediction_cost import prediction_work, threads_that_pay
from gpuboost.backends.protocol import Backend
from gpuboost.data.sparse_features import Features, SparseFeatures
from gpuboost.engine.array_modules import copy_to_host
from gpuboost.engine.bins import BinnedMatrix, SparseCodes
from gpuboost.engine.code_blocks import CodeBlocks
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.fixed_point import total_of
from gpuboost.engine.growth.reduced_error import ClassRows, ValueRows
from gpuboost.engine.growth.tree import Tree, levels, on_features
from gpuboost.engine.randomness import PERMUTE_ROWS, hash_index, stream_key
from gpuboost.estimators.forest.out_of_bag import check_training_rows, is_out_of_bag
from gpuboost.estimators.model.fitted import FittedTrees
from gpuboost.estimators.trees.pruning import known_rows


def oob_permutation_importance(self: Any, X: Any, y: Any, sample_weight: Any = None) -> Bunch:
    """Permutation importance of each feature on the out-of-bag rows of each tree.

    For each tree and feature, it is the increase of the tree's mean loss on the rows that were not
    drawn for the tree when the values of the feature are permuted among these rows (Breiman: Random
    forests, 2001, section 10). The loss of a classifier is 1 for a row whose class is not the most
    probable class of its leaf, that of a regressor the squared error; with several outputs, losses
    are averaged. A feature that a tree does not split on has importance 0 in the tree.

    Unlike ``feature_importances_``, this measures predictions of rows that the tree has not seen,
    so a feature of noise has an importance near 0, however many values it has. Features that hold
    the same information share their importance.

    Permutations are hashes of the seed of the fit, the tree, the feature and the row, so the result
    is the same on any device and with any number of threads.

    Parameters
    ----------
    X : array-like, sparse matrix, data frame or Dataset of shape (n_samples, n_features)
        The X that the estimator was fitted on, which it does not keep.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        The y that the estimator was fitted on.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows in mean losses.

    Returns
    -------
    Bunch
        ``importances`` of shape (n_features, n_trees), NaN for trees without out-of-bag rows, and
        ``importances_mean`` and ``importances_std``, their mean and standard deviation over the
        other trees, of shape (n_features,).

    Raises
    ------
    NotFittedError
        The estimator is not fitted.
    TypeError, ValueError
        An argument does not fit the model, or no tree has out-of-bag rows; the message says what is
        allowed.
    RuntimeError
        The device cannot be used here; the message says why.
    """

    def run(
        model: FittedTrees, data: Features | BinnedMatrix, backend: Backend, n_threads: int
    ) -> np.ndarray:
        check_training_rows(model.batches, len(data))
        rows = known_rows(self, y, sample_weight, len(data), what="y")
        values_of, trees = _values_of(data), model._trees_for(data).trees
        found = np.full((self.n_features_in_, len(trees)), np.nan)
        for batch in model.batches:
            for number in batch.trees:
                seen = is_out_of_bag(batch.sampler, number) & (rows.weights > 0.0)
                if seen.any():
                    key = stream_key(batch.sampler.seed, PERMUTE_ROWS, number)
                    tree = OutOfBagTree.of(trees[number], values_of, rows, np.flatnonzero(seen))
                    found[:, number] = tree.importances(key, len(found), backend, n_threads)
        return found

    importances = self._run(X, run, permutation_work)
    known = ~np.isnan(importances[0])
    if not known.any():
        raise ValueError(
            f"no tree of this {type(self).__name__} has out-of-bag rows (of positive weight): each "
            "was grown on all rows; fit with bootstrap=True, or use "
            "sklearn.inspection.permutation_importance with rows that were held out"
        )
    return Bunch(
        importances=importances,
        importances_mean=importances[:, known].mean(axis=1),
        importances_std=importances[:, known].std(axis=1),
    )


def permutation_work(n_samples: int, row_bytes: int, ensemble: Ensemble) -> WorkTimes:
    """Estimated seconds to predict by each tree alone, once and for each feature that it splits on.

    This is an upper bound, since only some of the rows are predicted.
    """
    n_passes = sum(1 + len(split_features(tree)) for tree in ensemble.trees)
    one = prediction_work(n_samples, row_bytes, Ensemble.of((ensemble.trees[0],)))
    times = {name: n_passes * getattr(one, name) for name in ("numpy", "numba", "cuda")}
    return replace(one, **times)


def split_features(tree: Tree) -> np.ndarray:
    """The features that a tree splits on, ascending."""
    return np.unique(tree.feature[tree.feature >= 0])


ValuesOf = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _values_of(data: Features | BinnedMatrix) -> ValuesOf:
    """Function of rows and features that returns their values or codes, on the host."""
    if isinstance(data, SparseFeatures):
        by_column = data.by_column()
        return lambda rows, features: by_column.columns(features)[rows]
    if not isinstance(data, BinnedMatrix):
        values = copy_to_host(data)
        return lambda rows, features: values[np.ix_(rows, features)]
    stored, missing_code = data.stored, data.missing_code

    def codes_of(rows: np.ndarray, features: np.ndarray) -> np.ndarray:
        if isinstance(stored, CodeBlocks):
            codes = stored.of_rows(rows, features).T
        elif isinstance(stored, SparseCodes):
            codes = stored.columns(features)[:, rows].T
        else:
            codes = copy_to_host(stored[features])[:, rows].T
        return np.where(codes == missing_code, np.float32(np.nan), codes.astype(np.float32))

    return codes_of


@dataclass(frozen=True, eq=False)
class OutOfBagTree:
    """A tree, and the rows that it was not grown on.

    Attributes
    ----------
    tree : Tree
        The tree for the columns of ``values``.
    features : int (k,)
        The features that it splits on.
    values : float32 or float64 (n, k)
        Values of these features in the rows, NaN where missing.
    targets : ClassRows or ValueRows
        Targets and weights of the rows.
    numbers : int (n,)
        Numbers of the rows in X.
    """

    tree: Tree
    features: np.ndarray
    values: np.ndarray
    targets: ClassRows | ValueRows
    numbers: np.ndarray

    @classmethod
    def of(
        cls, tree: Tree, values_of: ValuesOf, targets: ClassRows | ValueRows, numbers: np.ndarray
    ) -> OutOfBagTree:
        """The tree and the rows ``numbers`` of all rows."""
        features = split_features(tree)
        values = values_of(numbers, features)
        return cls(on_features(tree, features), features, values, targets.take(numbers), numbers)

    def importances(
        self, key: np.ndarray, n_features: int, backend: Backend, n_threads: int
    ) -> np.ndarray:
        """Increase of the mean loss for each feature: float64 (n_features,)."""
        found = np.zeros(n_features)
        if not len(self.features):
            return found
        ensemble, weights = Ensemble.of((self.tree,)), self.targets.weights
        times = prediction_work(len(self.values), self.values[:1].nbytes, ensemble)
        n_threads = min(n_threads, threads_that_pay(times))

        def leaves_of(values: np.ndarray) -> np.ndarray:
            return copy_to_host(backend.apply(ensemble, values, n_threads))[:, 0]

        leaves, total = leaves_of(self.values), total_of(weights)
        before = self.targets.losses_at(self.tree, leaves)
        below = below_splits(self.tree, len(self.features))
        for place, feature in enumerate(self.features):
            own_key = hash_index(key, np.array([feature], np.uint64))
            # The words of a key are distinct, so the order is unique.
            order = np.argsort(hash_index(own_key, self.numbers.astype(np.uint64)))
            # Other rows stay in their leaves, whatever the value of the feature is.
            rows = np.flatnonzero(below[leaves, place])
            if len(rows):
                values, increase = self.values[rows], np.zeros(len(leaves))
                values[:, place] = self.values[order[rows], place]
                after = self.targets.take(rows).losses_at(self.tree, leaves_of(values))
                increase[rows] = after - before[rows]
                found[feature] = total_of(weights * increase) / total
        return found


def below_splits(tree: Tree, n_features: int) -> np.ndarray:
    """Whether the path to each node has a split on each feature: bool (m, n_features)."""
    found = np.zeros((tree.node_count, n_features), dtype=bool)
    for nodes in levels(tree.left):
        parents = np.flatnonzero(tree.left[nodes]) + nodes.start
        left, below = tree.left[parents], found[parents]
        below[np.arange(len(parents)), tree.feature[parents]] = True
        found[left] = found[left + 1] = below
    return found
