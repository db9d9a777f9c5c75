"""Telemetry, from the settings."""
