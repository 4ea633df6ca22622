"""Trees in the arrays of scikit-learn, whose nodes are numbered depth-first."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.tree._tree import NODE_DTYPE, TREE_LEAF, TREE_UNDEFINED
from sklearn.tree._tree import Tree as SklearnTree

from gpuboost.engine.growth.tree import Tree, add_children, levels


def depth_first_numbers(left: np.ndarray) -> np.ndarray:
    """Depth-first number of each node of a tree whose nodes are numbered breadth-first: int64 (m,).

    Parameters
    ----------
    left : int32 (m,)
        Left child of each node, which the right child follows; 0 in leaves.
    """
    size, number = np.ones(len(left), dtype=np.int64), np.zeros(len(left), dtype=np.int64)
    depths = levels(left)
    add_children(left, size)
    for nodes in depths:
        inner = np.flatnonzero(left[nodes]) + nodes.start
        number[left[inner]] = number[inner] + 1
        number[left[inner] + 1] = number[inner] + 1 + size[left[inner]]
    return number


def sklearn_tree(tree: Tree, n_features: int, n_classes: np.ndarray) -> Any:
    """The object ``tree_`` of scikit-learn's trees.

    Parameters
    ----------
    tree : Tree
        A tree without categorical splits.
    n_features : int
    n_classes : ndarray of int of shape (n_outputs,)
        Number of classes of each output; 1 in a regression.
    """
    number, inner = depth_first_numbers(tree.left), tree.left > 0
    nodes = np.zeros(tree.node_count, dtype=NODE_DTYPE)
    children = {"left_child": number[tree.left], "right_child": number[tree.left + inner]}
    for name, child in children.items():
        nodes[name][number] = np.where(inner, child, TREE_LEAF)
    nodes["feature"][number] = np.where(inner, tree.feature, TREE_UNDEFINED)
    nodes["threshold"][number] = np.where(inner, tree.threshold, TREE_UNDEFINED)
    nodes["missing_go_to_left"][number] = tree.missing_left & inner
    nodes["impurity"][number] = impurities(tree)
    nodes["n_node_samples"][number] = tree.count
    nodes["weighted_n_node_samples"][number] = tree.weight
    values = np.empty_like(tree.value, dtype=np.float64)
    values[number] = tree.value
    made = SklearnTree(n_features, np.asarray(n_classes, dtype=np.intp), len(n_classes))
    made.__setstate__(
        {
            "max_depth": len(levels(tree.left)) - 1,
            "node_count": tree.node_count,
            "nodes": nodes,
            "values": values.reshape(tree.node_count, len(n_classes), -1),
        }
    )
    return made


def impurities(tree: Tree) -> np.ndarray:
    """Impurity of each node, float64 (m,).

    Trees of boosting have none. Theirs are the decreases by the splits below a node, per weight of
    the node, so that scikit-learn computes gpuboost's importances from them.
    """
    if not np.isnan(tree.impurity).any():
        return tree.impurity
    decrease = tree.impurity_decrease * tree.weight[0]
    add_children(tree.left, decrease)
    return np.where(tree.left > 0, decrease / np.where(tree.weight > 0.0, tree.weight, 1.0), 0.0)


def tree_predictor(tree: Tree) -> Any:
    """A tree of scikit-learn's histogram boosting, from one with a value per leaf."""
    number, inner = depth_first_numbers(tree.left), tree.left > 0
    nodes = np.zeros(tree.node_count, dtype=PREDICTOR_RECORD_DTYPE)
    fields = {
        "value": tree.value[:, 0],
        "count": tree.count,
        "feature_idx": np.where(inner, tree.feature, 0),
        "num_threshold": np.where(inner, tree.threshold, 0.0),
        "missing_go_to_left": tree.missing_left & inner,
        "left": np.where(inner, number[tree.left], 0),
        "right": np.where(inner, number[tree.left + inner], 0),
        "gain": tree.impurity_decrease,
        "depth": tree.depths(),
        "is_leaf": ~inner,
        "bin_threshold": tree.code,
    }
    for name, values in fields.items():
        nodes[name][number] = values
    no_sets = np.zeros((0, 8), dtype=np.uint32)
    return TreePredictor(nodes, no_sets, no_sets)
