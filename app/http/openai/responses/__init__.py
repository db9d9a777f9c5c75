"""`responses`: what clients post, and the answer as typed events or as one response."""
