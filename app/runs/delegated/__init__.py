"""Runs that are started for an API key from a stored request."""
