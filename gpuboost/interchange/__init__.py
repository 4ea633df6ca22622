"""Models of other libraries as gpuboost's, and gpuboost's models as those of other libraries."""
