"""Prices, receipts, credit and usage reports."""
