"""Rounds of AdaBoost on the device."""
