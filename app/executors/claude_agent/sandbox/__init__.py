"""The bubblewrap sandbox of a CLI with built-in tools."""
