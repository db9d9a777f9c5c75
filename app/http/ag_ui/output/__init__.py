"""The events that an AG-UI client gets."""
