"""Assertions that arrays, dataclasses of arrays and models are equal to the last bit."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from gpuboost.engine.sparse_rows import dense


def assert_same(found: Any, expected: Any, where: str) -> None:
    """Assert that two arrays have equal dtypes and bits (NaN equals NaN)."""
    assert found.dtype == expected.dtype, f"{where}: {found.dtype} is not {expected.dtype}"
    np.testing.assert_array_equal(found, expected, err_msg=where)
    if found.dtype == np.float64:
        known = ~np.isnan(found)
        ours, theirs = (np.ascontiguousarray(a[known]).view(np.uint64) for a in (found, expected))
        np.testing.assert_array_equal(ours, theirs, err_msg=where)


def assert_same_fields(found: Any, expected: Any, where: str) -> None:
    """Assert that every field of two dataclasses holds equal arrays, of which some are sparse."""
    for f in fields(expected):
        own, other = (dense(getattr(each, f.name)) for each in (found, expected))
        assert_same(own, other, f"{where}: {f.name}")


def assert_equal_models(found: Any, expected: Any) -> None:
    """Assert equal fingerprints, and equal gains, impurities, weights and counts of nodes."""
    assert found.fingerprint() == expected.fingerprint()
    found, expected = (getattr(own, "_boosting", own) for own in (found, expected))
    assert_same_fields(found._ensemble, expected._ensemble, "ensemble")
