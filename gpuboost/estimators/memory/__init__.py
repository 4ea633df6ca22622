"""Estimates of the device memory of a fit, made before it starts."""
