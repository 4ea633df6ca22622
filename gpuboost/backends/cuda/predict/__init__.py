"""Prediction on the device."""
