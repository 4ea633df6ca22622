"""Exact SHAP values on the device."""
