"""Schedules and their history."""
