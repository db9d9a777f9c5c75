"""Titles of conversations by a model, in place of how their first question begins."""
