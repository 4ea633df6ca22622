"""Single trees, and what all ensembles show of theirs."""
