"""Receipts in the formats of other tools."""
