"""The hash chain of receipts and ledger."""
