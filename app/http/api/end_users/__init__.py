"""Erasure of end users."""
