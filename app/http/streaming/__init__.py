"""From a run's events to a streamed response; shared by all wires."""
