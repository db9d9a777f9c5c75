"""Accounts and their credit, for operators."""
