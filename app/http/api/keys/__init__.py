"""API keys of an account."""
