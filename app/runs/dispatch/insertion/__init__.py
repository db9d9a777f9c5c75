"""Insertion of runs into the queue."""
