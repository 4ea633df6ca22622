"""Where the work is done: NumPy, Numba or CUDA, behind one protocol."""
