"""Arrays, kernels, launches and copies, whatever they are for."""
