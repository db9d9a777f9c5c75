"""Requests of runs: their stored form, and the checks of response schemas and attachments."""
