"""The trees of a round by all threads, level by level."""
