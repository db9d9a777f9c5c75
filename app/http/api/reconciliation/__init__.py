"""Receipts compared with the provider's reports."""
