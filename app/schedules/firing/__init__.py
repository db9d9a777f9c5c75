"""Firing: starts the run of each due time exactly once."""
