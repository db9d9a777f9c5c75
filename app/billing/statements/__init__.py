"""Statements: what changed an account's credit in a month, made once and signed."""
