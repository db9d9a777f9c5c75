"""Links by which a conversation is read without signing in."""
