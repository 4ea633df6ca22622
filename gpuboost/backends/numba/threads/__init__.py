"""Thread pools, and barriers between threads."""
