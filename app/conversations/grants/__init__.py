"""What persons have allowed for the rest of a conversation."""
