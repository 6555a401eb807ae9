"""Benches: ourselves and our peers, measured in one run on one machine."""
