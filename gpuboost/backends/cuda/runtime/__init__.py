"""Arrays, kernels, launches and copies, independent of what is computed."""
