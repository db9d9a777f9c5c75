"""Heartbeats of runs, and the recovery of those whose process died."""
