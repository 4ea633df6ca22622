"""How the time of a fit splits into stages."""
