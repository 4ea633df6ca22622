"""Times, memory, and the cost of an import."""
