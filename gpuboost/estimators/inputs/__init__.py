"""A user's X, y and parameters, read and judged for a fit."""
