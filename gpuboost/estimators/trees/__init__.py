"""Single trees, and the views that all ensembles offer of their trees."""
