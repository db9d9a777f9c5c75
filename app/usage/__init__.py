"""Token usage of messages and runs, and how providers report it; pure."""
