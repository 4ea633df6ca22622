"""User input: read, checked and binned."""
