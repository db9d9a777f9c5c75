"""The balance of the caller's account."""
