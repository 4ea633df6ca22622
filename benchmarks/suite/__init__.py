"""What the benchmarks train: cases, settings, tables."""
