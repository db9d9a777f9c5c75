"""Sums that triggers keep, recomputed from ledger and receipts."""
