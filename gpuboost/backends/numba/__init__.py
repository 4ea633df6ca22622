"""The Numba backend: compiled for the CPU."""
