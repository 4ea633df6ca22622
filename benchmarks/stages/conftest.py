"""Fixtures for the timings of stages."""

from __future__ import annotations

import pytest

from benchmarks.stages.stage_work import backend, has_numba


@pytest.fixture(params=["numpy", "numba"])
def device(request, benchmark):
    """Each available backend; its name is stored in the result."""
    if request.param == "numba" and not has_numba():
        pytest.skip("Numba does not work here")
    benchmark.extra_info["backend"] = request.param
    return backend(request.param)
