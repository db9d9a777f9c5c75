"""Accounts, API keys and browser sessions."""
