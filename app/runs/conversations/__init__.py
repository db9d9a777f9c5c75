"""Conversations as clients see them: list, read, fork, delete; each run is a turn."""
