"""Misses of the provider's prompt cache: prompts as hashes, their history, the cause of a miss."""
