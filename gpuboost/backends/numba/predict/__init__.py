"""Compiled prediction."""
