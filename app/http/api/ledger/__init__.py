"""The credit ledger of an account."""
