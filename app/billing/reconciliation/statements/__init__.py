"""What a reconciliation shows to accounts and to operators."""
