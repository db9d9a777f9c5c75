"""Runs whose meters disagreed."""
