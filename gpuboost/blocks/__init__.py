"""Data larger than memory: its sources, and its codes in blocks of rows."""
