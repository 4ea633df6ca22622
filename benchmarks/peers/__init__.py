"""The libraries that gpuboost is compared with."""
