"""Opens what dispatches runs."""
