"""Decision trees: ensembles of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn import tree as sklearn_tree
from sklearn.base import clone
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from gpuboost.data.arrays import working_on
from gpuboost.data.parameters import boolean
from gpuboost.engine.growth.pruning import pruning_path
from gpuboost.engine.sampling import ALL_ROWS, RowSampler
from gpuboost.estimators.docstrings import OF_A_FIT, documented, takes, with_check_input
from gpuboost.estimators.fitting.base import TreeModel
from gpuboost.estimators.fitting.grow_plan import GrowPlan, grow_trees, tree_plan
from gpuboost.estimators.fitting.mixins import Classifier, Regressor
from gpuboost.estimators.inputs.parameters import draw_seed
from gpuboost.estimators.model.cached_view import ModelView
from gpuboost.estimators.model.fitted import Batch, FittedTrees
from gpuboost.estimators.model.tree_view import TreeView, node_paths

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from gpuboost.backends.select import Growth
    from gpuboost.estimators.fitting.pipeline import FitInputs, Prepared


NO_THRESHOLD = {"check_input": UNUSED}  # no metadata for scikit-learn to pass on


@dataclass(kw_only=True, eq=False, repr=False)
class SingleTree(TreeModel):
    """Base of the single trees."""

    criterion: str = "squared_error"
    max_depth: int | None = None
    min_samples_split: float = 2
    min_samples_leaf: float = 1
    min_weight_fraction_leaf: float = 0.0
    max_features: float | str | None = None
    max_leaf_nodes: int | None = None
    min_impurity_decrease: float = 0.0
    ccp_alpha: float = 0.0
    monotonic_cst: Any = None
    splitter: str = "best"

    __metadata_request__fit: ClassVar = NO_THRESHOLD

    def _plan(self, inputs: FitInputs) -> tuple[GrowPlan, Growth]:
        """One tree over all rows and features."""
        labels, n = inputs.labels, len(inputs.labels)
        weights = self._weights(labels, inputs.weights)
        seed, bits = draw_seed(self.random_state), labels.weight_bits
        sampler = RowSampler(ALL_ROWS, n, n, seed, weights, max_weight_bits=bits)
        return tree_plan(self, inputs, Batch(range(1), sampler, None))

    def _grow(self, prepared: Prepared) -> tuple[FittedTrees, dict[str, Any]]:
        return grow_trees(prepared), {"max_features_": prepared.plan.options.max_features}

    @ModelView
    def tree_(self) -> TreeView:
        """The nodes, in arrays named as in scikit-learn; see `TreeView`."""
        n_classes = getattr(self, "n_classes_", 1)
        return TreeView(self._ensemble.trees[0], self._model.schema, n_classes)

    @takes("X", "y", "sample_weight", "check_input", told=OF_A_FIT)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, check_input: bool = True) -> Any:
        """Grow the tree.

        Returns
        -------
        self
        """
        boolean("check_input", check_input)
        return super().fit(X, y, sample_weight)

    @takes("X", "y", "sample_weight", told=OF_A_FIT)
    def cost_complexity_pruning_path(self, X: Any, y: Any, sample_weight: Any = None) -> Bunch:
        """Every ``ccp_alpha`` from which on the tree of this data has a split less.

        Returns
        -------
        Bunch
            ``ccp_alphas``, ascending from 0, and the ``impurities`` of all leaves together.
        """
        whole = clone(self).set_params(ccp_alpha=0.0).fit(X, y, sample_weight)
        alphas, impurities = pruning_path(whole._ensemble.trees[0])
        return Bunch(ccp_alphas=alphas, impurities=impurities)

    def get_depth(self) -> int:
        """Depth of the deepest leaf, 0 for a root alone."""
        return self.tree_.max_depth

    def get_n_leaves(self) -> int:
        """Number of leaves."""
        return self.tree_.n_leaves

    @takes("X", "check_input")
    def apply(self, X: Any, check_input: bool = True) -> np.ndarray:
        """Leaf of each row.

        Returns
        -------
        ndarray of int64 of shape (n_samples,)
            Node numbers as in ``tree_``.
        """
        boolean("check_input", check_input)
        leaves = self._leaves(X)
        with working_on(leaves):
            return leaves[:, 0]

    @takes("X", "check_input")
    def decision_path(self, X: Any, check_input: bool = True) -> csr_matrix:
        """Nodes that each row passes.

        Returns
        -------
        csr_matrix of shape (n_samples, n_nodes)
            1 where the row passes the node.
        """
        boolean("check_input", check_input)
        check_is_fitted(self)
        return node_paths(self._ensemble, self._leaves(X))


@documented("A decision tree for classification.")
@dataclass(kw_only=True, eq=False, repr=False)
class DecisionTreeClassifier(Classifier, SingleTree):
    criterion: str = "gini"
    class_weight: Any = None

    __metadata_request__predict: ClassVar = NO_THRESHOLD
    __metadata_request__predict_proba: ClassVar = NO_THRESHOLD

    def predict(self, X: Any, check_input: bool = True) -> np.ndarray:
        boolean("check_input", check_input)
        return super().predict(X)

    def predict_proba(self, X: Any, check_input: bool = True) -> np.ndarray:
        boolean("check_input", check_input)
        return super().predict_proba(X)

    predict.__doc__ = with_check_input(Classifier.predict)
    predict_proba.__doc__ = with_check_input(Classifier.predict_proba)


@documented("A decision tree for regression.")
@dataclass(kw_only=True, eq=False, repr=False)
class DecisionTreeRegressor(Regressor, SingleTree):
    criterion: str = "squared_error"

    __metadata_request__predict: ClassVar = NO_THRESHOLD

    def predict(self, X: Any, check_input: bool = True) -> np.ndarray:
        boolean("check_input", check_input)
        return super().predict(X)

    predict.__doc__ = with_check_input(Regressor.predict)

    def _compute_partial_dependence_recursion(
        self, grid: np.ndarray, target_features: np.ndarray
    ) -> np.ndarray:
        """Partial dependence by recursion, which scikit-learn's `partial_dependence` calls."""
        out = np.zeros(len(grid))
        self.tree_.compute_partial_dependence(grid, target_features, out)
        return out


@documented("An extremely randomised tree for classification: thresholds are drawn at random.")
@dataclass(kw_only=True, eq=False, repr=False)
class ExtraTreeClassifier(DecisionTreeClassifier):
    splitter: str = "random"
    max_features: float | str | None = "sqrt"


@documented("An extremely randomised tree for regression: thresholds are drawn at random.")
@dataclass(kw_only=True, eq=False, repr=False)
class ExtraTreeRegressor(DecisionTreeRegressor):
    splitter: str = "random"
    max_features: float | str | None = 1.0


# scikit-learn's export_text and plot_tree accept only instances of its own classes.
sklearn_tree.DecisionTreeClassifier.register(DecisionTreeClassifier)
sklearn_tree.DecisionTreeRegressor.register(DecisionTreeRegressor)
