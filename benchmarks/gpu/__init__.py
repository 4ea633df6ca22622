"""Fits, predictions and histograms on an NVIDIA GPU, beside the peers and what the machine can do.

``python -m benchmarks.gpu`` measures everything, each case in a process of its own, and keeps what
is done: a second call goes on where the first one stopped, if it is given the same result file.
Peers come with the extras ``bench-gpu12`` and ``bench-gpu13``; CONTRIBUTING.md says how to install
them without internet.
"""
