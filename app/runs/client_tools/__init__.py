"""Runs that wait for the results of client tools."""
