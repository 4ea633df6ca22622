"""The libraries that are compared."""
