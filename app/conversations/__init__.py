"""Conversations: their transcripts, and the comparison with a history that a client posts."""
