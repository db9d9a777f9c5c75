"""The hash chain of each account's ledger entries and receipts, and signed roots of all chains."""
