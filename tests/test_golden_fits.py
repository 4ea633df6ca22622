"""Every backend still fits the models that `tests.golden_fits` recorded."""

from __future__ import annotations

import pytest

from tests import cuda_shim
from tests.golden_fits import BACKENDS, GoldenFit, golden_fits, recorded

FITS = [(fit, backend) for fit in golden_fits() for backend in BACKENDS[fit.n_rows]]
SHARE = 10  # every test run checks one fit in ten; ``-m slow`` checks all
needs_compiler = pytest.mark.skipif(
    cuda_shim.why_not_available() is not None and not cuda_shim.must_be_available(),
    reason=str(cuda_shim.why_not_available()),
)


def test_all_fits_are_recorded() -> None:
    assert list(recorded()) == [str(fit) for fit in golden_fits()]
    assert len(set(recorded().values())) > len(recorded()) // 2
    assert len(FITS) >= 300


def check(fit: GoldenFit, backend: str, request: pytest.FixtureRequest) -> None:
    if backend == "cuda":
        request.getfixturevalue("machine")
    assert fit.fingerprint(backend) == recorded()[str(fit)]


def parameters(fits: list[tuple[GoldenFit, str]]) -> list:
    """Parameters for ``parametrize``; fits on CUDA need a compiler for the kernels."""
    marks = {"cuda": [needs_compiler]}
    return [
        pytest.param(fit, backend, marks=marks.get(backend, []), id=f"{backend}: {fit}")
        for fit, backend in fits
    ]


@pytest.mark.parametrize(("fit", "backend"), parameters(FITS[::SHARE]))
def test_a_tenth(fit: GoldenFit, backend: str, request: pytest.FixtureRequest) -> None:
    check(fit, backend, request)


@pytest.mark.slow
@pytest.mark.parametrize(("fit", "backend"), parameters(FITS))
def test_all(fit: GoldenFit, backend: str, request: pytest.FixtureRequest) -> None:
    check(fit, backend, request)
