"""Calls that wait for an answer."""
