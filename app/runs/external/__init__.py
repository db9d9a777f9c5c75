"""Runs of clients' own agents: each session of one is a run."""
