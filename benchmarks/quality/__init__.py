"""Test scores beside those of the peers, and checks that models are equal on all devices."""
