"""Single trees, and access to the trees of an ensemble."""
