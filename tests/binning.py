"""The bins of a matrix, for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuboost.data.binning import learn_bins
from gpuboost.engine.bins import MAX_BINS, BinMapper, BinRule


def fit_bin_mapper(
    X: np.ndarray,
    is_categorical: np.ndarray,
    max_bins: int = MAX_BINS,
    weights: Any = None,
    n_threads: int = 1,
) -> BinMapper:
    """The mapper of `learn_bins`."""
    return learn_bins(X, BinRule(is_categorical, max_bins, weights), n_threads)[0]
