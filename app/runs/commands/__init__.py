"""Requests to a run under way: messages, stops, decisions."""
