"""The CUDA backend: the level loop over kernels."""
