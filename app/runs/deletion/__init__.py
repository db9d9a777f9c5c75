"""Deletion of the contents of ended runs."""
