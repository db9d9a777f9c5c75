"""Meter what agents send: a loopback door to the Messages API."""
