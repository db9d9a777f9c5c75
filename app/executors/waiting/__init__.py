"""Calls of a run that wait for an answer from outside, and questions."""
