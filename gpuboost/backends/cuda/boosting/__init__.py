"""Rounds of gradient boosting on the device."""
