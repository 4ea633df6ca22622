"""Exact SHAP values of trees: their paths, and the quadrature that adds them up."""
