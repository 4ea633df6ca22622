"""One tree a thread, depth first."""
