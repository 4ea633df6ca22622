"""The binned matrix on the device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuboost.backends.cuda.runtime.protocol import Runtime
from gpuboost.backends.cuda.runtime.source import constant
from gpuboost.engine.bins import BinnedMatrix
from gpuboost.engine.growth.frontier import Array


@dataclass(frozen=True)
class DeviceMatrix:
    """Codes of n rows in the two layouts that kernels read, and properties of the F features.

    Attributes
    ----------
    codes : uint8 (F, n)
        Codes by column, for the partition and for rows that traverse trees.
    tiles : uint8 (tiles, n, tile)
        Codes of ``tile`` features of a row side by side, padded with zeros, for histograms.
    features : int32 (F,)
        0, 1, ..., F - 1: the feature list of nodes whose histograms have all features.
    n_bins : int32 (F,)
        Number of value bins of each feature.
    is_categorical : uint8 (F,)
        Whether each feature is categorical.
    center : float64 (F, width - 1)
        As in `BinMapper`: midpoint of the smallest and the largest training value of each bin.
    width : int
        Number of bins of a histogram: the value bins and the bin for missing values.
    missing_code, n_samples, n_features : int
        As in `BinnedMatrix`.
    tile : int
        Number of features of a tile.
    mask_words : int
        Number of 32-bit words of a split's mask; 0 if no feature is categorical.
    """

    codes: Array
    tiles: Array
    features: Array
    n_bins: Array
    is_categorical: Array
    center: Array
    width: int
    missing_code: int
    n_samples: int
    n_features: int
    tile: int
    mask_words: int

    @property
    def has_masks(self) -> bool:
        """Whether any feature is categorical, so that splits have masks."""
        return self.mask_words > 0


def upload_matrix(runtime: Runtime, matrix: BinnedMatrix, tile: int) -> DeviceMatrix:
    """Copy a binned matrix to the device and lay its codes out in tiles."""
    mapper = matrix.mapper
    codes = runtime.asarray(matrix.codes)
    return DeviceMatrix(
        codes=codes,
        tiles=in_tiles(runtime, codes, tile),
        features=runtime.asarray(np.arange(matrix.n_features, dtype=np.int32)),
        n_bins=runtime.asarray(mapper.n_bins.astype(np.int32)),
        is_categorical=runtime.asarray(mapper.is_categorical.astype(np.uint8)),
        center=runtime.asarray(mapper.padded(mapper.centers)),
        width=matrix.width,
        missing_code=matrix.missing_code,
        n_samples=matrix.n_samples,
        n_features=matrix.n_features,
        tile=tile,
        mask_words=constant("common/common.cuh", "MASK_WORDS")
        if mapper.is_categorical.any()
        else 0,
    )


def in_tiles(runtime: Runtime, codes: Array, tile: int) -> Array:
    """Copy codes (F, n) to tiles (ceil(F / tile), n, tile).

    An example with F = 2 and tile = 4, in which dots are padding:

    codes  f0: a b c      tiles  row 0: a d . .
           f1: d e f             row 1: b e . .
                                 row 2: c f . .
    """
    xp = runtime.xp
    n_features, n = codes.shape
    n_tiles = -(-n_features // tile)
    tiles = xp.zeros((n_tiles, n, tile), dtype=xp.uint8)
    for t in range(n_tiles):
        part = codes[t * tile : (t + 1) * tile]
        tiles[t, :, : len(part)] = part.T
    return tiles
