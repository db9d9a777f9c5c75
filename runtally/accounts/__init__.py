"""Accounts, their API keys and the audit log, as clients manage them."""
