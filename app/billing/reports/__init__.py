"""Receipts and usage as clients read them."""
