"""Commands to a running run: messages, stops, decisions, permission modes."""
