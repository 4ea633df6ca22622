"""Fits, predictions and histograms on an NVIDIA GPU, beside the peers and the device's limits.

``python -m benchmarks.gpu`` measures everything, each case in its own process, and writes each
record as soon as it is finished, so another call with the same result file continues where the
first one stopped. The extras ``bench-gpu12`` and ``bench-gpu13`` install the peers; CONTRIBUTING.md
explains how to install them without internet access.
"""
