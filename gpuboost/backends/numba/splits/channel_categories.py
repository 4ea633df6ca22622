"""Categories at a node of several channels: which are rare, and the order of the others."""

# mypy: check-untyped-defs=False
# Numba gives compiled functions their types.

from __future__ import annotations

import numpy as np

from gpuboost.backends.numba.compiler import helper, inlined
from gpuboost.backends.numba.splits.categorical import candidate_order
from gpuboost.backends.numba.splits.channels import bin_hessian, bin_value, ordering_channel


@inlined
def take_rare_channels(problem, channels, m):
    """Of ``m`` categories in `Scratch.bins` move rare ones to those that are missing.

    Leaves their codes in `Scratch.rare`; returns the number of the others, and theirs.
    """
    scratch, kept, n_rare = problem.scratch, np.int64(0), np.int64(0)
    for j in range(m):
        code = scratch.bins[j]
        hessian = bin_hessian(channels, scratch, code)
        if hessian < problem.limits.min_category:
            scratch.rare[n_rare] = code
            scratch.missing[1] += hessian
            scratch.missing[2] += channels.counts[code]
            n_rare += 1
        else:
            scratch.bins[kept] = code
            kept += 1
    return kept, n_rare


@helper
def order_categories(problem, channels, node, feature, m):
    """Put `Scratch.bins` in the order of candidates; their range, and whether each is alone."""
    scratch = problem.scratch
    bins, keys, order = scratch.bins, scratch.keys, scratch.order
    largest = ordering_channel(channels)
    for j in range(m):
        gradient = np.int64(0)
        if largest >= 0:
            gradient = bin_value(channels, scratch, largest, bins[j])
        else:
            for p in range(channels.state[0]):
                gradient += bin_value(channels, scratch, p, bins[j])
        keys[j] = np.float64(gradient) / np.float64(bin_hessian(channels, scratch, bins[j]))
    first, last, alone = candidate_order(problem, node, feature, keys, bins, m)
    for j in range(m):
        channels.left[j] = bins[order[j]]
    hessian, count = np.int64(0), np.int64(0)
    for j in range(m):
        bins[j], order[j] = channels.left[j], j
        if alone:
            hessian, count = np.int64(0), np.int64(0)
        hessian += bin_hessian(channels, scratch, bins[j])
        count += channels.counts[bins[j]]
        channels.left_hessian[j], channels.left_count[j] = hessian, count
    return first, last, alone
