"""Telemetry that clients' own agents send, on its way to the operator's receiver."""
