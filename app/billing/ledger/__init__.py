"""The credit ledger as accounts read it."""
