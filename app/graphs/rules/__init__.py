"""Rules of a graph: which tool calls are allowed, denied, or wait for a person."""
