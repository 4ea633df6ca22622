"""Rows on which imported models must equal their source."""

from __future__ import annotations

from typing import Any

import numpy as np


def hard_rows(
    thresholds: dict[int, np.ndarray],
    n_features: int,
    rng: np.random.Generator,
    categories: dict[int, np.ndarray] | None = None,
    infinite: bool = True,
    dtype: type = np.float64,
) -> np.ndarray:
    """Rows with NaN, zeros of both signs, infinities, every threshold and its neighbours."""
    special = [np.nan, 0.0, -0.0, 1e-36, -1e-36, 1e-35, 5e-324, 1e30]
    special += [np.inf, -np.inf] if infinite else []
    pools = []
    for feature in range(n_features):
        t = np.asarray(thresholds.get(feature, np.zeros(0)), dtype=np.float64)
        t = t[np.isfinite(t)]
        single = t.astype(np.float32)
        near = [t, np.nextafter(t, np.inf), np.nextafter(t, -np.inf), single.astype(np.float64)]
        near += [np.nextafter(single, np.float32(end)).astype(float) for end in (np.inf, -np.inf)]
        pools.append(np.concatenate([special, *near, rng.normal(size=20)]))
    for feature, own in (categories or {}).items():
        odd = [np.nan, -1.0, -0.5, 0.5, 1e6, 2.0**24, float(own.max()) + 1.0, -0.0]
        pools[feature] = np.concatenate([own.astype(float), own + 0.25, odd])
    n = max(map(len, pools))
    columns = [np.concatenate([rng.permutation(p), rng.choice(p, n - len(p))]) for p in pools]
    return np.column_stack([rng.permutation(column) for column in columns]).astype(dtype)


def assert_bits(found: Any, wanted: Any) -> None:
    """Equal bits, of the same type, apart from the shape (n,) or (n, 1)."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.dtype == wanted.dtype, (found.dtype, wanted.dtype)
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)
