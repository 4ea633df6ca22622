"""The rows and features of each tree of a batch."""
