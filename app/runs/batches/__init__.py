"""Batches: many requests of one graph, each of which is a run."""
