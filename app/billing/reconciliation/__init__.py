"""Compares receipts with the provider's own usage and cost reports."""
