"""The credit of accounts."""
