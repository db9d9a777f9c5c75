"""Event logs: they number the events of runs and replay them to readers."""
