"""Budgets: limits of what accounts, keys, end users, tags and graphs may spend."""
