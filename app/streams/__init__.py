"""Remember a run's events and replay them."""
