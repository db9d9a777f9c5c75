"""Schedules in Temporal: each row has one there, which notices its due times. The row decides about them."""
