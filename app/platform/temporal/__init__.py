"""Temporal: the connection to it, which what dispatches runs and what fires schedules share."""
