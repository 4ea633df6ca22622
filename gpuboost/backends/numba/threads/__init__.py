"""Threads of our own, and barriers between them."""
