"""Conversations that outlive their runs: whose they are, and what was said in them."""
