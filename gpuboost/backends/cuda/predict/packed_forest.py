"""Ensembles on the device, packed for predict.cu; each is freed with its `Ensemble`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.backends.packed import PackedEnsembles
from gpuboost.engine.bins import round_down_to_float32
from gpuboost.engine.ensembles.ensemble import Ensemble
from gpuboost.engine.growth.frontier import Array

NARROW, FLOAT, DOUBLE = 0, 1, 2  # kinds of node records: NODE in predict.cu
_MISSING_GOES_RIGHT, _CATEGORICAL, _RIGHT_IS_LEAF, _LEFT_IS_LEAF = 1, 2, 4, 8


@dataclass(frozen=True, eq=False)
class DeviceForest:
    """The arrays that predict.cu reads, for m nodes, T trees and c sets of categories.

    Attributes
    ----------
    node : int
        Kind of the node records: `NARROW`, `FLOAT` or `DOUBLE`.
    nodes : uint32 (m, 2 or 4)
        Node records; see predict.cu.
    offset : int64 (T + 1,)
        Index of each tree's first node, then the end of the last tree.
    masks : uint32 (c, 8)
        Codes that go left, one bit each; one unused row if no split is categorical.
    has_masks : bool
        Whether any split is categorical.
    value : float64 (m, n_values)
        Values of each node, one per class or output; only those of leaves are read.
    """

    node: int
    nodes: Array
    offset: Array
    masks: Array
    has_masks: bool
    value: Array

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.offset) - 1

    @property
    def n_values(self) -> int:
        """Number of values of a node: classes or outputs."""
        return self.value.shape[1]


_forests: PackedEnsembles[DeviceForest] = PackedEnsembles()


def device_forest(runtime: Runtime, ensemble: Ensemble, dtype: np.dtype) -> DeviceForest:
    """Return an ensemble packed for rows of ``dtype``, which is packed at the first call.

    The copy on the device is freed with the ensemble or the runtime. Other threads can use it on
    streams that do not wait for the current one, so it is complete before it is stored.
    """

    def pack() -> DeviceForest:
        found = copy_forest_to_device(runtime, ensemble, dtype)
        runtime.to_host(found.offset)  # waits for all earlier work of this stream
        return found

    return _forests.of((runtime, ensemble), dtype.char, pack)


def copy_forest_to_device(runtime: Runtime, ensemble: Ensemble, dtype: np.dtype) -> DeviceForest:
    """Pack an ensemble for rows of ``dtype`` and copy it to the device."""
    node = record_kind(ensemble, dtype)
    masks = ensemble.masks if len(ensemble.masks) else np.zeros((1, 8))
    return DeviceForest(
        node=node,
        nodes=runtime.asarray(pack_nodes(ensemble, node)),
        offset=runtime.asarray(np.ascontiguousarray(ensemble.offset, dtype=np.int64)),
        masks=runtime.asarray(np.ascontiguousarray(masks, dtype=np.uint32)),
        has_masks=bool(len(ensemble.masks)),
        value=runtime.asarray(np.ascontiguousarray(ensemble.value, dtype=np.float64)),
    )


def record_kind(ensemble: Ensemble, dtype: np.dtype) -> int:
    """Choose the smallest kind of record for the nodes of an ensemble and rows of ``dtype``."""
    if dtype == np.float64:
        return DOUBLE
    largest_tree = int(np.diff(ensemble.offset).max())
    fits = largest_tree <= 1 << constant("predict/predict.cu", "NARROW_CHILD_BITS") and int(
        ensemble.feature.max()
    ) < 1 << constant("predict/predict.cu", "NARROW_FEATURE_BITS")
    return NARROW if fits else FLOAT


def pack_nodes(ensemble: Ensemble, node: int) -> np.ndarray:
    """Pack m nodes into records, uint32 (m, words); records of leaves are zero and never read."""
    inner = np.flatnonzero(ensemble.left)
    tree = np.searchsorted(ensemble.offset, inner, side="right") - 1
    left = ensemble.left[inner].astype(np.uint32)
    categorical = ensemble.category[inner] >= 0
    children = ensemble.offset[tree] + left
    flags = np.where(ensemble.missing_left[inner], 0, _MISSING_GOES_RIGHT)
    flags |= np.where(categorical, _CATEGORICAL, 0)
    flags |= np.where(ensemble.left[children] == 0, _LEFT_IS_LEAF, 0)
    flags |= np.where(ensemble.left[children + 1] == 0, _RIGHT_IS_LEAF, 0)
    name = "NARROW_FEATURE_BITS" if node == NARROW else "WIDE_FEATURE_BITS"
    bits = constant("predict/predict.cu", name)
    word = ensemble.feature[inner].astype(np.uint32) | (flags.astype(np.uint32) << np.uint32(bits))
    flag_bits = constant("predict/predict.cu", "FLAG_BITS")
    mask = (ensemble.mask_offset[tree] + ensemble.category[inner])[categorical]

    records = np.zeros((len(ensemble.left), 2 if node == NARROW else 4), dtype=np.uint32)
    if node == DOUBLE:
        pattern = np.ascontiguousarray(ensemble.threshold[inner]).view(np.uint64)
        pattern[categorical] = mask
        records[inner, 0] = pattern & np.uint64(0xFFFFFFFF)
        records[inner, 1] = pattern >> np.uint64(32)
        records[inner, 2], records[inner, 3] = word, left
        return records
    thresholds = round_down_to_float32(ensemble.threshold[inner]).view(np.uint32)
    thresholds[categorical] = mask
    records[inner, 0] = thresholds
    if node == NARROW:
        records[inner, 1] = word | left << np.uint32(bits + flag_bits)
    else:
        records[inner, 1], records[inner, 2] = word, left
    return records
