"""Tokens of trusted issuers: keys, checks, and whom they stand for."""
