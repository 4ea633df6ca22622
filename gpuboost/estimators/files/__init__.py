"""Estimators in model files: `save` and `load`."""
