"""Code shared by the NumPy and Numba backends."""
