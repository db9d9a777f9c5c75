"""A run's usage: what the SDK reports, compared with what the gateway measured."""
