"""Statements of finished months."""
