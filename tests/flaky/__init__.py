"""Finds tests that fail because the machine is busy: `python -m tests.flaky`."""
