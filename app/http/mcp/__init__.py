"""The Model Context Protocol: each graph is a tool."""
