"""Model files: arrays in the safetensors format, with JSON for everything else."""
