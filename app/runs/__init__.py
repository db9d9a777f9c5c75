"""Runs: acceptance, execution, event publishing, recovery, deletion."""
