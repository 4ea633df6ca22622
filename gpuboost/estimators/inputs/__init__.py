"""Reading and checking a user's X, y and parameters for a fit."""
