"""Make events from a request."""
