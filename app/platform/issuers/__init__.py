"""Issuers of tokens, and the issuer at which persons sign in, as settings name them."""
