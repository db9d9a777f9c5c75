"""Deliver events to the HTTP servers of accounts."""
