"""The arrays of an ensemble without what follows from others, as files and pickles hold them.

Trees are in breadth-first order, so the k-th inner node of a tree (from 0) has the nodes 2 k + 1
and 2 k + 2 as children: which nodes have a split tells the shape of the tree.

    node       0   1   2   3   4
    feature    5  -1   2  -1  -1
    left       1   0   3   0   0
"""

from __future__ import annotations

import numpy as np

from gpuboost.engine.growth.tree import TREE_TYPES

# Arrays that are stored as a single element if all elements are the same, and no prediction reads.
REPORTED = ("impurity_decrease", "impurity", "weight", "count")
# All arrays of a compact ensemble, and their types. `category` is left out without masks, `weight`
# if it equals `count`.
COMPACT_TYPES: dict[str, type] = {
    "n_nodes": np.int32,
    "n_masks": np.int32,
    **{name: kind for name, kind in TREE_TYPES.items() if name != "left"},
    "code": np.uint8,
    "missing_left": np.uint8,
    "count": np.uint32,
}


def compacted(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of an `Ensemble` in the types of `COMPACT_TYPES` (larger counts as int64)."""
    found = dict(columns)
    found["n_nodes"] = np.diff(found.pop("offset"))
    found["n_masks"] = np.diff(found.pop("mask_offset"))
    del found["left"]
    if not len(found["masks"]):
        del found["category"]
    if np.array_equal(found["weight"], found["count"]):
        del found["weight"]
    for name, values in found.items():
        kind = COMPACT_TYPES[name]
        if name == "count" and values.max(initial=0) > np.iinfo(np.uint32).max:
            kind = np.int64
        found[name] = _single(values) if name in REPORTED else values
        found[name] = np.ascontiguousarray(found[name], dtype=kind)
    return found


def _single(values: np.ndarray) -> np.ndarray:
    """The first element alone if all elements have the same bits."""
    bits = values.view(np.int64)
    return values[:1] if (bits == bits[:1]).all() else values


def expanded(compact: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of an `Ensemble` from those of `compacted`, in the types of `TREE_TYPES`.

    The dict is emptied, so that memory need not hold both forms.
    """
    found = compact
    offset, mask_offset = (offsets(found.pop(name)) for name in ("n_nodes", "n_masks"))
    n_nodes = int(offset[-1])
    found["left"] = left_children(found["feature"], offset)
    if "category" not in found:
        found["category"] = np.full(n_nodes, -1)
    found.setdefault("weight", found["count"])
    for name in REPORTED:
        if len(found[name]) == 1:
            found[name] = np.broadcast_to(found[name].astype(TREE_TYPES[name]), n_nodes)
    columns: dict[str, np.ndarray] = {
        name: np.asarray(found[name], dtype=kind) for name, kind in TREE_TYPES.items()
    }
    return {"offset": offset, "mask_offset": mask_offset, **columns}


def left_children(feature: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """The left child of each node, within its tree; 0 in leaves: int32 (m,)."""
    inner = (feature >= 0).view(np.int8)
    left = np.cumsum(inner, dtype=np.int32)
    left -= inner  # the number of inner nodes before each node
    left -= np.repeat(left[offset[:-1]], np.diff(offset))  # of its tree
    left *= 2
    left += 1
    left *= inner
    return left


def offsets(sizes: np.ndarray | list[int]) -> np.ndarray:
    """Start of each part and end of the last part, from the sizes of the parts: int64."""
    return np.append(0, np.cumsum(sizes, dtype=np.int64)).astype(np.int64)
