r"""Trees as the edges of their paths, over which the sums of SHAP values run.

The value of a set S of features is the tree's output for a row of which only the features in S are
known: a split on a known feature goes where the row goes, any other goes both ways, by the shares
of the training weight in the children (Lundberg et al. 2020, "From local explanations to global
understanding with explainable AI for trees", Algorithm 1). So a leaf adds its value times a product
with one factor for each distinct feature on its path: o_j for known features, z_j for others. Here
o_j is 1 if the row passes all splits on feature j, else 0, and z_j is the product of the shares of
these splits. By the multilinear extension (Owen 1972), a leaf adds to the Shapley value of j

    value * integral over t from 0 to 1 of  (o_j - z_j) * product over i != j of f_i(t),

    f_i(t) = z_i (1 - t) + o_i t.

With D distinct features this polynomial has degree D - 1, so `gauss_legendre` integrates it exactly
with ceil(D / 2) points. The interaction of i and j is half of the integral with the factors
(o_i - z_i) (o_j - z_j) and without i and j in the product.

A tree is a list of edges in preorder, each from a split to a child:

        0                 child      1  3  4  2
       / \                depth      1  2  2  1
      1   2               n_closed   0  1  2  1     edges of the path that end below no later edge
     / \
    3   4

Down a path, C is the product of the f_i: an edge multiplies it by `PathTree.ratio`, f_new / f_old
of its feature. In a leaf S = C * value, in an inner node S is the sum over its children. When an
edge is closed, the sum over the points of S * `PathTree.step` is added to its feature; a step is
w (g_new - g_old) with g = (o - z) / f, which is (1 - z) / f for o = 1 and -1 / (1 - t) for o = 0.
The steps of one feature telescope along a path, so that its last edge counts, and no factor that
can be 0 divides. Ratio and step depend on the row by a code only:

    0   the row failed an earlier split of the path on this feature; the step is 0
    1   this is the first one that it fails
    2   it passes all of them
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuboost.engine.explanations.quadrature import gauss_legendre
from gpuboost.engine.growth.tree import Tree, add_children, levels, parents_of

PATH_CODES = 3


@dataclass(frozen=True, eq=False)
class PathTree:
    """The E edges of a tree in preorder, for n_points points of the quadrature.

    Attributes
    ----------
    column : int32 (E,)
        Column that the split above compares.
    feature : int32 (E,)
        Feature of X that the column is made from.
    threshold : float64 (E,)
    missing_left : bool (E,)
    category : int32 (E,)
        Row of ``masks``; -1 for numbers.
    masks : uint32 (c, 8)
    is_left : bool (E,)
        Whether the edge leads to the left child.
    depth, previous : int32 (E,)
        Depth of the child, and of the last edge above with the same feature; 0 if there is none.
    n_closed : int32 (E,)
        Number of edges that are closed after the leaf; 0 for inner nodes.
    stop : int32 (E,)
        Number of the first later edge that is not below this one.
    value : float64 (E, n_values)
        Values of the leaf; unspecified for inner nodes.
    ratio, step : float64 (E, n_points, PATH_CODES)
    marginal : float64 (E, n_points, 2)
        g for o = 0 and o = 1.
    first_output : int
        Output that the first value is added to.
    """

    column: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray
    category: np.ndarray
    masks: np.ndarray
    is_left: np.ndarray
    depth: np.ndarray
    previous: np.ndarray
    n_closed: np.ndarray
    stop: np.ndarray
    value: np.ndarray
    ratio: np.ndarray
    step: np.ndarray
    marginal: np.ndarray
    first_output: int

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return len(self.depth)

    @property
    def n_points(self) -> int:
        """Number of points of the quadrature."""
        return self.ratio.shape[1]

    @property
    def max_depth(self) -> int:
        """Largest depth of a node."""
        return int(self.depth.max(initial=0))


def bytes_per_edge(n_distinct: int, n_values: int) -> int:
    """Largest memory that an edge takes, with so many distinct features on a path."""
    n_points = max(1, -(-n_distinct // 2))
    return 46 + 8 * n_values + 8 * n_points * (2 * PATH_CODES + 2)


def path_tree(tree: Tree, cover: np.ndarray, feature: np.ndarray, first_output: int) -> PathTree:
    """The edges of a tree.

    Parameters
    ----------
    tree : Tree
    cover : float64 (m,)
        Weight of the training rows in each node; positive where the node is split.
    feature : int (m,)
        Feature of each node's split; -1 in leaves.
    first_output : int
    """
    parent = parents_of(tree.left)
    of_split = feature[parent]
    previous, depth = _previous(parent, of_split), tree.depths()
    child, n_closed, stop = _preorder(tree.left)
    split = parent[child]
    return PathTree(
        column=tree.feature[split],
        feature=of_split[child].astype(np.int32),
        threshold=tree.threshold[split],
        missing_left=tree.missing_left[split],
        category=tree.category[split],
        masks=tree.masks,
        is_left=tree.left[split] == child,
        depth=depth[child],
        previous=depth[previous[child]],  # the root, whose depth is 0, if there is none
        n_closed=n_closed[child],
        stop=stop[child],
        value=tree.value[child],
        **_tables(tree.left, cover, parent, previous, child),
        first_output=first_output,
    )


def _previous(parent: np.ndarray, of_split: np.ndarray) -> np.ndarray:
    """The last node above whose edge has the same feature; the root if there is none: (m,)."""
    above = np.maximum(parent, 0)
    while True:
        other = np.flatnonzero((above > 0) & (of_split[above] != of_split))
        if not len(other):
            return above
        above[other] = parent[above[other]]


def _preorder(left: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The nodes below the root in preorder: (m - 1,); ``n_closed`` and ``stop`` of all: (m,)."""
    depths, size = levels(left), np.ones(len(left), dtype=np.int64)
    add_children(left, size)
    place, n_closed = np.zeros(len(left), dtype=np.int64), np.zeros(len(left), dtype=np.int32)
    for nodes in depths:
        inner = np.flatnonzero(left[nodes]) + nodes.start
        first = left[inner]
        place[first] = place[inner] + 1
        place[first + 1] = place[first] + size[first]
        n_closed[first], n_closed[first + 1] = 1, n_closed[inner] + 1
    order = np.empty(len(left), dtype=np.int64)
    order[place] = np.arange(len(left))
    stop = (place + size - 1).astype(np.int32)
    return order[1:], np.where(left == 0, n_closed, 0).astype(np.int32), stop


