"""The trees of a model in a file: the arrays of `engine.ensembles.compact`.

Child nodes are not stored, since they follow from the order of the nodes: no file can describe a
cycle, a node with two parents or a child out of range.
"""

from __future__ import annotations

import numpy as np

from gpuboost.engine.bins import BinMapper
from gpuboost.engine.ensembles.compact import REPORTED, expanded, offsets
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.io.checks import Arrays, require

_MASK_WORDS = 8  # of 32 bits


def trees_to_file(ensemble: Ensemble) -> dict[str, np.ndarray]:
    """The arrays of the trees."""
    return ensemble.__getstate__()


def trees_from_file(arrays: Arrays, mapper: BinMapper, n_values: int) -> Ensemble:
    """Check and read the trees.

    Parameters
    ----------
    arrays : Arrays
    mapper : BinMapper
        Bins of the features that the trees split on.
    n_values : int
        Number of values of a leaf.
    """
    found = {"n_nodes": arrays.take("n_nodes", np.int32, (None,))}
    found["n_masks"] = arrays.take("n_masks", np.int32, found["n_nodes"].shape)
    _check_sizes(found)
    m, c = (int(found[name].sum(dtype=np.int64)) for name in ("n_nodes", "n_masks"))
    found["feature"] = arrays.take("feature", np.int32, (m,))
    _check_shapes(found["feature"], found["n_nodes"])
    found["threshold"] = arrays.take("threshold", np.float64, (m,))
    found["code"] = arrays.take("code", np.uint8, (m,))
    found["missing_left"] = arrays.take("missing_left", np.uint8, (m,))
    found["masks"] = arrays.take("masks", np.uint32, (c, _MASK_WORDS))
    if c:
        found["category"] = arrays.take("category", np.int32, (m,))
    found["value"] = arrays.finite("value", (m, n_values))
    _check_sum(found["value"], offsets(found["n_nodes"]))
    _read_reported(found, arrays, m)
    _check_splits(found, mapper)
    return Ensemble(**expanded(found))


def _check_sizes(found: dict[str, np.ndarray]) -> None:
    n_nodes, n_masks = found["n_nodes"], found["n_masks"]
    require(len(n_nodes) > 0, "there are no trees")
    require((n_nodes >= 1).all(), "a tree has no nodes")
    require((n_masks >= 0).all(), "a tree has a negative number of masks")


def _check_shapes(feature: np.ndarray, n_nodes: np.ndarray) -> None:
    """Check that the nodes of each tree are those of a tree in breadth-first order.

    The children of the inner nodes before node i fill the places up to 2 k, if there are k such
    nodes. So i is the child of a node before it if i <= 2 k, and the last node closes the tree if
    there are as many nodes as places.
    """
    require((feature >= -1).all(), "a node has a negative feature")
    offset = offsets(n_nodes)
    first = offset[:-1].astype(np.int32)
    inner = (feature >= 0).view(np.int8)
    total = np.add.reduceat(inner, first, dtype=np.int32)
    places = np.cumsum(inner, dtype=np.int32)
    places -= inner
    places -= np.repeat(places[first], n_nodes)  # inner nodes of the tree before each node
    places *= 2
    places += np.repeat(first, n_nodes)
    in_place = np.arange(len(feature), dtype=np.int32) <= places
    require(in_place.all(), "a node is not the child of a node before it")
    require((n_nodes == 2 * total + 1).all(), "a tree lacks nodes")


def _check_sum(value: np.ndarray, offset: np.ndarray) -> None:
    """Check that no sum of values, one of each tree, is beyond float64."""
    largest = np.maximum(value.max(axis=1), -value.min(axis=1))
    with np.errstate(over="ignore"):
        total = np.maximum.reduceat(largest, offset[:-1]).sum()
    require(np.isfinite(total), "the sum of the values of the trees is beyond float64")


def _read_reported(found: dict[str, np.ndarray], arrays: Arrays, m: int) -> None:
    """Read the arrays that describe the training rows; one element stands for all nodes."""
    for name in REPORTED:
        if name == "weight" and name not in arrays:
            continue
        kinds = [np.uint32, np.int64] if name == "count" else [np.float64]
        column = arrays.take(name, kinds, (None,))
        require(len(column) in (1, m), f"{name} is neither one number nor one for each node")
        found[name] = column


def _check_splits(found: dict[str, np.ndarray], mapper: BinMapper) -> None:
    """Check features, thresholds, codes and categories of the splits."""
    feature, threshold, code = (found[name] for name in ("feature", "threshold", "code"))
    require((feature < mapper.n_features).all(), "a split is on a feature that does not exist")
    by_category = mapper.is_categorical[np.maximum(feature, 0)] & (feature >= 0)
    numeric = (feature >= 0) & ~by_category
    has_threshold = ~np.isnan(threshold)
    require((numeric == has_threshold).all(), "a threshold is NaN, or not of a numeric split")
    limit = np.where(numeric, mapper.missing_code, 1)
    require((code < limit).all(), "the code of a threshold is out of range")
    require((found["missing_left"] <= 1).all(), "a direction of missing values is neither 0 nor 1")
    category = found.get("category", np.full(1, -1, np.int32))
    require(((category >= 0) == by_category).all(), "a categorical split is not on a category")
    n_masks = np.repeat(found["n_masks"], found["n_nodes"])
    require((category < np.maximum(n_masks, 1)).all(), "a split has a mask that does not exist")
