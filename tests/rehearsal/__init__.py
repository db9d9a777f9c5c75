"""Rehearsal: what a new release of an SDK changes, before its pin is moved."""
