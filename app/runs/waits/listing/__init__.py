"""The calls that wait in all runs of an account."""
