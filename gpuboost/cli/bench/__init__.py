"""``gpuboost bench``: gpuboost and other installed libraries on this machine."""
