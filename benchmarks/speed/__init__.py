"""Times and memory of fits, and the time of an import."""
