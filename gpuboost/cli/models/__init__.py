"""Training, scores and contents of models."""
