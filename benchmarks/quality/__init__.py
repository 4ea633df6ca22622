"""Test scores beside those of the peers; one model on any device."""
