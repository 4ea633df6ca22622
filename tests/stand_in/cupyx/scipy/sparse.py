"""``cupyx.scipy.sparse``."""

from tests.fakes.fake_cupy import csr_matrix

__all__ = ["csr_matrix"]
