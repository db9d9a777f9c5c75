"""Stop the runs of a revoked API key."""
