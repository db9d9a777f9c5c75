"""Calls of runs that wait for answers, and runs that are parked meanwhile."""
