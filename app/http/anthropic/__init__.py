"""The Messages API for clients' own agents."""
