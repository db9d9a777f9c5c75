"""Bytes of the provider: decompressed, split into events, and what has arrived of a message."""
