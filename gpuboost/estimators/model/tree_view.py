"""`tree_`: one tree as the arrays of scikit-learn's ``tree_``."""

from __future__ import annotations

from dataclasses import replace
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuboost.backends.device_arrays import matrix_of_ones
from gpuboost.backends.prediction_cost import prediction_work
from gpuboost.backends.select import choose_backend
from gpuboost.data.arrays import as_host_array, is_sparse
from gpuboost.data.frames import FeatureSchema, apply_schema
from gpuboost.data.sparse_features import to_dense
from gpuboost.data.validation import check_features
from gpuboost.engine.array_modules import array_module, working_on
from gpuboost.engine.ensembles.ensemble import Ensemble, impurity_decrease_per_feature
from gpuboost.engine.explanations.dependence import partial_dependence
from gpuboost.engine.growth.tree import Tree, levels
from gpuboost.estimators.model.fitted import sum_of_trees

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


NO_CHILD = -1  # scikit-learn's TREE_LEAF
UNDEFINED = -2  # scikit-learn's TREE_UNDEFINED


class ThresholdsByNode:
    """The thresholds of a tree with categorical splits: ``threshold[node]`` is a float.

    They are not an array, and categorical splits have none, because programs that read
    scikit-learn's trees would ignore the categories, and show or predict something else without an
    error.
    """

    def __init__(self, threshold: np.ndarray) -> None:
        self._threshold = threshold

    def __len__(self) -> int:
        return len(self._threshold)

    def __getitem__(self, node: Any) -> np.float64:
        try:
            place = index(node)
        except TypeError:
            raise _not_an_array() from None
        found = self._threshold[place]
        if np.isnan(found):
            raise TypeError(
                f"node {place} splits on categories and has no threshold; categories_left({place}) "
                "of tree_ has the codes that go left, and is_categorical says which nodes are such "
                "splits. scikit-learn's export_text, export_graphviz and plot_tree cannot show "
                "them; gpuboost.explain can"
            )
        return found

    @property
    def dtype(self) -> Any:
        """Raises a TypeError, as all attempts to read the thresholds as an array."""
        raise _not_an_array()

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise _not_an_array()


def _not_an_array() -> TypeError:
    return TypeError(
        "this tree splits on categories, so its thresholds cannot be read as an array: other "
        "programs would ignore the categories. Read them node by node (a categorical split has "
        "categories_left(node) instead); to convert the model, use its to_treelite or to_onnx"
    )


