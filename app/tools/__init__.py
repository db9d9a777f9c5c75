"""Run a tool safely."""
