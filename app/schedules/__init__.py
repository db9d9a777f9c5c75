"""Schedules: start runs at the times of cron expressions."""
