"""Runs graphs with the Messages API and an agent loop of our own, without a process per run."""
