"""Intake of runs: from a posted request to a stored run."""
