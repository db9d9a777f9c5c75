"""Exports for tools of finance."""
