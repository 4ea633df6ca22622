"""Times that cases should take on a GPU, from counted work."""
