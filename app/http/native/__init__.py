"""Our own wire."""
