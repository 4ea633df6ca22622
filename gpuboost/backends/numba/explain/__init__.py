"""Exact SHAP values, compiled."""
