"""The parts of a first run on a GPU."""
