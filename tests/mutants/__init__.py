"""Faults that fast tests must find: `python -m tests.mutants` plants each of them and prints who found it."""
