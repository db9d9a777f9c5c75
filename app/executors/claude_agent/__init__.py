"""The only door to the Claude Agent SDK."""