def _tables(
    left: np.ndarray, cover: np.ndarray, parent: np.ndarray, previous: np.ndarray, child: np.ndarray
) -> dict[str, np.ndarray]:
    """`PathTree.ratio`, `PathTree.step` and `PathTree.marginal`."""
    z, n_distinct = np.ones(len(left)), np.zeros(len(left), dtype=np.int64)
    for nodes in levels(left)[1:]:
        above, before = parent[nodes], previous[nodes]
        z[nodes] = cover[nodes] / cover[above] * z[before]
        n_distinct[nodes] = n_distinct[above] + (before == 0)
    t, w = gauss_legendre(max(1, -(-int(n_distinct.max()) // 2)))
    new, old = z[child, None], z[previous[child], None]
    is_first = (previous[child] == 0)[:, None]
    failed, passed = new * (1.0 - t), new * (1.0 - t) + t
    before = np.where(is_first, 1.0, old * (1.0 - t) + t)
    both = new / np.where(old > 0.0, old, 1.0)  # if the old factor is 0, so is the new one
    ratios = [np.broadcast_to(both, failed.shape), failed / before, passed / before]
    g_failed, g_passed = np.broadcast_to(-1.0 / (1.0 - t), failed.shape), (1.0 - new) / passed
    g_before = np.where(is_first, 0.0, (1.0 - old) / before)
    steps = [np.zeros(failed.shape), w * (g_failed - g_before), w * (g_passed - g_before)]
    tables = {"ratio": ratios, "step": steps, "marginal": [g_failed, g_passed]}
    return {name: np.stack(columns, axis=2) for name, columns in tables.items()}
