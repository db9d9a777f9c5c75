"""OAuth for external MCP servers: tokens, and where they come from."""
