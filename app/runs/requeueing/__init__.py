"""Runs that are given back to the queue, as the same attempt or the next one."""
