"""The cases, settings and tables of the benchmarks."""
