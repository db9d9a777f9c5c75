"""Revocation of API keys and of their runs."""
