"""gpuboost's models as those of scikit-learn and treelite, and in the ONNX format."""
