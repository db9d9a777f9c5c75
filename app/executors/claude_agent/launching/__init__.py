"""Starts CLI processes, and keeps idle ones for later runs."""
