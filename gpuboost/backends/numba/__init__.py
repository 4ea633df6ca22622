"""The Numba backend: one compiled call per tree, threads over trees. See `backend.py`."""

from gpuboost.backends.numba.backend import NumbaBackend

__all__ = ["NumbaBackend"]
