"""The time by which messages are charged, and clocks that jump."""
