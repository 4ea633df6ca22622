"""Rows and allowed features of each tree of a batch."""
