"""The audit log: what was done to accounts, keys and credit."""
