"""External MCP servers: connections, transports with limits, and their tools as tools of a run."""
