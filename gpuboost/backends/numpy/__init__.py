"""The NumPy backend: the readable reference."""
