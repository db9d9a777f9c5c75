"""Grants that expire."""
