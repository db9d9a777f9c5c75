"""What MCP servers ask, as questions to a person."""