class TreeView:
    """One tree, read-only, with the attributes of scikit-learn's ``tree_``.

    Nodes are numbered breadth-first (scikit-learn: depth-first). Categorical splits have no
    threshold; ``categories_left(node)`` returns the codes that a split sends left. In a tree with
    such splits, ``threshold`` can only be read node by node (see `ThresholdsByNode`), so
    scikit-learn's `export_text` and `plot_tree` raise an error; the functions of
    `gpuboost.explain` show it. Methods take an X as `predict` of
    the estimator does, but not a `Dataset`, and match columns by position.

    Attributes
    ----------
    node_count, capacity, max_depth, n_leaves, n_features, n_outputs, max_n_classes : int
        Sizes of the tree. The capacity is the number of nodes; the depth is 0 if the root is a
        leaf.
    n_classes : ndarray of int of shape (n_outputs,)
        Number of classes of each output; 1 in a regression.
    children_left, children_right : ndarray of int64 of shape (node_count,)
        Child nodes; -1 in leaves.
    feature : ndarray of int64 of shape (node_count,)
        Split feature; -2 in leaves.
    threshold : ndarray of float64 of shape (node_count,), or ThresholdsByNode
        ``x <= threshold`` goes left; +inf if only missing values go right, -2 in leaves. To read
        that of a categorical split is an error.
    is_categorical : ndarray of bool of shape (node_count,)
        Mask of the categorical splits.
    missing_go_to_left : ndarray of uint8 of shape (node_count,)
        1 where missing values go left.
    impurity, weighted_n_node_samples : ndarray of float64 of shape (node_count,)
        Impurity of each node, and total weight of its training rows; in gradient boosting, NaN and
        total hessian.
    n_node_samples : ndarray of int64 of shape (node_count,)
        Number of training rows in each node.
    value : ndarray of float64 of shape (node_count, n_outputs, max_n_classes)
        Class probabilities or, for a regression, values (the last axis has length 1); in gradient
        boosting, contributions to raw predictions.
    """

    def __init__(self, tree: Tree, schema: FeatureSchema, n_classes: int | list[int]) -> None:
        """Make the view; ``n_classes`` is 1 in a regression, a list with several outputs."""
        self._tree = tree
        self._schema = replace(schema, names=None)
        self.n_features = schema.n_features
        self.max_n_classes = int(np.max(n_classes))
        self.n_outputs = tree.value.shape[1] // self.max_n_classes
        self.n_classes = np.full(self.n_outputs, n_classes, dtype=np.intp)
        self.node_count = self.capacity = tree.node_count
        self.impurity = tree.impurity
        self.weighted_n_node_samples = tree.weight
        self.n_node_samples = tree.count
        self.value = tree.value.reshape(self.node_count, self.n_outputs, self.max_n_classes)
        leaf = tree.left == 0
        self.n_leaves, self.max_depth = int(leaf.sum()), len(levels(tree.left)) - 1
        self.children_left = np.where(leaf, NO_CHILD, tree.left).astype(np.int64)
        self.children_right = np.where(leaf, NO_CHILD, tree.left + 1).astype(np.int64)
        self.feature = np.where(leaf, UNDEFINED, tree.feature).astype(np.int64)
        threshold = np.where(leaf, float(UNDEFINED), tree.threshold)
        self.is_categorical = tree.category >= 0
        has_sets = bool(self.is_categorical.any())
        self.threshold: Any = ThresholdsByNode(threshold) if has_sets else threshold
        self.missing_go_to_left = (tree.missing_left & ~leaf).astype(np.uint8)

    def categories_left(self, node: int) -> np.ndarray:
        """Codes of the categories that a categorical split sends left; the other codes go right.

        Codes absent from the node's training rows go where missing and unknown categories go. If
        these go left (see ``missing_go_to_left``), the result includes all absent codes up to 255,
        even those of no category.

        Raises
        ------
        ValueError
            The node is a leaf or a split on a numeric feature.
        IndexError
            There is no such node.
        """
        if self._tree.category[node] < 0:
            raise ValueError(
                f"node {node} is not a categorical split; is_categorical says which nodes are"
            )
        mask = self._tree.masks[self._tree.category[node]]
        return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))

    def compute_node_depths(self) -> np.ndarray:
        """Depth of each node; the root has depth 1."""
        return self._tree.depths().astype(np.int64) + 1

    def compute_feature_importances(self, normalize: bool = True) -> np.ndarray:
        """Weighted impurity decrease per feature, as a fraction of the total if ``normalize``."""
        decreases = impurity_decrease_per_feature(self._tree, self.n_features)
        total = decreases.sum()
        return decreases / total if normalize and total > 0 else decreases

    def _columns(self, X: Any, schema: FeatureSchema) -> np.ndarray:
        """The checked columns of X on the host: numeric values as floats, categories as codes."""
        here = X if is_sparse(X) else as_host_array(X, "X")
        return check_features(to_dense(apply_schema(here, schema, "tree_")))

    def predict(self, X: Any) -> np.ndarray:
        """Value of each row's leaf: (n, classes) with one output, else (n, outputs, classes or 1).

        Raises
        ------
        TypeError, ValueError
            X does not fit the tree; the message says what is allowed.
        MemoryError
            There is not enough memory.
        """
        values = self.value[self.apply(X)]
        return values[:, 0] if self.max_n_classes > 1 and self.n_outputs == 1 else values

    def apply(self, X: Any) -> np.ndarray:
        """Leaf of each row: int64 (n,).

        Raises
        ------
        TypeError, ValueError
            X does not fit the tree; the message says what is allowed.
        MemoryError
            There is not enough memory.
        """
        ensemble, columns = Ensemble.of((self._tree,)), self._columns(X, self._schema)
        row_bytes = columns.shape[1] * columns.itemsize
        backend = choose_backend("cpu", prediction_work(len(columns), row_bytes, ensemble))
        return backend.apply(ensemble, columns, 1)[:, 0].astype(np.int64)

    def decision_path(self, X: Any) -> csr_matrix:
        """Matrix (n, node_count) with ones at the nodes that each row passes through.

        Raises
        ------
        TypeError, ValueError
            X does not fit the tree; the message says what is allowed.
        MemoryError
            There is not enough memory.
        """
        return node_paths(Ensemble.of((self._tree,)), self.apply(X)[:, None])

    def compute_partial_dependence(
        self, grid: Any, target_features: np.ndarray, out: np.ndarray
    ) -> None:
        """Add to ``out`` the mean prediction with the target features set to each row of ``grid``.

        A split on another feature sends every row both ways, in proportion to the training weight
        of its children (Friedman 2001, section 8.2). The prediction is that of the first output or,
        for a classification, the probability of the first class.

        Raises
        ------
        TypeError, ValueError
            ``grid`` does not fit the target features, or ``out`` does not have one entry per row.
        IndexError
            There is no such feature.
        """
        known, n_values = np.zeros(self.n_features, dtype=bool), self._tree.value.shape[1]
        known[target_features] = True
        columns = np.zeros((len(grid), self.n_features))
        schema = self._schema.select(np.asarray(target_features))
        columns[:, target_features] = self._columns(grid, schema)
        model = sum_of_trees(Ensemble.of((self._tree,)), self.n_features, np.zeros(n_values))
        out += partial_dependence(model, columns, known)[:, 0]


