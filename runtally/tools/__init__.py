"""The interface for authors of tools, which the server executes; no I/O."""
