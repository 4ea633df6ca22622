"""The Numba backend: code compiled for the CPU."""
