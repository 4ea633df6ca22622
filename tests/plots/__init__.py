"""Tests of `gpuboost.plots`: contents and extents of what is drawn, not pixels."""
