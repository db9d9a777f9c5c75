"""Conversations: list, read, fork, delete."""
