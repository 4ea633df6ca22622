"""Backends that bin, grow trees and predict: NumPy, Numba and CUDA, behind one protocol."""
