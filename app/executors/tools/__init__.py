"""Calls of our tools, and of those of MCP servers, during a run."""
