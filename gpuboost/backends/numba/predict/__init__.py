"""Prediction, compiled."""
