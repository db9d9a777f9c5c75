"""Fields of requests: what they may contain, and how that is checked; pure."""
