"""Runs: start, follow, look up, control."""
