"""Gradient boosting on the device: gradients, rows of trees, leaf values, losses and rounds."""
