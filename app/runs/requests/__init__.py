"""Requests of runs: their stored form, and the check of their response schema."""
