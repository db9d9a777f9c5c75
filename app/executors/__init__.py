"""Executors: the port, what every executor needs, and the implementations."""