def node_paths(ensemble: Ensemble, leaves: np.ndarray) -> csr_matrix:
    """Matrix (n, n_nodes) with ones at the nodes on the paths to the leaves (n, n_trees).

    If the leaves are on a GPU, the result is a CuPy matrix of float64 on that GPU.
    """
    with working_on(leaves):
        indices, indptr = _columns_of_paths(ensemble, leaves)
        return matrix_of_ones(indices, indptr, (len(leaves), int(ensemble.offset[-1])))


def _columns_of_paths(ensemble: Ensemble, leaves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes on the paths to each row's leaves, as indices and index pointer of a CSR matrix.

    Nodes are numbered breadth-first, so a path from the root visits them in ascending order. Each
    path is written from its leaf backwards; each step moves up one node in all rows and trees.
    """
    xp, n_trees = array_module(leaves), ensemble.n_trees
    node = (leaves + xp.asarray(ensemble.offset[:-1].astype(np.int64))).ravel()
    depth = np.concatenate([tree.depths() for tree in ensemble.trees])
    above = xp.asarray(depth.astype(np.int64))[node]
    stops = xp.cumsum(above + 1)
    n_ones = int(stops[-1])
    kind: Any = np.int32 if max(n_ones, len(depth)) < 2**31 else np.int64
    parent, node = xp.asarray(_parents(ensemble).astype(kind)), node.astype(kind)
    indices, place = xp.empty(n_ones, dtype=kind), stops - 1
    while len(node):
        indices[place] = node
        more = xp.flatnonzero(above > 0)
        node, place, above = parent[node[more]], place[more] - 1, above[more] - 1
    ends = stops[n_trees - 1 :: n_trees]
    return indices, xp.concatenate([xp.zeros(1, dtype=kind), ends.astype(kind)])


def _parents(ensemble: Ensemble) -> np.ndarray:
    """Parent of each node of an ensemble, numbered across its trees; 0 for roots."""
    start = np.repeat(ensemble.offset[:-1], np.diff(ensemble.offset))
    inner = np.flatnonzero(ensemble.left)
    child = start[inner] + ensemble.left[inner]
    parent = np.zeros(len(start), dtype=np.int64)
    parent[child] = parent[child + 1] = inner
    return parent
