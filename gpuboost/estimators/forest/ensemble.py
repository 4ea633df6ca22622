"""Base of forests and bagging: many trees, each grown on all rows or on a sample of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gpuboost.backends.cost_model import GrowthSize
from gpuboost.data.parameters import boolean, integer_at_least
from gpuboost.engine.growth.tree import Tree
from gpuboost.engine.sampling import ALL_ROWS, WITHOUT_REPLACEMENT, RowSampler
from gpuboost.estimators.fitting.callbacks import FitCallbacks, RoundResult, data_digest
from gpuboost.estimators.fitting.grow_plan import GrowPlan, grow_trees, tree_plan
from gpuboost.estimators.fitting.pipeline import FitInputs, Prepared, fitted_copy
from gpuboost.estimators.forest import permutation_importance
from gpuboost.estimators.forest.out_of_bag import (
    check_out_of_bag_target,
    out_of_bag_facts,
    out_of_bag_means,
)
from gpuboost.estimators.inputs.parameters import draw_seed
from gpuboost.estimators.model.fitted import FeatureDraw, FittedTrees, TreeBatch
from gpuboost.estimators.trees import pruning
from gpuboost.estimators.trees.many_trees import ManyTrees, check_growing
from gpuboost.estimators.trees.tree import SingleTree


@dataclass(kw_only=True, eq=False, repr=False)
class TreeEnsemble(ManyTrees):
    """Many trees, each grown on all rows or on a sample of them.

    Parameters
    ----------
    bootstrap : bool
        Whether the rows of a tree are drawn with replacement, in proportion to their weights.
        Otherwise each tree of a forest uses all rows, and bagging draws ``max_samples`` rows
        without replacement (pasting); if that is the number of rows, each tree uses all of them.
    oob_score : bool or callable
        Whether to predict each row with the trees that were not grown on it, and to score these
        predictions by accuracy or R2; requires ``bootstrap=True``. A callable is called as
        ``oob_score(y_true, y_pred)``, with encoded classes for classifiers, and returns the score.
    max_samples : int or float
        Number of rows drawn for each tree; a float is a fraction of the number of rows or, with
        weights (in forests, also with class weights), of the sum of the rows' weights. In forests,
        the fraction can be above 1. None means the number of rows of X.

    Attributes
    ----------
    estimator_ : tree estimator
        The unfitted template of the trees.
    estimators_samples_ : list of ndarray
        The rows drawn for each tree.
    oob_score_ : float, with ``oob_score``
        Score of the rows that have an out-of-bag prediction; NaN if these are too few.
    """

    if TYPE_CHECKING:  # fitted attributes
        estimator_: SingleTree = field(init=False)
        oob_score_: float = field(init=False)

    bootstrap: bool = True
    oob_score: Any = False
    max_samples: float | None = None
    warm_start: bool = False
    verbose: int = 0

    if TYPE_CHECKING:
        _metric: ClassVar[Any]

    # ---- how forests and bagging differ --------------------------------------------------------

    @abstractmethod
    def _row_draw(self, n_samples: int, weights: np.ndarray | None) -> tuple[str, int]:
        """The method of `RowSampler` and the number of rows drawn for a tree."""

    def _feature_draw(self, n_features: int) -> FeatureDraw | None:
        """The draw of the features of a tree; None if each tree uses all features."""
        return None

    def _balance(self, labels: Any) -> np.ndarray | None:
        """Class codes if each tree balances the classes of the rows drawn for it, else None."""
        return None

    def _row_factor(self, labels: Any, weights: np.ndarray | None) -> np.ndarray | None:
        """Factors that multiply the draw counts of rows in every tree; None without factors.

        If all rows are used, the factors multiply the weights.
        """
        return None

    # ---- the steps of a fit --------------------------------------------------------------------

    def _plan(self, inputs: FitInputs) -> tuple[GrowPlan, GrowthSize]:
        boolean("bootstrap", self.bootstrap)
        labels, before = inputs.labels, inputs.before
        weights = self._weights(labels, inputs.weights)
        n, n_trees = len(labels), integer_at_least("n_estimators", self.n_estimators, 1)
        method, n_draws = self._row_draw(n, weights)
        self._check_votes()
        if self.oob_score:
            check_out_of_bag_target(labels)
        if method == WITHOUT_REPLACEMENT and weights is not None:
            check_enough_rows(n_draws, int((weights > 0).sum()))
        balance, factor = self._balance(labels), self._row_factor(labels, weights)
        if method == ALL_ROWS and factor is not None:  # no draw counts to multiply
            weights = factor if weights is None else weights * factor
            factor = None
        seed, bits = draw_seed(self.random_state, before), labels.weight_bits
        sampler = RowSampler(method, n, n_draws, seed, weights, balance, factor, bits)
        first = before.ensemble.n_trees if before else 0
        check_growing(n_trees, first, "trees", is_resumed=before is not self._model_to_extend())
        features = self._feature_draw(inputs.schema.n_features)
        batch = TreeBatch(range(first, n_trees), sampler, features, self._empty_tree())
        return tree_plan(self, inputs, batch)

    def _has_all_trees(self) -> bool:
        before = self._model_to_extend()
        is_complete = before is not None and self.n_estimators == before.ensemble.n_trees
        return bool(is_complete and not self.oob_score)

    def _check_votes(self) -> None:
        """Check ``voting`` and ``oob_score``."""
        self._voting_rule()
        wanted = callable(self.oob_score) or boolean("oob_score", self.oob_score)
        if wanted and not self.bootstrap:
            raise ValueError(
                "Out of bag estimation only available if bootstrap=True, got bootstrap="
                f"{self.bootstrap!r} and oob_score={self.oob_score!r}; change one of them"
            )

    def _grow(self, prepared: Prepared[GrowPlan]) -> tuple[FittedTrees, dict[str, Any]]:
        facts, callbacks = {"estimator_": self._empty_tree()}, FitCallbacks.of(self)
        sampler, first = prepared.plan.batch.sampler, prepared.plan.batch.trees.start
        drawn = sampler.weights, sampler.balance, sampler.row_factor
        callbacks.check_data(self, lambda: data_digest(prepared, *drawn))

        def watch(trees: Iterable[Tree], model_of: Callable[..., FittedTrees]) -> Iterable[Tree]:
            def result_of(done: list[Tree]) -> RoundResult:
                n_done = first + len(done)
                made = lambda: fitted_copy(self, prepared, model_of(done), facts)  # noqa: E731
                return RoundResult(n_done - 1, n_total=self.n_estimators, _make=made)

            return callbacks.watched(trees, result_of)

        model = grow_trees(prepared, watch if callbacks.watches else None)
        if not self.oob_score:
            return model, facts
        ensemble = model.votes if self._voting_rule() == "hard" else model.ensemble
        threads = prepared.execution.n_threads
        means = out_of_bag_means(model, ensemble, prepared.matrix, prepared.backend, threads)
        score = self.oob_score if callable(self.oob_score) else self._metric
        return model, facts | out_of_bag_facts(prepared.labels, means, score)

    # ---- a fitted model ------------------------------------------------------------------------

    prune = pruning.prune
    oob_permutation_importance = permutation_importance.oob_permutation_importance

    @property
    def estimators_samples_(self) -> list[np.ndarray]:
        """Rows drawn for each tree, ascending, each repeated as often as it was drawn."""
        return [rows_drawn(batch.sampler, t) for t, batch in self._trees_and_batches()]


def rows_drawn(sampler: RowSampler, tree: int) -> np.ndarray:
    """Rows of a tree, ascending, each repeated as often as it was drawn.

    If all rows are used, each row occurs once, including rows whose weight is 0.
    """
    rows = np.arange(sampler.n_samples, dtype=np.int32)  # the type of scikit-learn's forests
    if sampler.method == ALL_ROWS:
        return rows
    return np.repeat(rows, sampler.copied_to_host.draw_counts(tree))


def check_enough_rows(n_draws: int, n_rows: int) -> None:
    """Check that enough rows have positive weight to be drawn without replacement."""
    if n_draws > n_rows:
        raise ValueError(
            f"max_samples asks for {n_draws} rows without replacement, but only {n_rows} have a "
            "positive weight; lower max_samples or use bootstrap=True"
        )
