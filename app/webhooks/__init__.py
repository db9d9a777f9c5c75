"""Webhooks: deliver events to the HTTP servers of accounts."""
