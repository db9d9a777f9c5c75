"""Conversations as clients see them: runs are their turns."""
