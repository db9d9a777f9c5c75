"""Accounts, their API keys and budgets, and the audit log, as clients manage them."""
