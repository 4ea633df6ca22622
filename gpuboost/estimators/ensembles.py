"""What forests and bagging share: many trees, over rows drawn for each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpuboost.data.advice import warn_user
from gpuboost.data.parameters import boolean, integer_at_least, thread_count
from gpuboost.engine.ensemble import Ensemble
from gpuboost.engine.sampling import ALL_ROWS, WITHOUT_REPLACEMENT, RowSampler, root_key
from gpuboost.estimators.base import Prepared, TreeModel
from gpuboost.estimators.fitted import (
    Batch,
    FeatureDraw,
    FittedTrees,
    select_bins,
    select_columns,
)
from gpuboost.estimators.out_of_bag import out_of_bag_means
from gpuboost.estimators.settings import draw_seed, feature_count
from gpuboost.estimators.tree_view import node_paths
from gpuboost.estimators.views import ModelView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scipy.sparse import csr_matrix

    from gpuboost.estimators.tree import SingleTree


@dataclass(kw_only=True, eq=False, repr=False)
class TreeEnsemble(TreeModel):
    """Many trees, each over rows of its own."""

    bootstrap: bool = True
    oob_score: Any = False
    max_samples: float | None = None
    warm_start: bool = False
    verbose: int = 0

    if TYPE_CHECKING:
        n_estimators: int
        _out_of_bag_facts: Any

    # ---- what forests and bagging say ----------------------------------------------------------

    def _row_draw(self, n_samples: int, weights: np.ndarray | None) -> tuple[str, int]:
        """How rows are drawn for a tree, and how many."""
        raise NotImplementedError

    def _feature_draw(self, n_features: int) -> FeatureDraw | None:
        """How features are drawn for a tree; None: it sees all."""
        return None

    def _empty_tree(self) -> SingleTree:
        """A tree estimator with the parameters of the trees."""
        raise NotImplementedError

    # ---- the steps of a fit --------------------------------------------------------------------

    def _batch(
        self, labels: Any, weights: np.ndarray | None, n_features: int, before: Any
    ) -> Batch:
        boolean("bootstrap", self.bootstrap)
        n, n_trees = len(labels), integer_at_least("n_estimators", self.n_estimators, 1)
        method, n_draws = self._row_draw(n, weights)
        self._check_votes()
        if method == WITHOUT_REPLACEMENT and weights is not None:
            check_enough_rows(n_draws, int(np.count_nonzero(weights)))
        balance, factor = self._balance(labels), self._row_factor(labels, weights)
        if method == ALL_ROWS and factor is not None:  # nothing is drawn: weights are factors
            weights = factor if weights is None else weights * factor
            factor = None
        seed, bits = self._seed(before), labels.weight_bits
        sampler = RowSampler(method, n, n_draws, seed, weights, balance, factor, bits)
        first = before.ensemble.n_trees if before else 0
        check_growing(n_trees, first)
        return Batch(range(first, n_trees), sampler, self._feature_draw(n_features))

    def _seed(self, before: FittedTrees | None) -> int:
        """The seed; a warm start with no integer to go by keeps the one there was."""
        if before is None or isinstance(self.random_state, (int, np.integer)):
            return draw_seed(self.random_state)
        return before.batches[-1].sampler.seed

    def _model_to_extend(self) -> FittedTrees | None:
        if not boolean("warm_start", self.warm_start) or self._model is None:
            return None
        max_bins, categorical_features = self._binning
        if self.max_bins != max_bins or not np.array_equal(
            np.asarray(self.categorical_features), np.asarray(categorical_features)
        ):
            raise ValueError(
                "max_bins and categorical_features must stay what they were in a warm start, "
                f"{max_bins!r} and {categorical_features!r:.80}, got {self.max_bins!r} and "
                f"{self.categorical_features!r:.80}; fit with warm_start=False"
            )
        return self._model

    def _check_votes(self) -> None:
        """Judge ``voting`` and ``oob_score``."""
        self._voting_rule()
        wanted = callable(self.oob_score) or boolean("oob_score", self.oob_score)
        if wanted and not self.bootstrap:
            raise ValueError(
                "Out of bag estimation only available if bootstrap=True, got bootstrap="
                f"{self.bootstrap!r} and oob_score={self.oob_score!r}; change one of them"
            )

    def _further_facts(self, model: FittedTrees, prepared: Prepared) -> dict[str, Any]:
        facts: dict[str, Any] = {"estimator_": self._empty_tree()}
        if not self.oob_score:
            return facts
        ensemble = model.votes if self._voting_rule() == "hard" else model.ensemble
        threads = thread_count(self.n_jobs)
        means = out_of_bag_means(model, ensemble, prepared.matrix, prepared.backend, threads)
        score = self.oob_score if callable(self.oob_score) else None
        return facts | self._out_of_bag_facts(prepared.labels, means, score)

    # ---- a fitted model ------------------------------------------------------------------------

    def apply(self, X: Any) -> np.ndarray:
        """Leaf of each row in each tree.

        Parameters
        ----------
        X : array-like, data frame or gpuboost.Dataset of shape (n_samples, n_features)

        Returns
        -------
        ndarray of int64 of shape (n_samples, n_estimators)
        """
        return self._leaves(X)

    def decision_path(self, X: Any) -> tuple[csr_matrix, np.ndarray]:
        """Nodes that each row passes.

        Parameters
        ----------
        X : array-like, data frame or gpuboost.Dataset of shape (n_samples, n_features)

        Returns
        -------
        indicator : csr_matrix of shape (n_samples, n_nodes)
            1 where the row passes the node.
        n_nodes_ptr : ndarray of int64 of shape (n_estimators + 1,)
            Columns of tree t are n_nodes_ptr[t] to n_nodes_ptr[t + 1].
        """
        check_is_fitted(self)
        return node_paths(self._ensemble, self._leaves(X)), self._ensemble.offset.copy()

    @ModelView
    def estimators_(self) -> list[SingleTree]:
        """The trees, as fitted tree estimators that share the arrays of this model.

        Their ``random_state`` tells them apart. A tree fitted with it draws other numbers.
        """
        check_is_fitted(self)
        return [self._tree_estimator(t, batch) for t, batch in self._trees_and_batches()]

    @property
    def estimators_samples_(self) -> list[np.ndarray]:
        """Rows drawn for each tree, ascending, as often as they were drawn."""
        return [rows_drawn(batch.sampler, t) for t, batch in self._trees_and_batches()]

    def _trees_and_batches(self) -> Iterator[tuple[int, Batch]]:
        check_is_fitted(self)
        return ((t, batch) for batch in self._model.batches for t in batch.trees)

    def _tree_estimator(self, t: int, batch: Batch) -> SingleTree:
        """Tree ``t`` as an estimator of its own. As in scikit-learn it has numbers for classes."""
        tree, mapper = self._ensemble.trees[t], self._model.mapper
        schema = replace(self._model.schema, names=None)
        features = batch.features(t)
        if features is not None:
            place = np.searchsorted(features, tree.feature).astype(np.int32)
            tree = replace(tree, feature=np.where(tree.feature < 0, tree.feature, place))
            mapper, schema = select_bins(mapper, features), select_columns(schema, features)
        own_batch = replace(batch, trees=range(1))
        model = FittedTrees(Ensemble.of_one(tree), mapper, schema, (own_batch,))
        facts = {"n_features_in_": schema.n_features, "n_outputs_": self.n_outputs_}
        if hasattr(self, "n_classes_"):
            facts |= {"n_classes_": self.n_classes_, "classes_": np.arange(self.n_classes_)}
        seed = root_key(batch.sampler.seed, t) >> 32
        estimator = self._empty_tree().set_params(random_state=seed)
        facts["max_features_"] = feature_count(estimator.max_features, schema.n_features)
        estimator._adopt({"_model": model, "device_": self.device_, **facts})
        return estimator

    def __len__(self) -> int:
        return len(self.estimators_)

    def __getitem__(self, index: Any) -> Any:
        return self.estimators_[index]

    def __iter__(self) -> Iterator[SingleTree]:
        return iter(self.estimators_)


def rows_drawn(sampler: RowSampler, tree: int) -> np.ndarray:
    """Rows of a tree, each as often as it was drawn."""
    rows = np.arange(sampler.n_samples)
    return rows if sampler.method == ALL_ROWS else np.repeat(rows, sampler.draw_counts(tree))


def check_growing(n_trees: int, n_before: int) -> None:
    """A warm start can only add trees."""
    if n_trees < n_before:
        raise ValueError(
            f"n_estimators={n_trees} must be larger or equal to the {n_before} trees there are "
            "when warm_start=True; raise it, or fit with warm_start=False"
        )
    if n_trees == n_before:
        warn_user("Warm-start fitting without increasing n_estimators does not fit new trees.")


def check_enough_rows(n_draws: int, n_rows: int) -> None:
    """Without replacement only so many rows can be drawn."""
    if n_draws > n_rows:
        raise ValueError(
            f"max_samples asks for {n_draws} rows without replacement, but only {n_rows} have a "
            "positive weight; lower max_samples or use bootstrap=True"
        )
