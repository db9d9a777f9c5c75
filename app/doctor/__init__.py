"""Checks an installation by opening its parts as the server does."""
