"""Side-by-side measurements of gpuboost and its peers: ``python -m benchmarks --help``."""
