"""Calls of clients' own agents."""
