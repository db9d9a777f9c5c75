"""Checks JSON schemas of clients and tool servers in processes that can be killed."""
