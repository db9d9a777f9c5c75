"""Batches and their results."""
