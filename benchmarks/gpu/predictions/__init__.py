"""Predicted times of the cases on a GPU, from counted work."""
