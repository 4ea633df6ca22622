"""The Numba backend: trees depth-first, threads over trees; rounds of boosting by levels."""

from gpuboost.backends.numba.backend import NumbaBackend

__all__ = ["NumbaBackend"]
