"""The executor that runs graphs with the Claude Agent SDK."""
