"""Single decision trees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn import tree as sklearn_tree
from sklearn.base import clone
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import UNUSED

from gpuboost.backends.cost_model import GrowthSize
from gpuboost.data.parameters import boolean
from gpuboost.engine.array_modules import working_on
from gpuboost.engine.sampling import ALL_ROWS, RowSampler
from gpuboost.estimators.docstrings import documented
from gpuboost.estimators.fitting.base import TreeModel
from gpuboost.estimators.fitting.grow_plan import GrowPlan, grow_trees, tree_plan
from gpuboost.estimators.fitting.mixins import Classifier, Regressor
from gpuboost.estimators.fitting.pipeline import FitInputs, Prepared
from gpuboost.estimators.inputs.parameters import draw_seed, without_friedman
from gpuboost.estimators.inputs.targets import MultiOutputClassLabels
from gpuboost.estimators.model.cached_view import ModelView
from gpuboost.estimators.model.fitted import FittedTrees, TreeBatch
from gpuboost.estimators.model.tree_view import TreeView, node_paths
from gpuboost.estimators.trees import pruning

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


UNROUTED = {"check_input": UNUSED}  # not metadata that scikit-learn routes


@dataclass(kw_only=True, eq=False, repr=False)
class SingleTree(TreeModel):
    """Base of the single trees.

    Parameters
    ----------
    criterion : str
        Measure of the quality of a split. {criteria}.
    splitter : {'best', 'random'}
        Whether splits use the best threshold of a feature or a threshold drawn at random.
    max_depth : int
        Maximum depth of the tree. None means no limit.
    min_samples_split : int or float
        Minimum number of rows in a node that is split; a float is a fraction of all rows.
    min_samples_leaf : int or float
        Minimum number of rows in a leaf; a float is a fraction of all rows.
    min_weight_fraction_leaf : float
        Minimum fraction of the total weight in a leaf, from 0 to 0.5. In boosting, hessians take
        the place of weights.
    max_features : int, float, 'sqrt', 'log2' or None
        Number of features drawn at each node as candidates for its split; a float is a
        fraction of all features or, if features are drawn for the whole tree or for a level, of
        these. None means all of them. If none of the drawn features can split the node, further
        features are tried.
    max_leaf_nodes : int
        Maximum number of leaves; the tree is then grown best-first. None means no limit.
    min_impurity_decrease : float
        A node is split only if the split decreases the impurity, weighted by the node's fraction
        of the total weight, by at least this value. With 'absolute_error', splits with a smaller
        decrease, and all splits of their descendants, are removed after the tree is grown.
    ccp_alpha : float
        Complexity parameter of minimal cost-complexity pruning: the cost of each leaf, added to
        its impurity times its fraction of the total weight. The smallest subtree of least cost is
        kept. 0 means no pruning.
    monotonic_cst : array-like of int of shape (n_features,), or dict
        1 if the prediction (with two classes, the probability of the second) must increase with
        the feature, -1 if it must decrease, 0 for no constraint; or a dict that maps names or
        indices of features to these numbers. Supported for two classes (not with 'twoing' and
        'misclassification') and for regressions of one output. With 'gini' and 'squared_error',
        splits that break the order are not considered; with other criteria, the values of nodes are
        clipped after growth.

    Attributes
    ----------
    tree_ : TreeView
        The nodes, as arrays with scikit-learn's names. Categorical splits have no threshold, so
        scikit-learn's `export_text` raises an error, but not that of `gpuboost.explain`;
        ``tree_.categories_left(node)`` returns the codes of the categories that go left.
    max_features_ : int
        Number of candidate features at each node.
    """

    if TYPE_CHECKING:  # fitted attributes
        class_weight: Any = field(init=False)
        max_features_: int = field(init=False)

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

    __metadata_request__fit: ClassVar = UNROUTED

    def _plan(self, inputs: FitInputs) -> tuple[GrowPlan, GrowthSize]:
        """The plan of one tree on all rows and features, and its `GrowthSize`."""
        labels, n = inputs.labels, len(inputs.labels)
        weights = self._weights(labels, inputs.weights)
        seed, bits = draw_seed(self.random_state), labels.weight_bits
        sampler = RowSampler(ALL_ROWS, n, n, seed, weights, max_weight_bits=bits)
        return tree_plan(self, inputs, TreeBatch(range(1), sampler, None))

    def _grow(self, prepared: Prepared[GrowPlan]) -> tuple[FittedTrees, dict[str, Any]]:
        return grow_trees(prepared), {"max_features_": prepared.plan.options.max_features}

    @ModelView
    def tree_(self) -> TreeView:
        """The nodes, in arrays named as in scikit-learn; see `TreeView`."""
        n_classes = getattr(self, "n_classes_", 1)
        return TreeView(self._ensemble.trees[0], self._model.schema, n_classes)

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, check_input: bool = True
    ) -> Self:
        """Grow the tree.

        Returns
        -------
        self
        """
        boolean("check_input", check_input)
        return super().fit(X, y, sample_weight)

    def cost_complexity_pruning_path(self, X: Any, y: Any, sample_weight: Any = None) -> Bunch:
        """Values of ``ccp_alpha`` at which pruning removes splits of the tree grown on this data.

        The tree is grown with the parameters of this estimator, but with ``ccp_alpha=0``.

        Returns
        -------
        Bunch
            ``ccp_alphas``, ascending from 0, and ``impurities``, the total impurity of the leaves
            for each value.
        """
        whole = clone(self).set_params(ccp_alpha=0.0).fit(X, y, sample_weight)
        return pruning.path_of(whole._ensemble.trees[0])

    prune = pruning.prune

    def get_depth(self) -> int:
        """Depth of the tree: 0 if the root is a leaf."""
        return self.tree_.max_depth

    def get_n_leaves(self) -> int:
        """Number of leaves."""
        return self.tree_.n_leaves

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

    def decision_path(self, X: Any, check_input: bool = True) -> csr_matrix:
        """Nodes on the path of each row from the root to its leaf.

        Returns
        -------
        csr_matrix of shape (n_samples, n_nodes)
            1 where the row passes through the node. If X is on a GPU, a CuPy matrix of float64.
        """
        boolean("check_input", check_input)
        return node_paths(self._ensemble, self._leaves(X))


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class DecisionTreeClassifier(Classifier, SingleTree):
    """A decision tree for classification."""

    _labels = MultiOutputClassLabels

    criterion: str = "gini"
    class_weight: Any = None

    __metadata_request__predict: ClassVar = UNROUTED
    __metadata_request__predict_proba: ClassVar = UNROUTED

    def predict(self, X: Any, check_input: bool = True) -> np.ndarray:
        """Most probable class of each row; ties go to the first class.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            On the GPU if X is on the GPU, except for string classes, which are on the host.
        """
        boolean("check_input", check_input)
        return super().predict(X)

    def predict_proba(self, X: Any, check_input: bool = True) -> Any:
        """Probability of each class: its weighted fraction of the training rows in the leaf.

        With ``monotonic_cst``, the fraction is clipped to the bounds that the constraints set.

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_classes), or a list of such arrays
            With several outputs, a list with an array for each.
        """
        boolean("check_input", check_input)
        return super().predict_proba(X)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class DecisionTreeRegressor(Regressor, SingleTree):
    """A decision tree for regression."""

    __metadata_request__predict: ClassVar = UNROUTED

    def __post_init__(self) -> None:
        self.criterion = without_friedman(self.criterion)

    def predict(self, X: Any, check_input: bool = True) -> np.ndarray:
        """Predicted value of each row: the value of the row's leaf.

        Returns
        -------
        ndarray of float64 of shape (n_samples,) or (n_samples, n_outputs)
        """
        boolean("check_input", check_input)
        return super().predict(X)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class ExtraTreeClassifier(DecisionTreeClassifier):
    """An extremely randomised tree for classification: split thresholds are drawn at random."""

    splitter: str = "random"
    max_features: float | str | None = "sqrt"


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class ExtraTreeRegressor(DecisionTreeRegressor):
    """An extremely randomised tree for regression: split thresholds are drawn at random."""

    splitter: str = "random"
    max_features: float | str | None = 1.0


# scikit-learn's export_text and plot_tree accept only instances of its own classes.
sklearn_tree.DecisionTreeClassifier.register(DecisionTreeClassifier)
sklearn_tree.DecisionTreeRegressor.register(DecisionTreeRegressor)
