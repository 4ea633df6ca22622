"""Base of the models of many trees: their trees, the leaves of rows, and decision paths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from gpuboost.data.advice import warn_user
from gpuboost.data.parameters import boolean
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.tree import on_features
from gpuboost.engine.sampling import tree_seeds
from gpuboost.estimators.fitting.base import TreeModel
from gpuboost.estimators.inputs.parameters import feature_count
from gpuboost.estimators.model.cached_view import ModelView
from gpuboost.estimators.model.fitted import FittedTrees, TreeBatch
from gpuboost.estimators.model.tree_view import node_paths
from gpuboost.estimators.trees import pruning
from gpuboost.estimators.trees.tree import SingleTree

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


@dataclass(kw_only=True, eq=False, repr=False)
class ManyTrees(TreeModel):
    """A model of many trees.

    Parameters
    ----------
    estimator : estimator
        Decision tree or extra-tree of gpuboost or scikit-learn. All trees get its parameters. None
        means a decision tree with default parameters; AdaBoost sets its ``max_depth`` and
        ``criterion``. Other base learners are fitted by scikit-learn's class of the same name:
        ``device_`` is then "scikit-learn", and methods that need gpuboost's trees, such as
        `fingerprint`, raise a TypeError.
    n_estimators : int
        Number of trees; the maximum number if the fit can stop early.
    warm_start : bool
        Whether `fit` adds trees to the existing trees and keeps the bins and categories of the
        first fit. On the same data and with the same other parameters, the model is the same as if
        all trees were grown at once; early stopping begins anew.
    callbacks : callable, or list of these
        Functions that are called after each tree or round with a
        `gpuboost.callbacks.RoundResult`; if one returns True, the fit ends and keeps the trees so
        far.
    keep_on_interrupt : bool
        Whether Ctrl-C ends the fit with the trees so far, if there are any. Otherwise it raises
        KeyboardInterrupt, and the estimator stays as it was.
    verbose : int
        If above 0, a progress bar is shown or, in gradient boosting, the scores of rounds are
        printed: with 1, those of the rounds 1 to 10, 20 to 100 in steps of 10, and so on; with 2 or
        more, of all rounds.

    Attributes
    ----------
    estimators_ : list of tree estimators
        The fitted trees; read-only.
    """

    callbacks: Any = None
    keep_on_interrupt: bool = False

    if TYPE_CHECKING:  # a parameter of the subclasses

        @property
        def n_estimators(self) -> int: ...

    def _empty_tree(self) -> SingleTree:
        """A tree estimator with the parameters of the trees."""
        return clone(self._tree)

    def _model_to_extend(self) -> FittedTrees | None:
        """The model that a warm start adds trees to; None without one."""
        wanted = boolean("warm_start", getattr(self, "warm_start", False))
        if not wanted or self._model is None:
            return None
        max_bins, categorical_features = self._binning
        if self.max_bins != max_bins or not np.array_equal(
            np.asarray(self.categorical_features), np.asarray(categorical_features)
        ):
            raise ValueError(
                "with warm_start, max_bins and categorical_features must stay "
                f"{max_bins!r} and {categorical_features!r:.80}, got {self.max_bins!r} and "
                f"{self.categorical_features!r:.80}; fit with warm_start=False"
            )
        return self._model

    def apply(self, X: Any) -> np.ndarray:
        """Leaf of each row in each tree.

        Returns
        -------
        ndarray of int64 of shape (n_samples, n_trees)
        """
        return self._leaves(X)

    def decision_path(self, X: Any) -> tuple[csr_matrix, np.ndarray]:
        """Nodes on the paths of each row from the roots to its leaves.

        Returns
        -------
        indicator : csr_matrix of shape (n_samples, n_nodes)
            1 where the row passes through the node. If X is on a GPU, a CuPy matrix of float64.
        n_nodes_ptr : ndarray of int64 of shape (n_trees + 1,)
            The nodes of tree t are the columns n_nodes_ptr[t] to n_nodes_ptr[t + 1] - 1.
        """
        return node_paths(self._ensemble, self._leaves(X)), self._ensemble.offset.copy()

    cost_complexity_pruning_path = pruning.member_pruning_paths
    prune = pruning.refuse_to_prune

    @ModelView
    def estimators_(self) -> list[SingleTree]:
        """The trees, as fitted tree estimators that share the arrays of this model.

        Each tree has its own ``random_state``. In forests and bagging, a refit of the tree on the
        rows that were drawn for it gives the same tree, if it has all features, its rows have no
        weights besides the draws, and X has so few values that each has a bin.
        """
        return [self._tree_estimator(t, batch) for t, batch in self._trees_and_batches()]

    def _trees_and_batches(self) -> Iterator[tuple[int, TreeBatch]]:
        check_is_fitted(self)
        return ((t, batch) for batch in self._model.batches for t in batch.trees)

    def _tree_estimator(self, t: int, batch: TreeBatch) -> SingleTree:
        """Tree ``t`` as an estimator; its classes are encoded as in scikit-learn.

        If features were drawn for the tree, it has only these, numbered from 0 and without names.
        """
        tree, mapper = self._ensemble.trees[t], self._model.mapper
        schema = replace(self._model.schema, names=None)
        features = batch.features(t)
        if features is not None:
            tree = on_features(tree, features)
            mapper, schema = mapper.select(features), schema.select(features)
        own_batch = replace(batch, trees=range(1))
        n_outputs = self._model.n_outputs
        model = FittedTrees(Ensemble.of((tree,)), mapper, schema, (own_batch,), n_outputs=n_outputs)
        facts = {"n_features_in_": schema.n_features, **self._facts_of_trees()}
        seed = int(tree_seeds(batch.sampler.seed, t))
        template = self._empty_tree() if batch.template is None else clone(batch.template)
        estimator = template.set_params(random_state=seed)
        facts["max_features_"] = feature_count(estimator.max_features, schema.n_features)
        estimator._adopt({"_model": model, "device_": self.device_, **facts})
        return estimator

    def _facts_of_trees(self) -> dict[str, Any]:
        """Attributes of the trees that describe y; classes are encoded as in scikit-learn."""
        facts: dict[str, Any] = {"n_outputs_": self.n_outputs_}
        if hasattr(self, "n_classes_"):
            sizes = self.n_classes_
            codes = [np.arange(n) for n in sizes] if self.n_outputs_ > 1 else np.arange(sizes)
            facts |= {"n_classes_": sizes, "classes_": codes}
        return facts

    def __len__(self) -> int:
        return len(self.estimators_)

    def __getitem__(self, index: Any) -> Any:
        return self.estimators_[index]

    def __iter__(self) -> Iterator[SingleTree]:
        return iter(self.estimators_)


def check_growing(n_total: int, n_before: int, what: str, is_resumed: bool) -> None:
    """Check that a warm start removes no trees or rounds; warn if it adds none.

    The same holds for a fit that goes on from a checkpoint, without the warning.
    """
    if n_total < n_before and is_resumed:
        raise ValueError(
            f"n_estimators={n_total} is less than the {n_before} {what} in the checkpoint; raise "
            "it, delete the file to start anew, or use another path"
        )
    if n_total < n_before:
        raise ValueError(
            f"n_estimators={n_total} must be larger or equal to the {n_before} {what} of the model "
            "when warm_start=True; raise it, or fit with warm_start=False"
        )
    if n_total == n_before and not is_resumed:
        warn_user("Warm-start fitting without increasing n_estimators does not fit new trees.")
