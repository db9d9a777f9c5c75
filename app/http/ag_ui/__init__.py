"""The wire of AG-UI, the Agent-User Interaction protocol."""
