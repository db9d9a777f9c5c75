"""A module without a tool."""
