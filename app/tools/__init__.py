"""Tools and MCP servers, and the runner that executes tool calls."""
